"""What is held back although nobody took it down: payloads with a threat, and addresses on a list (C-16).

A payload in which a scanner found a threat never leaves, by whatever route it is asked for; the record
stays in its WARC, and the screenshot is shown. Before the copy of an address that is on a list of bad
ones stands a notice, which its reader may pass. Asked together with take-downs (`playback.permits`).
"""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

from playback.decisions.lists import ListEffect, ListHit, UrlLists, load_lists
from playback.decisions.store import DecisionStore, Watched
from playback.decisions.takedowns import Effect, Takedown, TakedownKind
from playback.decisions.verdicts import Threats, Verdict, load_threats, verdict_of

UNSCANNED = "WEBOID_UNSCANNED"  # the environment variable that tells replay the setting


class Unscanned(StrEnum):
    """What becomes of a download that no scanner has looked into."""

    ALLOW = "allow"  # it is handed out, and said to be unscanned
    HOLD = "hold-downloads"  # it is held back until it was scanned


@dataclass(frozen=True, slots=True)
class Held(Takedown):
    """A payload that must not leave, whoever asks.

    Attributes:
        verdict: what the scanner found; None: it has not looked yet.
    """

    verdict: Verdict | None = None


class _Known(NamedTuple):
    threats: Threats
    lists: UrlLists
    state: str


class Holds:
    """What is held back now. From any thread.

    Args:
        decisions: what scanners found, and which lists there are; None: nothing is known.
        lists: the folder of the lists' files; None: no list is asked.
        unscanned: what becomes of downloads that were not scanned.

    Every question raises TransientError when decisions or lists cannot be read.
    """

    def __init__(
        self,
        decisions: DecisionStore | None,
        lists: Path | None = None,
        *,
        unscanned: Unscanned = Unscanned.ALLOW,
    ) -> None:
        self._decisions = decisions
        self.unscanned = unscanned
        nothing = _Known(Threats(), UrlLists(), "")
        self._known: Callable[[], _Known] = (
            (lambda: nothing)
            if decisions is None
            else Watched(decisions, partial(_load, lists)).now
        )

    def state(self) -> str:
        """Differs when other payloads hold a threat; empty while none does."""
        return self._known().state

    def any_threat(self) -> bool:
        """Whether any payload at all holds a threat."""
        return bool(self._known().threats)

    def threat(self, digests: Iterable[str]) -> Verdict | None:
        """The first verdict that names a threat in one of these payloads."""
        threats = self._known().threats
        return next((found for each in digests if (found := threats.on(each))), None)

    def payload(self, digest: str) -> Held | None:
        """Why the payload of that digest must not leave; None: it may."""
        verdict = self._known().threats.on(digest)
        return None if verdict is None else held(verdict)

    def download(self, digest: str) -> Held | None:
        """Why the payload must not be handed out as a file; None: it may."""
        found = self.payload(digest)
        if found is not None or self.unscanned is Unscanned.ALLOW:
            return found
        verdict = self.verdict(digest)
        return _not_scanned(digest) if verdict is None or verdict.skipped else None

    def verdict(self, digest: str) -> Verdict | None:
        """What is known of the payload; None when no scanner ever saw it."""
        return None if self._decisions is None else verdict_of(self._decisions, digest)

    def listed(self, *urls: str) -> ListHit | None:
        """Where one of the addresses is listed, what holds it back before what warns."""
        lists = self._known().lists
        hits = [hit for url in urls if (hit := lists.on(url)) is not None] if lists else []
        return min(hits, key=lambda hit: hit.on.effect is not ListEffect.HOLD, default=None)


def held(verdict: Verdict) -> Held:
    """The decision that follows from a verdict."""
    reason = f"{verdict.scanner} found {verdict.threat} in it."
    return _held(verdict.digest, reason, verdict.scanned_at, verdict)


def _not_scanned(digest: str) -> Held:
    return _held(
        digest, "It was not scanned for malware yet.", datetime.fromtimestamp(0, UTC), None
    )


def _held(digest: str, reason: str, at: datetime, verdict: Verdict | None) -> Held:
    return Held(
        number=0,
        kind=TakedownKind.DIGEST,
        what=digest,
        timestamp="",
        effect=Effect.BLOCK,
        reason=reason,
        ticket="",
        actor=verdict.scanner if verdict is not None else "",
        decided_at=at,
        expires_at=None,
        verdict=verdict,
    )


def _load(folder: Path | None, store: DecisionStore) -> _Known:
    threats = load_threats(store)
    lists = load_lists(store, folder) if folder is not None else UrlLists()
    return _Known(threats, lists, _state(threats))


def _state(threats: Threats) -> str:
    digests = threats.digests()
    return f"m{zlib.crc32(' '.join(digests).encode()):08x}" if digests else ""
