"""Commands whose options and arguments are the parameters of their functions.

```
@cli_command("pause")
def pause_command(*, reason: str = option("What `status` shows.", default="paused")) -> None: ...
```

A parameter's name is the option's name, and its annotation tells flags, numbers and repeated options.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, get_args, get_origin

import click

from weboid.cli.support.command_base import ExitCode


@dataclass(frozen=True, eq=False)
class _Declared:
    """Click parameter, written as the default of a function's parameter."""

    make: Callable[..., click.Parameter]
    names: tuple[str, ...]
    attributes: dict[str, Any]

    def parameters(self, name: str, annotation: Any) -> list[click.Parameter]:
        declared = {**_inferred(annotation, self), **self.attributes}
        names = self.names
        if self.make is click.Option and not names:
            names = (f"--{name.strip('_').replace('_', '-')}",)
        return [self.make((*names, name), **declared)]


@dataclass(frozen=True, eq=False)
class _Alternatives:
    """Flags of which the last one given is the value; the first is the default."""

    flags: dict[str, str]

    def parameters(self, name: str, _annotation: Any) -> list[click.Parameter]:
        first = next(iter(self.flags))
        return [
            click.Option(
                (f"--{value}", name),
                flag_value=value,
                help=text,
                **({"default": True} if value == first else {}),
            )
            for value, text in self.flags.items()
        ]


@dataclass(frozen=True, eq=False)
class _Group:
    """Value that a function makes from options of its own; without a function a dictionary."""

    members: dict[str, inspect.Parameter]
    make: Callable[..., Any]

    def parameters(self, _name: str, _annotation: Any) -> list[click.Parameter]:
        return _click_parameters(self.members)


def option(help_text: str | None = None, *names: str, **attributes: Any) -> Any:
    """Return an option as the default of a parameter; `names` where they differ from its name.

    Its help shows the default value, if it has one.
    """
    default = attributes.get("default")
    attributes.setdefault("show_default", default not in {None, ""} and default is not False)
    return _Declared(click.Option, names, {"help": help_text, **attributes})


def argument(metavar: str | None = None, **attributes: Any) -> Any:
    """Return an argument as the default of a parameter."""
    return _Declared(click.Argument, (), {"metavar": metavar, **attributes})


def alternatives(**flags: str) -> Any:
    """Return flags for one parameter, with their help; the first is the default."""
    return _Alternatives(flags)


def option_dict(options: dict[str, Any]) -> Any:
    """Return a parameter's default: a dictionary of options, which have no annotations."""
    members = {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=each)
        for name, each in options.items()
    }
    return _Group(members, dict)


def made_by(make: Callable[..., Any]) -> Any:
    """Return a parameter's default: what `make` returns, whose parameters are options themselves."""
    return _Group(dict(inspect.signature(make).parameters), make)


def cli_command(
    name: str, group: click.Group | None = None, **attributes: Any
) -> Callable[[Callable[..., int | None]], Any]:
    """Make a click command of a function, in `group` if there is one; None is returned as success."""

    def decorate(function: Callable[..., int | None]) -> click.Command:
        parameters = dict(inspect.signature(function).parameters)

        def callback(**values: Any) -> int:
            code = function(**_arguments(parameters, values))
            return ExitCode.OK if code is None else code

        callback.__doc__ = function.__doc__
        register = click.command if group is None else group.command
        made: click.Command = register(name, params=_click_parameters(parameters), **attributes)(
            callback
        )
        return made

    return decorate


def _click_parameters(parameters: dict[str, inspect.Parameter]) -> list[click.Parameter]:
    return [
        each
        for name, parameter in parameters.items()
        for each in parameter.default.parameters(name, parameter.annotation)
    ]


def _arguments(parameters: dict[str, inspect.Parameter], values: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, parameter in parameters.items():
        given = parameter.default
        if isinstance(given, _Group):
            found[name] = given.make(**_arguments(given.members, values))
        else:
            found[name] = values[name]
    return found


def _inferred(annotation: Any, declared: _Declared) -> dict[str, Any]:
    """Return what the annotation says: a flag, a number, any count of values, or none."""
    if isinstance(annotation, UnionType):
        kinds = [each for each in get_args(annotation) if each is not type(None)]
        return {**_inferred(kinds[0], declared), "default": None} if len(kinds) == 1 else {}
    is_option = declared.make is click.Option
    if get_origin(annotation) is tuple and "nargs" not in declared.attributes:
        return {"multiple": True} if is_option else {"nargs": -1}
    if annotation is bool and is_option:
        return {} if any("/" in each for each in declared.names) else {"is_flag": True}
    return (
        {"type": annotation}
        if annotation in {int, float} and "type" not in declared.attributes
        else {}
    )
