"""Malware verdicts, and the holds that follow from them and from threat lists (C-16).

A verdict is about a payload, so it holds for every capture of it: revisits and copies at other URLs
have the same digest. A digest is kept in one spelling, so that it is found however a record spells it.
A payload that a later scan could not look into keeps the threat that an earlier one found.

A payload in which a scanner found a threat never leaves, by whatever route it is asked for; the record
stays in its WARC, and the screenshot is shown. Before the copy of an address that is on a list of bad
ones stands a notice, which its reader may pass. Asked together with take-downs (`playback.access.control`).
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from core.digests import Digest
from core.errors import InputError
from core.timestamps import from_unix_milliseconds, unix_milliseconds
from playback.access.decision_store import DecisionStore, Values, WatchedValue
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from playback.access.threat_lists import ListEffect, ListHit, ThreatLists, load_lists

_KEEP = """
INSERT INTO verdicts (digest, threat, scanner, scanned_ms, skipped)
VALUES (:digest, :threat, :scanner, :scanned_ms, :skipped)
ON CONFLICT (digest) DO UPDATE SET
    threat = CASE WHEN excluded.skipped <> '' THEN verdicts.threat ELSE excluded.threat END,
    scanner = excluded.scanner, scanned_ms = excluded.scanned_ms, skipped = excluded.skipped
