"""Former names of commands and options, which still work, and those of other programs."""

import tomllib
from pathlib import Path

import click

_NAMES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FORMER_NAMES: dict[str, str] = _NAMES["commands"]
FORMER_OPTIONS: dict[str, str] = _NAMES["options"]
VERBS: dict[str, str] = _NAMES["verbs"]
OPTION_HINTS: dict[str, str] = _NAMES["hints"]


def with_current_name(args: list[str]) -> list[str]:
    """Return the arguments with a command's present name for a former one, and report that."""
    for former in sorted(FORMER_NAMES, key=len, reverse=True):
        words, present = former.split(), FORMER_NAMES[former].split()
        flag = words.pop() if words[-1].startswith("--") else ""
        rest = args[len(words) :]
        is_present = flag and rest[:1] == present[len(words) :][:1]
        typed = [each if each in words else VERBS.get(each, each) for each in args[: len(words)]]
        if typed != words or (flag and flag not in rest) or is_present:
            continue
        if flag:
            rest.remove(flag)
        click.echo(f"`weboid {former}` is now `weboid {FORMER_NAMES[former]}`.", err=True)
        return [*present, *rest]
    return args
