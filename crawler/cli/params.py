"""Types of arguments: lengths of time, moments, hosts."""

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


class MomentType(click.ParamType[datetime]):
    """A moment, as `core.durations.parse_moment` reads it."""

    name = "moment"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """The moment; fails with the reason."""
        if isinstance(value, datetime):
            return value
        try:
            return parse_moment(value)
        except InputError as error:
            self.fail(str(error), param, ctx)


class HostType(click.ParamType[str]):
    """A host's name as the frontier keeps it; a URL stands for its host."""

    name = "host"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name; fails with the reason."""
        text = str(value).strip()
        try:
            return host_of(text if "://" in text else f"http://{text}/")
        except BadUrlError as error:
            self.fail(f"{text[:80]!r} is no host: {error}", param, ctx)


DURATION, MOMENT, HOST = DurationType(), MomentType(), HostType()
