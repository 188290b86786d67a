"""Click extensions: commands made of functions, lazily imported groups, and exit codes.

```
@cli_command("pause")
def pause_command(*, reason: str = option("What `status` shows.", default="paused")) -> None: ...
```

A parameter's name is the option's name, and its annotation distinguishes flags, numbers and repeated options.
"""

import gc
import inspect
import logging
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import click

from core import errors
from core.clock import SystemClock
from core.layout import CONFIG_FILE


class ExitCode(IntEnum):
    """Exit codes of commands."""

    OK = 0  # everything requested is done
    SOME_FAILED = 1  # done, but pages failed, lines were no URLs, `verify` found faults, or pictures differ
    INPUT = 2  # an argument, or a file that it names, is invalid
    UNAVAILABLE = 3  # something must be installed or started first; see `weboid doctor`
    DISK_FULL = 4  # free some space, then run the same command again
    COLLECTION = 5  # the collection is in use, or of another version
    STOPPED = 6  # stopped on request; the same command continues where it stopped
    INTERNAL = 70  # internal error


def exit_code_for(error: errors.WeboidError) -> ExitCode:
    """Return the exit code of an error."""
    match error:
        case errors.InputError():
            return ExitCode.INPUT
        case errors.DiskFullError():
            return ExitCode.DISK_FULL
        case errors.CollectionInUseError() | errors.CollectionVersionError():
            return ExitCode.COLLECTION
        case errors.UnavailableError() | errors.TransientError():
            return ExitCode.UNAVAILABLE
        case _:
            return ExitCode.INTERNAL


CLOCK = SystemClock()
QUIET = "weboid.quiet"
JSON = "weboid.json"
COMMANDS: dict[str, dict[str, str]] = tomllib.loads(  # of lazy groups
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
# Former names of commands and options, which still work, and names used by other programs.
_FORMER = tomllib.loads(Path(__file__).with_name("former_names.toml").read_text(encoding="utf-8"))
FORMER_NAMES: dict[str, str] = _FORMER["commands"]
FORMER_OPTIONS: dict[str, str] = _FORMER["options"]
VERBS: dict[str, str] = _FORMER["verbs"]


def _plain(option: str) -> str:
    """Return the option's name as browsertrix-crawler compares it: `--seed-file` is `--seedFile`."""
    return re.split("[=.]", option, maxsplit=1)[0].replace("-", "").lower()


_SHORT_HELP = Path(__file__).with_name("short_help.toml")  # of lazy groups, by path


def is_set(flag: str) -> bool:
    """Return True if the command that runs was given the flag of all commands: `QUIET` or `JSON`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().meta.get(flag))


def _set_flag(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 of click
    meta = context.find_root().meta
    if parameter.name == "as_json":
        meta[JSON] = value
    elif value:
        meta[QUIET] = parameter.name == "quiet"
        logging.getLogger().setLevel(logging.ERROR if meta[QUIET] else logging.INFO)


def _common_options() -> list[click.Parameter]:
    """Return the options that every command has."""
    return [
        make(names, help=text, is_flag=True, expose_value=False, callback=_set_flag)
        for make, names, text in (
            (RenamedOption, ("--json", "as_json"), "JSON for machines."),
            (click.Option, ("-q", "--quiet"), "Print errors and results only."),  # no default of weboid.toml
            (click.Option, ("-v", "--verbose"), "Log more details."),
        )
    ]


class ShortHelpCommand(click.Command):
    """Command with `-h` for its help, too."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Return the names, which do not depend on the command above."""
        return ["-h", *super().get_help_option_names(ctx)]


class ConfiguredCommand(ShortHelpCommand):
    """Command whose option defaults come from ``weboid.toml`` of the collection it works on."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Create the context; ConfigError: the collection's configuration is not valid."""
        options = {name: each for each in self.params for name in each.opts}
        folder = options.get("--collection")
        path = None if folder is None else _config_path(folder, args)
        if path is None or not path.exists():
            return self._context(info_name, args, parent, **extra)
        from weboid.app.collection_config import read_config  # a quarter of a short command's start

        config = read_config(path.parent)
        command = f"{parent.command_path if parent else ''} {info_name}".partition(" ")[2]
        keys = {
            name[2:].replace("-", "_"): (each.name or "", bool if each.is_flag else list if each.multiple else str)
            for option, each in options.items()
            if isinstance(each, click.Option) and option not in {"--collection", "--profile"}
            for name in (option, *getattr(each, "former", ()))
            if name.startswith("--")
        }
        defaults = config.check_options(command, keys)
        profile = options.get("--profile")
        if profile is not None and profile.name is not None:
            preset = "" if config.preset else f"@{profile.default}"
            defaults[profile.name] = f"{path}{preset}"
        try:
            context = self._context(info_name, args, parent, default_map=defaults, **extra)
        except click.BadParameter as error:
            name = (error.param.name if error.param else None) or ""
            source = error.ctx.get_parameter_source(name) if error.ctx else None
            if source is not click.core.ParameterSource.DEFAULT_MAP:
                raise
            key = next(each for each, (parameter, _) in keys.items() if parameter == name)
            raise errors.ConfigError(f"{config.option_place(command, key)}: {error.message}") from error
        if profile is None or profile.name is None:
            return context
        named = context.params.get(profile.name)
        if isinstance(named, str) and CONFIG_FILE not in named:
            is_file = "/" in named or named.endswith(".toml")
            context.params[profile.name] = f"{path}@{Path(named).absolute() if is_file else named}"
        return context

    def _context(
        self, info_name: str | None, args: list[str], parent: click.Context | None, **extra: Any
    ) -> click.Context:
        """Create the context; unknown options, or a word for a URL, are answered with what is near."""
        words = list(args)  # click takes them from the list
        try:
            context = super().make_context(info_name, args, parent, **extra)
            for param in self.params:
                value = context.params.get(param.name or "")
                if param.human_readable_name.strip("[].") in _URLS:
                    _check_url_words(context, value if isinstance(value, tuple) else (value,))
            return context
        except click.NoSuchOption as error:
            shown = {each for param in self.params for each in param.opts}
            options = shown | {each for param in self.params for each in getattr(param, "former", ())}
            known = {_plain(name): option for option, names in FORMER_OPTIONS.items() for name in names.split()}
            known |= {_plain(name): hint for name, hint in _FORMER["hints"].items()}
            hints = {}
            for word in dict.fromkeys(each.partition("=")[0] for each in words if each.startswith("-")):
                hint = "" if word in options else known.get(_plain(word), "")
                hint = hint if hint in options else known.get(_plain(hint), hint)
                if hint.split(" ")[0] in options or (hint[:2] not in {"", "--"} and info_name in {"archive", "crawl"}):
                    verb = "It is" if hint.startswith("not ") else "Use"
                    hints[word] = f"No such option '{word}'. {verb} {hint}."
            if error.option_name in hints:
                raise click.UsageError("\n".join(hints.values()), ctx=error.ctx) from error
            near = [each for each in error.possibilities or () if each in shown]
            raise click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx) from error
        except click.BadParameter as error:
            value = error.message.partition("' is not one of ")[0].lstrip("'")
            text = error.message.replace("a valid integer range", "a whole number")
            text = text.replace("a valid float range", "a number")
            if value in _FORMER["values"]:
                text = f"{error.message} Use {_FORMER['values'][value]}."
            if text == error.message:
                raise
            raise click.BadParameter(text, error.ctx, error.param, error.param_hint) from error


