"""Who works on a frontier: each proxy and each worker says so, in a note that soon expires.

A note is a JSON object under the process's name, renewed every `BEAT_S` and gone `LIFE_S` after the
last one. Whoever asks for the notes of a kind gets those that live. An outage of the store silences
everyone for a while and hurts nobody: what works together goes on.

A proxy's note names the authority that browsers are to trust, so it is signed with the cluster's secret:
whoever can write into the store alone leads no browser anywhere. An old note that is put there again
names a proxy that was one, and which must prove itself before each visit (`proxy.handshake`).
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
from proxy.handshake import Secret

log = logging.getLogger(__name__)

PROXY, WORKER = "proxy", "worker"  # kinds of notes
KINDS = (PROXY, WORKER)
BEAT_S = 5.0
LIFE = timedelta(seconds=15)
_SIGNATURE = "signature"
_IGNORED_LIMIT = 1_000


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
    def parse(cls, name: str, text: str, secret: Secret) -> Self | None:
        """Return what the note says; None when it is of another version, or not signed by one of us."""
        try:
            said = json.loads(text)
            signature = str(said.pop(_SIGNATURE))
            if not secret.has_signed(_message(PROXY, name, said), signature):
                return None
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
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, WeboidError):
            return None


def living_proxies(
    frontier: Frontier, clock: Clock, secret: Secret, ignored: set[str] | None = None
) -> list[AnnouncedProxy]:
    """Return the proxies that say they live, by name.

    Args:
        frontier: where.
        clock: the time.
        secret: what they sign with.
        ignored: names whose notes were passed over; of each new one the log is told once.

    Raises:
        TransientError: the store does not answer.
    """
    ignored = set() if ignored is None else ignored
    found = []
    for name, text in sorted(frontier.notes(PROXY, now=clock.now()).items()):
        proxy = AnnouncedProxy.parse(name, text, secret)
        if proxy is not None:
            found.append(proxy)
        elif name not in ignored and len(ignored) < _IGNORED_LIMIT:
            ignored.add(name)
            log.warning("registry.ignored name=%.200r reason=not signed with our secret", name)
    return found


def _message(kind: str, name: str, said: dict[str, Any]) -> bytes:
    """Return what a note's signature is of, in the one form that everybody makes of it."""
    return json.dumps([kind, name, said], sort_keys=True, separators=(",", ":")).encode()


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
        secret: Secret | None = None,
    ) -> None:
        """Say it for the first time, and from now on in a thread.

        Args:
            frontier: where.
            kind: `PROXY` or `WORKER`.
            name: of this process, as no other has.
            describe: what is to be said, from any thread.
            clock: the time.
            secret: what the note is signed with; None: it is not.
        """
        self._secret = secret
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
        if self._secret is not None:
            message = _message(self._kind, self._name, said)
            said[_SIGNATURE] = self._secret.signature(message)
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
