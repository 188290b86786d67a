"""`weboid profile`: which profiles there are, what holds under one, and what is wrong with one."""

import json
from dataclasses import asdict, fields
from typing import Any

import click

from core.errors import ConfigError
from core.settings import Settings
from crawler.cli.exits import Exit
from crawler.cli.options import json_option
from crawler.cli.tables import clean, table, width
from crawler.job import toml_value
from crawler.profile_check import Finding, faults, warnings
from crawler.profiles import layers, load_profile, names, said_by, settings_of

DEFAULT = "default"
_SECRET_URLS = (("index", "url"), ("proxy", "dedup_url"), ("frontier", "url"))


@click.group("profile")
def command() -> None:
    """Look at profiles: what a crawl or a page is archived with.

    A profile is a TOML file; docs/settings.md has its keys. NAME is one that comes with the program, or
    the path of a file. A profile may extend another one: extends = "thorough".
    """


@command.command("list")
@json_option
def list_(*, as_json: bool) -> int:
    """The profiles that come with the program, and what each is for."""
    found = {name: _purpose(name) for name in names()}
    if as_json:
        profiles = [{"name": name, "purpose": purpose} for name, purpose in found.items()]
        click.echo(json.dumps({"profiles": profiles}, ensure_ascii=False))
        return Exit.OK
    for line in table(("name", "purpose"), list(found.items()), columns=width()):
        click.echo(line)
    return Exit.OK


@command.command("show")
@click.argument("name", default=DEFAULT)
@click.option("--changed", is_flag=True, help="Only what is not as by default.")
@json_option
def show(*, name: str, changed: bool, as_json: bool) -> int:
    """Every setting that holds under NAME, and who says it.

    A line that begins with + differs from the default, which follows it.
    """
    chain = layers(name)
    settings = settings_of(chain)
    rows = list(_rows(settings, chain))
    if changed:
        rows = [row for row in rows if row["value"] != row["default"]]
    sheets: list[dict[str, Any]] = [
        {"prefix": sheet.prefix, **sheet.changes()} for sheet in settings.sheets
    ]
    if as_json:
        facts = {
            "profile": chain[0].source,
            "extends": [layer.source for layer in chain[1:]],
            "settings": rows,
            "sheets": sheets,
        }
        click.echo(json.dumps(facts, ensure_ascii=False))
        return Exit.OK
    for line in _lines(rows):
        click.echo(line)
    for each in settings.sheets:
        click.echo(f"\n[[sheet]]\n+ prefix = {toml_value(each.prefix)}")
        for group, keys in each.changes().items():
            for key, value in keys.items():
                click.echo(f"+ {group}.{key} = {toml_value(value)}")
    return Exit.OK


@command.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@json_option
def check(*, files: tuple[str, ...], as_json: bool) -> int:
    """Say every fault of a profile, and what in it is seldom meant.

    Nothing is started, and nothing asked for. The exit code is 2 when a profile cannot be used.
    """
    wrong = False
    for file in files:
        bad, doubtful = _looked_at(file)
        wrong = wrong or bool(bad)
        if as_json:
            facts = {
                "file": file,
                "usable": not bad,
                "faults": [_facts(each) for each in bad],
                "warnings": [_facts(each) for each in doubtful],
            }
            click.echo(json.dumps(facts, ensure_ascii=False))
            continue
        for each in bad:
            click.echo(f"fault    {clean(each.where)}: {clean(each.text)}")
        for each in doubtful:
            click.echo(f"warning  {clean(each.where)}: {clean(each.text)}")
        if not bad:
            click.echo(f"{clean(file)} can be used.")
    return Exit.INPUT if wrong else Exit.OK


def _looked_at(file: str) -> tuple[list[Finding], list[Finding]]:
    """(faults, warnings) of a profile."""
    try:
        chain = layers(file)
    except ConfigError as error:
        return [Finding(file, str(error))], []
    bad = faults(chain)
    return bad, [] if bad else warnings(chain, settings_of(chain))


def _facts(finding: Finding) -> dict[str, Any]:
    return {key: value for key, value in asdict(finding).items() if value}


def _purpose(name: str) -> str:
    """The comment at the head of a profile, up to its first full stop."""
    head = []
    for line in layers(name)[0].text.splitlines():
        if not line.startswith("#"):
            break
        head.append(line.lstrip("# ").strip())
    load_profile(name)
    return " ".join(head).partition(". ")[0].rstrip(".")


def _rows(settings: Settings, chain: Any) -> Any:
    """What holds, key by key."""
    usual = Settings()
    for group in fields(settings):
        if group.name == "sheets":
            continue
        values, defaults = getattr(settings, group.name), getattr(usual, group.name)
        for each in fields(values):
            yield {
                "group": group.name,
                "key": each.name,
                "value": _shown(group.name, each.name, getattr(values, each.name)),
                "default": getattr(defaults, each.name),
                "from": said_by(chain, group.name, each.name) or "default",
            }


def _shown(group: str, key: str, value: Any) -> Any:
    """The value; of an address that holds a password, without it."""
    if (group, key) in _SECRET_URLS:
        return _without_password(value)
    if (group, key) == ("egress", "via"):
        return {pattern: _without_password(via) for pattern, via in value.items()}
    return value


def _without_password(address: str) -> str:
    scheme, separator, rest = address.partition("://")
    user, at, host = rest.rpartition("@")
    if not at:
        return address
    return f"{scheme}{separator}{user.partition(':')[0]}:…@{host}"


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    group = ""
    for row in rows:
        if row["group"] != group:
            group = row["group"]
            lines += ["", f"[{group}]"] if lines else [f"[{group}]"]
        differs = row["value"] != row["default"]
        note = ""
        if row["from"] != "default":
            note = f"  # {row['from']}"
            note += f"; default {toml_value(row['default'])}" if differs else "; as by default"
        lines.append(f"{'+' if differs else ' '} {row['key']} = {toml_value(row['value'])}{note}")
    return lines or ["Nothing differs from the defaults."]