"""
_COLUMNS = "digest, threat, scanner, scanned_ms, skipped"
_MOST_AT_ONCE = 500  # values in one question


@dataclass(frozen=True, slots=True)
class ScanVerdict:
    """What a scanner said of a payload.

    Attributes:
        digest: of the payload; see `digest_key`.
        threat: the signature's name; empty when none matched.
        scanner: which program, with its signatures' version.
        skipped: why the scanner did not look into it; empty when it did.
    """

    digest: str
    threat: str
    scanner: str
    scanned_at: datetime
    skipped: str = ""


class ThreatIndex:
    """The payloads in which a threat was found, ready to be asked for each capture."""

    def __init__(self, verdicts: Iterable[ScanVerdict] = ()) -> None:
        self._by_digest = {digest_key(each.digest): each for each in verdicts if each.threat}

    def __bool__(self) -> bool:
        return bool(self._by_digest)

    def digests(self) -> list[str]:
        """Of these payloads, sorted."""
        return sorted(self._by_digest)

    def on(self, digest: str) -> ScanVerdict | None:
        """The verdict that names a threat in the payload of that digest; None when there is none."""
        # Most archives know no threat, and then no digest needs to be read.
        return self._by_digest.get(digest_key(digest)) if self._by_digest else None


def load_threats(store: DecisionStore) -> ThreatIndex:
    """All threats that the store knows.

    Raises:
        TransientError: it cannot be read.
    """
    return ThreatIndex(list_threats(store))


def list_threats(store: DecisionStore) -> list[ScanVerdict]:
    """The verdicts that name a threat, newest first."""
    query = f"SELECT {_COLUMNS} FROM verdicts WHERE threat <> '' ORDER BY scanned_ms DESC, digest"  # noqa: S608 constants
    return [_verdict(row) for row in store.rows(query, {})]


def verdict_of(store: DecisionStore, digest: str) -> ScanVerdict | None:
    """What is known of a payload; None when no scanner ever saw it."""
    query = f"SELECT {_COLUMNS} FROM verdicts WHERE digest = :digest"  # noqa: S608 constants
    found = store.rows(query, {"digest": digest_key(digest)})
    return _verdict(found[0]) if found else None


def scanned_digests(store: DecisionStore, digests: Sequence[str], scanner: str) -> set[str]:
    """Which of the digests that scanner has a verdict of, as they were given."""
    keys = {digest: digest_key(digest) for digest in digests}
    wanted, known = sorted(set(keys.values())), set[str]()
    for start in range(0, len(wanted), _MOST_AT_ONCE):
        part = wanted[start : start + _MOST_AT_ONCE]
        values: dict[str, Any] = {f"d{number}": each for number, each in enumerate(part)}
        marks = ", ".join(f":{name}" for name in values)
        query = f"SELECT digest FROM verdicts WHERE scanner = :scanner AND digest IN ({marks})"  # noqa: S608 names of values
        known.update(row["digest"] for row in store.rows(query, {**values, "scanner": scanner}))
    return {digest for digest, key in keys.items() if key in known}


def store_verdicts(store: DecisionStore, verdicts: Iterable[ScanVerdict]) -> None:
    """Write the verdicts; a newer one takes the place of an older one.

    Raises:
        TransientError: they could not be kept.
    """
    changes: list[tuple[str, Values]] = [(_KEEP, _values(each)) for each in verdicts]
    if changes:
        store.change(changes)


def digest_key(digest: str) -> str:
    """The one spelling that verdicts are kept under; a text that is no digest stays as it is."""
    if len(digest) == 71 and digest.startswith("sha256:") and digest.islower():
        return digest
    try:
        return str(Digest.parse(digest))
    except InputError:
        return digest


def _values(verdict: ScanVerdict) -> Mapping[str, Any]:
    return {
        "digest": digest_key(verdict.digest),
        "threat": verdict.threat,
        "scanner": verdict.scanner,
        "scanned_ms": unix_milliseconds(verdict.scanned_at),
        "skipped": verdict.skipped,
    }


def _verdict(row: Any) -> ScanVerdict:
    at = from_unix_milliseconds(row["scanned_ms"])
    return ScanVerdict(row["digest"], row["threat"], row["scanner"], at, row["skipped"])


UNSCANNED = "WEBOID_UNSCANNED"  # the environment variable that tells replay the setting


class UnscannedPolicy(StrEnum):
    """What becomes of a download that no scanner has looked into."""

    ALLOW = "allow"  # it is handed out, and said to be unscanned
    HOLD = "hold-downloads"  # it is held back until it was scanned


@dataclass(frozen=True, slots=True)
class PayloadHold(Takedown):
    """A payload that must not leave, whoever asks.

    Attributes:
        verdict: what the scanner found; None: it has not looked yet.
    """

    verdict: ScanVerdict | None = None


class _HoldState(NamedTuple):
    threats: ThreatIndex
    lists: ThreatLists
    state: str


class HoldIndex:
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
        unscanned: UnscannedPolicy = UnscannedPolicy.ALLOW,
    ) -> None:
        self._decisions = decisions
        self.unscanned = unscanned
        nothing = _HoldState(ThreatIndex(), ThreatLists(), "")
        self._known: Callable[[], _HoldState] = (
            (lambda: nothing)
            if decisions is None
            else WatchedValue(decisions, partial(_load, lists)).now
        )

    def state(self) -> str:
        """Differs when other payloads hold a threat; empty while none does."""
        return self._known().state

    def any_threat(self) -> bool:
        """Whether any payload at all holds a threat."""
        return bool(self._known().threats)

    def threat(self, digests: Iterable[str]) -> ScanVerdict | None:
        """The first verdict that names a threat in one of these payloads."""
        threats = self._known().threats
        return next((found for each in digests if (found := threats.on(each))), None)

    def payload(self, digest: str) -> PayloadHold | None:
        """Why the payload of that digest must not leave; None: it may."""
        verdict = self._known().threats.on(digest)
        return None if verdict is None else hold_of(verdict)

    def download(self, digest: str) -> PayloadHold | None:
        """Why the payload must not be handed out as a file; None: it may."""
        found = self.payload(digest)
        if found is not None or self.unscanned is UnscannedPolicy.ALLOW:
            return found
        verdict = self.verdict(digest)
        return (
            (
                _held(
                    digest,
                    "It was not scanned for malware yet.",
                    datetime.fromtimestamp(0, UTC),
                    None,
                )
            )
            if verdict is None or verdict.skipped
            else None
        )

    def verdict(self, digest: str) -> ScanVerdict | None:
        """What is known of the payload; None when no scanner ever saw it."""
        return None if self._decisions is None else verdict_of(self._decisions, digest)

    def listed(self, *urls: str) -> ListHit | None:
        """Where one of the addresses is listed, what holds it back before what warns."""
        lists = self._known().lists
        hits = [hit for url in urls if (hit := lists.on(url)) is not None] if lists else []
        return min(hits, key=lambda hit: hit.on.effect is not ListEffect.HOLD, default=None)


def hold_of(verdict: ScanVerdict) -> PayloadHold:
    """The decision that follows from a verdict."""
    reason = f"{verdict.scanner} found {verdict.threat} in it."
    return _held(verdict.digest, reason, verdict.scanned_at, verdict)


def _held(digest: str, reason: str, at: datetime, verdict: ScanVerdict | None) -> PayloadHold:
    return PayloadHold(
        number=0,
        kind=TakedownKind.DIGEST,
        what=digest,
        timestamp="",
        effect=TakedownEffect.BLOCK,
        reason=reason,
        ticket="",
        actor=verdict.scanner if verdict is not None else "",
        decided_at=at,
        expires_at=None,
        verdict=verdict,
    )


def _load(folder: Path | None, store: DecisionStore) -> _HoldState:
    threats = load_threats(store)
    lists = load_lists(store, folder) if folder is not None else ThreatLists()
    return _HoldState(threats, lists, _state(threats))


def _state(threats: ThreatIndex) -> str:
    digests = threats.digests()
    return f"m{zlib.crc32(' '.join(digests).encode()):08x}" if digests else ""