_URLS = {"URL", "SEED", "URL|SEEN SHOWN"}  # metavars of arguments


def _check_url_words(context: click.Context, words: Sequence[str | None]) -> None:
    """Raise UsageError for a file, or a single word, where URLs are expected, with the option or command that is near."""
    takes_list = any("--list" in each.opts for each in context.command.params)
    for word in words:
        if takes_list and word and "://" not in word and Path(word).is_file():
            hint = f"read its URLs with --list {word[:100]}, or write http://{word[:100]} for the host"
            raise click.UsageError(f"{word[:100]} is a file: {hint}.", ctx=context)
    text = words[0] or "" if len(words) == 1 else ""
    if not re.fullmatch(r"[A-Za-z][A-Za-z_-]+", text) or Path(text).exists():
        return
    near = _near_command(context.find_root().command, text.lower(), context.command_path)
    hint = f" Did you mean `{near}`?" if near else " Write it in full, such as https://example.org/."
    raise click.UsageError(f"{text[:100]} is neither a URL nor a file.{hint}", ctx=context)


def _near_command(root: click.Command, word: str, typed: str) -> str:
    """Return the path of the command named like `word`, first of the group typed; "" without one."""
    paths: dict[str, list[str]] = {}
    waiting = [("weboid", root)]
    while waiting:
        path, group = waiting.pop()
        if not isinstance(group, click.Group):
            continue
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None and not command.hidden:
                paths.setdefault(name, []).append(f"{path} {name}")
                waiting.append((f"{path} {name}", command))
    name = next(iter(get_close_matches(word, paths, n=1, cutoff=0.75)), "")
    return min(
        paths.get(name, ()), key=lambda path: (path.split()[:2] != typed.split()[:2], path.count(" "), path), default=""
    )


def _config_path(folder: click.Parameter, args: list[str]) -> Path | None:
    """Return the configuration of the collection that the arguments, or else the environment, name."""
    named = os.environ.get(str(folder.envvar or ""), "") or folder.default
    for word, following in zip(args, [*args[1:], ""], strict=False):
        if word == "--":
            break
        if word == "--collection":
            named = following
        elif word.startswith("--collection="):
            named = word.partition("=")[2]
    return Path(named) / CONFIG_FILE if isinstance(named, str | Path) else None


