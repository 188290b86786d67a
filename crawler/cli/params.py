"""Arguments that several commands read in the same way: lengths of time, sizes, hosts."""

import re
from datetime import datetime, timedelta
from typing import Any

import click

from core.durations import parse_duration, parse_moment
from core.errors import BadUrlError, InputError
from core.urls import host_of


class DurationType(click.ParamType[timedelta]):
    """A length of time, as `core.durations.parse_duration` reads it."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """The length; fails with the reason."""
        if isinstance(value, timedelta):
            return value
        try:
            return parse_duration(value)
        except InputError as error:
            self.fail(str(error), param, ctx)


class SizeType(click.ParamType[int]):
    """A number of bytes: ``5GB``, ``700 MB``, ``2TiB``, ``1000``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; fails with the reason."""
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch("".join(str(value).split()).lower())
        if found is None:
            self.fail(f"{str(value)[:40]!r} is no size: write 700MB, 5GB or 2TB.", param, ctx)
        step = 1024 if found[3] else 1000
        power = "kmgt".find(found[2]) + 1 if found[2] else 0
        return int(float(found[1]) * step**power)


_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(?:([kmgt])(i?))?b?", re.ASCII)
DURATION, SIZE = DurationType(), SizeType()


def end_of(text: str, *, now: datetime, option: str) -> datetime:
    """The moment at which something ends: a length of time from now, or a date, as `option` was given.

    Raises:
        InputError: it names none, or one that is over.
    """
    try:
        return now + parse_duration(text)
    except InputError:
        moment = parse_moment(text)
    if moment <= now:
        raise InputError(f"{text} is over already; leave {option} out for what has no end.")
    return moment


def begin_of(text: str, *, now: datetime) -> datetime:
    """The moment from which on something counts: a length of time until now, or a date.

    Raises:
        InputError: it names none.
    """
    try:
        return now - parse_duration(text)
    except InputError:
        pass
    try:
        return parse_moment(text)
    except InputError as error:
        raise InputError(
            f"{text[:40]!r} is neither a moment nor a length of time up to a century:"
            " write 2026-12-31, 2026-12-31T18:00 (UTC), 12h or 3d."
        ) from error


def host_name(text: str) -> str:
    """A host's name as the frontier keeps it; a URL stands for its host.

    Raises:
        InputError: it is neither.

    >>> host_name("WWW.Example.ORG"), host_name("https://a.example:8443/x"), host_name("[::1]")
    ('www.example.org', 'a.example', '[::1]')
    """
    text = text.strip()
    try:
        return host_of(text if "://" in text else f"http://{text}/")
    except BadUrlError as error:
        raise InputError(f"{text[:80]!r} is no host: {error}") from error
