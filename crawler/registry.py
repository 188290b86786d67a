"""Who works on a frontier: each proxy and each worker says so, in a note that soon expires.

A note is a JSON object under the process's name, renewed every `BEAT_S` and gone `LIFE_S` after the
last one. Whoever asks for the notes of a kind gets those that live. An outage of the store silences
everyone for a while and hurts nobody: what works together goes on.
"""

import json
import logging
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from core.clock import Clock
from core.errors import WeboidError
from core.hostport import split_host_port
from crawler.frontier.base import Frontier

log = logging.getLogger(__name__)

PROXY, WORKER = "proxy", "worker"  # kinds of notes
KINDS = (PROXY, WORKER)
BEAT_S = 5.0
LIFE = timedelta(seconds=15)


def process_name() -> str:
    """This process's, for the books: its machine and its number there."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True)
class AnnouncedProxy:
    """A proxy as its note describes it.

    Attributes:
        name: the note's key.
        control: where workers give orders.
        browsers: where browsers come.
        spki: of its authority's leaf key.
        visits: open ones.
        free_bytes: on the disk that holds its WARCs.
        reserve_bytes: of these, what must stay free.
        authority: its certificate, as PEM.
        beat: grows with each note of the same process.
        started: when the process began.
    """

    name: str
    control: tuple[str, int]
    browsers: tuple[str, int]
    spki: str
    visits: int
    free_bytes: int
    reserve_bytes: int
    authority: str
    beat: int
    started: str

    @property
    def has_room(self) -> bool:
        """Whether a visit may begin there."""
        return self.free_bytes >= self.reserve_bytes

    @classmethod
    def parse(cls, name: str, text: str) -> Self | None:
        """What the note says; None when it is of another version, or of nobody we know."""
        try:
            said = json.loads(text)
            return cls(
                name=name,
                control=split_host_port(said["address"]),
                browsers=split_host_port(said["browsers"]),
                spki=str(said["spki"]),
                visits=int(said["visits"]),
                free_bytes=int(said["free_bytes"]),
                reserve_bytes=int(said["reserve_bytes"]),
                authority=str(said["authority"]),
                beat=int(said["beat"]),
                started=str(said["started"]),
            )
        except (ValueError, KeyError, TypeError, WeboidError):
            return None


def living_proxies(frontier: Frontier, clock: Clock) -> list[AnnouncedProxy]:
    """The proxies that say they live, by name.

    Raises:
        TransientError: the store does not answer.
    """
    notes = frontier.notes(PROXY, now=clock.now())
    found = (AnnouncedProxy.parse(name, text) for name, text in sorted(notes.items()))
    return [each for each in found if each is not None]


def lives_here(frontier: Frontier, kind: str, host: str, clock: Clock) -> bool:
    """Whether a process of that kind on the machine of that name says that it lives.

    Raises:
        TransientError: the store does not answer.
    """
    for text in frontier.notes(kind, now=clock.now()).values():
        try:
            if json.loads(text)["host"] == host:
                return True
        except (ValueError, KeyError, TypeError):
            continue
    return False


class Announcer:
    """Says every few seconds that this process lives. `close` it, and it says that it is gone."""

    def __init__(
        self,
        frontier: Frontier,
        kind: str,
        name: str,
        describe: Callable[[], dict[str, Any]],
        clock: Clock,
    ) -> None:
        """Say it for the first time, and from now on in a thread.

        Args:
            frontier: where.
            kind: `PROXY` or `WORKER`.
            name: of this process, as no other has.
            describe: what is to be said, from any thread.
            clock: the time.
        """
        self._frontier = frontier
        self._kind = kind
        self._name = name
        self._describe = describe
        self._clock = clock
        self._beats = 0
        self._silent = False
        self._over = threading.Event()
        self._say()
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take the note back; when the store does not answer, it expires. Twice is once."""
        if self._over.is_set():
            return
        self._over.set()
        self._thread.join()
        try:
            self._frontier.erase_note(self._kind, self._name)
        except WeboidError as error:
            log.info("registry.left kind=%s name=%s error=%s", self._kind, self._name, error)

    def _run(self) -> None:
        while not self._over.wait(BEAT_S):
            self._say()

    def _say(self) -> None:
        self._beats += 1
        said = {**self._describe(), "beat": self._beats}
        now = self._clock.now()
        try:
            self._frontier.put_note(
                self._kind, self._name, json.dumps(said), now=now, until=now + LIFE
            )
            self._silent = False
        except WeboidError as error:
            if not self._silent:  # once an outage
                log.warning("registry.silent error=%s", error)
            self._silent = True
