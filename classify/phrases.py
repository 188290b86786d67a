"""Phrases, addresses and marks of the page classes, from ``phrases.toml``: by section and name."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


def entries(section: str, name: str) -> Any:
    """Return a list or a table."""
    return _document()[section][name]


def expressions(section: str, name: str) -> list[str]:
    """Return the regular expressions of a text, one for each line; indented lines continue."""
    text: str = entries(section, name)
    return text.replace("\n    ", "").splitlines()


def expression(section: str, name: str) -> str:
    """Return one expression whose alternatives are the lines of the text."""
    return "|".join(expressions(section, name))


@cache
def _document() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files(__package__).joinpath("phrases.toml").read_text("utf-8"))
