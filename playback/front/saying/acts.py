"""What readers ask for, done in the registry; and what is to be shown of what they said.

Everything blocks; Starlette runs it in threads. What goes wrong is an error of `core.errors` or of the
`links` module that says why.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection

from core.clock import Clock
from core.errors import InputError, TransientError
from core.url_patterns import Form, parse_pattern
from core.urls import fetch_key, identity_key
from links.days import day_of
from links.limits import forget_acts
from links.locator import split
from links.marks import LiveMarks
from links.observed import Observed, find_observed, matcher
from links.replacements import (
    Replacement,
    Surroundings,
    propose,
    remove,
    replacements_of,
)
from links.reporters import Reporters, open_reporters
from links.reports import NOTHING_SAID, WORKING, Reachable, reachable, report, withdraw
from links.stages import Stage
from links.store.store import Store
from playback.front.registry.desk import NoRegistryError
from playback.front.registry.source import Source
from playback.front.registry.voice import Voice

_PATIENCE_S = 5.0
_WRITERS = 2


class Act(StrEnum):
    """What readers do, as addresses name it."""

    REPORT = "report"
    WITHDRAW = "withdraw"
    REPLACE = "replace"
    REMOVE = "remove"


class Reach(StrEnum):
    """How far a report goes."""

    URL = "url"
    PATH = "path"  # what begins with the URL's folder
    HOST = "host"  # its host, and all below
    PREFIX = "prefix"  # what begins as the reader typed


@dataclass(frozen=True, slots=True)
class Said:
    """What is to be shown of a URL on the pages where people speak.

    Attributes:
        url: its normal form.
        observed: the URL, None when it is not watched.
        reachable: what readers report.
        replacement: what is proposed for it, tested or not; None: nothing.
        day: today.
    """

    url: str
    observed: Observed | None
    reachable: Reachable = NOTHING_SAID
    replacement: Replacement | None = None
    day: int = 0

    @property
    def is_working(self) -> bool:
        """Whether it is known to work, so that there is nothing to report and nothing to replace."""
        return self.observed is not None and self.observed.state in WORKING

    @property
    def is_taken(self) -> bool:
        """Whether the one place for a replacement is taken."""
        return self.replacement is not None and self.replacement.stage is not Stage.FAILED


class Acts:
    """Does what readers ask for. From any thread."""

    def __init__(self, source: Source, voice: Voice, clock: Clock) -> None:
        self._source = source
        self._voice = voice
        self._clock = clock
        self._lock = threading.Lock()
        self._writers = threading.BoundedSemaphore(_WRITERS)
        self._reporters: Reporters | None = None
        self._marks: tuple[Store, LiveMarks] | None = None
        self._forgot_day = -1

    @property
    def reporters(self) -> Reporters:
        """Makes digests; its key is made when it is first needed."""
        with self._lock:
            if self._reporters is None:
                self._reporters = open_reporters(self._voice.layout)
            return self._reporters

    def said(self, url: str) -> Said:
        """What people say about the URL.

        Raises:
            BadUrlError: it is no URL.
            NoRegistryError: there is no registry.
            TransientError: it does not answer.
        """
        day = day_of(self._clock.now())
        with self._store().reading() as rows:
            observed = find_observed(rows, url)
            if observed is None:
                return Said(identity_key(fetch_key(url)), None, day=day)
            return Said(
                observed.url,
                observed,
                reachable(rows, [observed.id], day).get(observed.id, NOTHING_SAID),
                replacements_of(rows, [observed.id]).get(observed.id),
                day,
            )

    def do(self, act: Act, url: str, addresses: str, *, reach: Reach, address: str) -> None:
        """Do it.

        Args:
            act: what is asked for.
            url: about what.
            addresses: the range of addresses that asks.
            reach: of REPORT and WITHDRAW: how far that goes.
            address: of REPLACE: what is proposed; of a report that reaches as far as a PREFIX, that.

        Raises:
            InputError: something is wrong with what was said; its class tells what.
            NoRegistryError: there is no registry.
            TransientError: that was too often, or the registry does not answer.
        """
        reporter = self.reporters.of_range(addresses)
        now, limits = self._clock.now(), self._voice.limits
        store = self._store()
        if reach is Reach.PREFIX:
            named = [_prefix_of(url, address)]
        else:
            named = [reaching(url, reach) if reach is not Reach.URL else url]
        is_pattern = reach is not Reach.URL
        # What is decided by other tables is read before the writer's turn is taken.
        around = self._surroundings(store) if act is Act.REPLACE else None
        self._forget(store)
        with self._writing(store) as rows:
            if act is Act.REPORT:
                report(rows, named, reporter, now, is_pattern=is_pattern, limits=limits)
            elif act is Act.WITHDRAW:
                withdraw(rows, named, reporter, now, is_pattern=is_pattern, limits=limits)
            elif around is not None:
                propose(rows, url, address, reporter, now, around)
            else:
                remove(rows, url, reporter, now, limits)

    def _forget(self, store: Store) -> None:
        """Once a day: whose minute is over long ago is nobody's business any more."""
        day = day_of(self._clock.now())
        with self._lock:
            is_due, self._forgot_day = self._forgot_day != day, day
        if is_due:
            with self._writing(store) as rows:
                forget_acts(rows, self._clock.now())

    @contextmanager
    def _writing(self, store: Store) -> Iterator[Connection]:
        """A connection that writes; when others wait for one already, nobody waits long."""
        if not self._writers.acquire(timeout=_PATIENCE_S):
            raise TransientError("The link registry is being written to.")
        try:
            with store.writing() as rows:
                yield rows
        finally:
            self._writers.release()

    def _surroundings(self, store: Store) -> Surroundings:
        with self._lock:
            if self._marks is None or self._marks[0] is not store:
                self._marks = (store, LiveMarks(store, self._clock))
            marks = self._marks[1].current()
        return Surroundings(marks.refuses, self._voice.archives, self._voice.limits)

    def _store(self) -> Store:
        store = self._source.store()
        if store is None:
            raise NoRegistryError
        return store


def _prefix_of(url: str, prefix: str) -> str:
    """Return the domain with a path that a reader typed, when the URL begins so.

    Raises:
        InputError: it is none, or names something else.
    """
    pattern = parse_pattern(prefix.strip())
    if pattern.form is Form.REGEX or not matcher(pattern)(identity_key(fetch_key(url))):
        raise InputError("The URL does not begin with what was typed.")
    return prefix.strip()


def reaching(url: str, reach: Reach) -> str:
    """What a report about more than the URL names, as a pattern.

    >>> reaching("https://www.example.org:81/a/b?c=/d", Reach.PATH)
    'www.example.org:81/a/'
    >>> reaching("https://www.example.org/a/b", Reach.HOST)
    'www.example.org'
    """
    locator = split(identity_key(fetch_key(url)))
    if reach is Reach.HOST:
        return locator.host
    port = f":{locator.port}" if locator.port else ""
    folder = locator.path.partition("?")[0].rpartition("/")[0]
    return f"{locator.host}{port}{folder}/"
