"""Observed URLs by what names them: one URL, or a pattern (W18). Nothing here makes a row."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, literal_column, select

from core.errors import InputError
from core.pattern_table import PatternTable
from core.url_patterns import Form, Pattern, target_of
from core.urls import fetch_key
from links.locator import SCHEMES, Locator, locate
from links.states import State
from links.store.schema import PATH_HEAD, PATH_HEAD_CHARS, hosts, urls

_HOSTS_AT_ONCE = 1_000


class NotObservedError(InputError):
    """The registry watches nothing of what was named."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A URL that the registry watches.

    Attributes:
        id: its row.
        host_id: its host's.
        url: its identity key.
        state: what is known of it.
    """

    id: int
    host_id: int
    url: str
    state: State


_COLUMNS = (urls.c.id, urls.c.host_id, urls.c.scheme, urls.c.port, urls.c.path, urls.c.state)


def url_select() -> Select[tuple[Any, ...]]:
    """The columns that `observed_of` reads, URLs with their hosts."""
    return select(*_COLUMNS, hosts.c.name).join(hosts, hosts.c.id == urls.c.host_id)


def observed_of(row: Row[tuple[Any, ...]]) -> Observed:
    """The URL of such a row."""
    url = Locator(SCHEMES[row.scheme], row.name, row.port, row.path).url
    return Observed(row.id, row.host_id, url, State(row.state))


def find_observed(connection: Connection, url: str) -> Observed | None:
    """The URL, however it is spelled; None when it is not watched.

    Raises:
        BadUrlError: it is no URL.
    """
    key = locate(fetch_key(url)).key
    row = connection.execute(url_select().where(urls.c.key == key)).first()
    return None if row is None else observed_of(row)


def need_observed(connection: Connection, url: str) -> Observed:
    """The URL.

    Raises:
        BadUrlError: it is no URL.
        NotObservedError: it is not watched.
    """
    found = find_observed(connection, url)
    if found is None:
        raise NotObservedError(
            f"{shown(url)} is not watched: no page that the registry knows has had it."
            " `weboid links search` shows what is."
        )
    return found


def hosts_of(connection: Connection, pattern: Pattern, *, wide: bool = True) -> Iterator[int]:
    """The ids of the hosts that the pattern can match on.

    Args:
        connection: to the registry.
        pattern: what names them.
        wide: also where all hosts have to be looked through for that: expressions, and domains that
            many own, such as ``co.uk``. Without it those have none.
    """
    if pattern.form is Form.REGEX:
        if wide:
            yield from _walk(connection, None)
        return
    if pattern.form is Form.HOST_TREE:
        name = pattern.text
        below = hosts.c.name.endswith(f".{name}", autoescape=True) | (hosts.c.name == name)
        if wide:
            yield from _walk(connection, below)
            return
        labels = name.split(".")
        above = [".".join(labels[start:]) for start in range(len(labels))]
        # The registrable domain of whatever lies below a host is that host's, or below it itself.
        domain = hosts.c.domain.in_(above)
        itself = select(hosts.c.id).where(hosts.c.name == name)
        yield from connection.execute(
            itself.union(select(hosts.c.id).where(domain, below))
        ).scalars()
        return
    name = pattern.text if pattern.form is Form.HOST else host_in(pattern.text)
    yield from connection.execute(select(hosts.c.id).where(hosts.c.name == name)).scalars()


def matching(connection: Connection, pattern: Pattern, *, limit: int) -> list[Observed]:
    """Up to so many watched URLs that the pattern matches, where no walk through all hosts is needed."""
    matches = matcher(pattern)
    found: list[Observed] = []
    for host_id in list(hosts_of(connection, pattern, wide=False)):
        question = url_select().where(urls.c.host_id == host_id, *_within_host(pattern))
        for row in connection.execute(question.limit(limit + 1)):
            each = observed_of(row)
            if matches(each.url):
                found.append(each)
                if len(found) >= limit:
                    return found
    return found


def matcher(pattern: Pattern) -> Callable[[str], bool]:
    """Tells of a URL whether it is what the pattern names."""
    table: PatternTable[Pattern] = PatternTable()
    table.add(pattern, pattern)
    return lambda url: bool(table.find(target_of(url)))


def host_in(text: str) -> str:
    """The host of an authority with a path, as patterns keep them.

    >>> host_in("example.org:8080/x"), host_in("[::1]:80/")
    ('example.org', '[::1]')
    """
    authority = text.partition("/")[0]
    if authority.startswith("["):
        return authority.partition("]")[0] + "]"
    return authority.partition(":")[0]


def shown(text: str) -> str:
    """What was typed, short enough for a message."""
    return text if len(text) <= 200 else text[:200] + "…"


def _within_host(pattern: Pattern) -> Sequence[ColumnElement[bool]]:
    """What the pattern says beside the host, as far as the database can tell: all but letter case."""
    if pattern.form not in (Form.PREFIX, Form.EXACT):
        return ()
    authority, slash, rest = pattern.text.partition("/")
    path = slash + rest
    port = authority.removeprefix(host_in(pattern.text)).removeprefix(":")
    said: list[ColumnElement[bool]] = [urls.c.port == int(port or 0)]
    if pattern.scheme:
        said.append(urls.c.scheme == SCHEMES.index(pattern.scheme))
    head = path[:PATH_HEAD_CHARS]
    kept: ColumnElement[str] = literal_column(PATH_HEAD)
    if pattern.form is Form.EXACT:
        return [*said, kept == head, urls.c.path == path]
    if head:
        after = head[:-1] + chr(ord(head[-1]) + 1)  # paths are ASCII, in the order of their bytes
        said += [kept >= head, kept < after, urls.c.path.startswith(path, autoescape=True)]
    return said


def _walk(connection: Connection, condition: ColumnElement[bool] | None) -> Iterator[int]:
    last = 0
    while True:
        question = select(hosts.c.id).where(hosts.c.id > last)
        if condition is not None:
            question = question.where(condition)
        found = connection.execute(question.order_by(hosts.c.id).limit(_HOSTS_AT_ONCE))
        batch = found.scalars().all()
        yield from batch
        if len(batch) < _HOSTS_AT_ONCE:
            return
        last = batch[-1]