class CommandGroup(ShortHelpCommand, click.Group):
    """Group that knows other programs' verbs, suggests misspelt commands' names, and lists hidden ones."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, or of the verb that is used here; None without one."""
        return self._find(ctx, cmd_name) or self._find(ctx, VERBS.get(cmd_name, ""))

    def _find(self, ctx: click.Context, name: str) -> click.Command | None:
        return super().get_command(ctx, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; NoSuchCommand with names like it."""
        is_name = not args[0].startswith("-") and not ctx.resilient_parsing
        if is_name and self.get_command(ctx, args[0]) is None:
            raise click.NoSuchCommand(args[0], possibilities=self.list_commands(ctx), ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their short help, and the names of the hidden ones."""
        self._write_sections(ctx, formatter)
        if hidden := self._hidden_names():
            formatter.write_paragraph()
            formatter.write_text(f"Rarely used: {', '.join(hidden)}; each has --help.")

    def _write_sections(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_commands(ctx, formatter)

    def _hidden_names(self) -> list[str]:
        return sorted(name for name, each in self.commands.items() if each.hidden)


class LazyGroup(CommandGroup):
    """Group whose commands are imported on use, which keeps `weboid --help` fast."""

    def __init__(
        self,
        *args: Any,
        commands_at: Mapping[str, str],
        sections: Mapping[str, str] | None = None,
        rare: str = "",
        **kwargs: Any,
    ) -> None:
        """Create the group from names and ``module`` (its `command`) or ``module:object`` paths.

        `sections`: blank-separated names below titles of the help; `rare`: names of hidden commands.
        """
        super().__init__(*args, **kwargs)
        self._commands_at = commands_at
        self._rare = rare.split()
        visible = sorted(set(commands_at) - set(self._rare))
        self._sections = sections or {"Commands": " ".join(visible)}

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return every command's name."""
        return sorted(self._commands_at)

    def _find(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in self._commands_at:
            return None
        module, _, attribute = self._commands_at[name].partition(":")
        command = getattr(import_module(module), attribute or "command")
        assert isinstance(command, click.Command)
        command.hidden = name in self._rare
        is_group = isinstance(command, LazyGroup) and not isinstance(command, GroupWithDefault)
        if not is_group and not gc.isenabled():  # as `weboid.__main__` leaves it
            gc.freeze()
            gc.enable()
        return command

    def _hidden_names(self) -> list[str]:
        return self._rare

    def _write_sections(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table of short helps, without importing them."""
        path: list[str] = []
        at: click.Context | None = ctx
        while at is not None and at.parent is not None:
            path.insert(0, at.info_name or "")
            at = at.parent
        known = tomllib.loads(_SHORT_HELP.read_text(encoding="utf-8")).get(" ".join(path), {})
        names = self.list_commands(ctx)
        if set(names) != set(known):
            super()._write_sections(ctx, formatter)
            return
        longest = max(map(len, names))
        helps = {
            name: click.Command(name, help=known[name]).get_short_help_str(formatter.width - 6 - longest)
            for name in names
        }
        for title, members in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, helps[name]) for name in members.split()], col_max=longest + 2)


class GroupWithDefault(ConfiguredCommand, CommandGroup):
    """Group with a default action: a first word that names no subcommand is its own argument."""

    allow_interspersed_args = True  # as a command: `weboid archive URL --json`

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, or leave them to the subcommand that the first one names."""
        if args and self.get_command(ctx, args[0]) is not None:
            ctx.invoked_subcommand = args[0]
            ctx.args = list(args)
            return ctx.args
        if args and re.fullmatch("[a-z][a-z-]+", args[0]) and not ctx.resilient_parsing:
            near = get_close_matches(args[0], self.list_commands(ctx))
            if near:
                raise click.NoSuchCommand(args[0], possibilities=near, ctx=ctx)
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand that was named, or this one."""
        if ctx.invoked_subcommand is None:
            return click.Command.invoke(self, ctx)
        name, command, rest = self.resolve_command(ctx, ctx.args)
        assert command is not None
        with command.make_context(name, rest, parent=ctx) as below:
            return command.invoke(below)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return its own parameters; no arguments where a shell, or a usage, is for subcommands."""
        params = super().get_params(ctx)
        if ctx.command is self and not ctx.resilient_parsing:
            return params
        return [each for each in params if not isinstance(each, click.Argument)]

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage of a plain command; subcommands are listed below the options."""
        return click.Command.collect_usage_pieces(self, ctx)


class LazyGroupWithDefault(LazyGroup, GroupWithDefault):
    """Group with a default action, whose subcommands are imported on use."""


@dataclass(frozen=True, eq=False)
class _ParameterSpec:
    """Click parameter, written as the default of a function's parameter."""

    make: Callable[..., click.Parameter]
    names: tuple[str, ...]
    attributes: dict[str, Any]

    def parameters(self, name: str, annotation: Any) -> list[click.Parameter]:
        attributes = {**_inferred(annotation, self), **self.attributes}
        if "within" in attributes:
            attributes["type"] = click.IntRange(*attributes.pop("within"))
        if "choices" in attributes:
            attributes["type"] = click.Choice([str(each) for each in attributes.pop("choices")])
        names = self.names
        if self.make is RenamedOption and not names:
            names = (f"--{name.strip('_').replace('_', '-')}",)
        return [self.make((*names, name), **attributes)]


@dataclass(frozen=True, eq=False)
class _OptionGroup:
    """Value that a function makes from options of its own."""

    members: dict[str, inspect.Parameter]
    make: Callable[..., Any]

    def parameters(self, _name: str, _annotation: Any) -> list[click.Parameter]:
        return _click_parameters(self.members)


class RenamedOption(click.Option):
    """Option with former names, which still work and are not shown."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.former = FORMER_OPTIONS.get(self.opts[0], "").split()

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Add the option under all its names."""
        shown = self.opts
        self.opts = [*shown, *self.former]
        super().add_to_parser(parser, ctx)
        self.opts = shown


def option(help_text: str | None = None, *names: str, **attributes: Any) -> Any:
    """Return an option as a parameter's default, shown in its help; `names` where they differ from its name.

    Attributes are click's, `within`, the least and the greatest number (None: no bound), and `choices`: texts, or an
    enumeration of texts.
    """
    default = attributes.get("default")
    attributes.setdefault("show_default", default not in {None, ""} and default is not False)
    return _ParameterSpec(RenamedOption, names, {"help": help_text, **attributes})


def argument(metavar: str | None = None, **attributes: Any) -> Any:
    """Return an argument as the default of a parameter."""
    return _ParameterSpec(click.Argument, (), {"metavar": metavar, **attributes})


def option_dict(options: dict[str, Any], make: Callable[..., Any] = dict) -> Any:
    """Return a parameter's default: what `make` returns for the options, which have no annotations."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return _OptionGroup({name: inspect.Parameter(name, keyword, default=each) for name, each in options.items()}, make)


def made_by(make: Callable[..., Any]) -> Any:
    """Return a parameter's default: what `make` returns, whose parameters are options themselves."""
    return _OptionGroup(dict(inspect.signature(make, eval_str=True).parameters), make)


def cli_command(
    name: str, group: click.Group | None = None, *, has_json: bool = True, **attributes: Any
) -> Callable[[Callable[..., int | None]], Any]:
    """Make a click command of a function, in `group` if there is one; None is returned as success.

    `has_json`: it has the option `--json`, which `weboid.cli.support.options.output` follows.
    """

    def decorate(function: Callable[..., int | None]) -> click.Command:
        parameters = dict(inspect.signature(function).parameters)

        def callback(**values: Any) -> int:
            code = function(**_arguments(parameters, values))
            return ExitCode.OK if code is None else code

        callback.__doc__ = function.__doc__
        register = click.command if group is None else group.command
        attributes.setdefault("cls", ConfiguredCommand)
        common = [each for each in _common_options() if has_json or each.name != "as_json"]
        params = [*_click_parameters(parameters), *common]
        command: click.Command = register(name, params=params, **attributes)(callback)
        return command

    return decorate


def _click_parameters(parameters: dict[str, inspect.Parameter]) -> list[click.Parameter]:
    return [
        each
        for name, parameter in parameters.items()
        for each in parameter.default.parameters(name, parameter.annotation)
    ]


def _arguments(parameters: dict[str, inspect.Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """Return the function's arguments: click's values, with each option group made from its members."""
    return {
        name: spec.make(**_arguments(spec.members, values))
        if isinstance(spec := parameter.default, _OptionGroup)
        else values[name]
        for name, parameter in parameters.items()
    }


def _inferred(annotation: Any, spec: _ParameterSpec) -> dict[str, Any]:
    """Return what the annotation says: a flag, a number, any count of values, or none."""
    if isinstance(annotation, UnionType):
        kinds = [each for each in get_args(annotation) if each is not type(None)]
        return {**_inferred(kinds[0], spec), "default": None} if len(kinds) == 1 else {}
    is_option = spec.make is RenamedOption
    if get_origin(annotation) is tuple and "nargs" not in spec.attributes:
        return {"multiple": True} if is_option else {"nargs": -1}
    if annotation is bool and is_option:
        return {} if any("/" in each for each in spec.names) else {"is_flag": True}
    is_number = annotation in {int, float} and "type" not in spec.attributes
    return {"type": annotation} if is_number else {}
