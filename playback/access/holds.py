"""Malware verdicts, and the holds that follow from them and from threat lists (C-16).

A verdict belongs to a payload digest, so it covers every capture with that payload. A payload with a threat is never
sent, on any route; the screenshot is shown. For a URL on a threat list a warning page precedes the copy.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from playback.access.decision_store import DecisionStore, WatchedValue, insert_row, record_of, row_values
from playback.access.takedowns import Takedown, TakedownKind, digest_key
from playback.access.threat_lists import ListHit, ThreatLists, load_lists
from warc.index.database import in_lists

# A payload that could not be scanned keeps the threat of an earlier scan.
_REPLACE = """ON CONFLICT (digest) DO UPDATE SET
    threat = CASE WHEN excluded.skipped <> '' THEN verdicts.threat ELSE excluded.threat END,
    scanner = excluded.scanner, scanned_ms = excluded.scanned_ms, skipped = excluded.skipped"""


@dataclass(frozen=True, slots=True)
class ScanVerdict:
    """Result of scanning a payload."""

    digest: str  # of the payload; see `digest_key`
    threat: str  # the signature's name; empty when none matched
    scanner: str  # engine and signature version
    scanned_at: datetime
    skipped: str = ""  # why the payload was not scanned; empty when it was


def list_threats(store: DecisionStore) -> list[ScanVerdict]:
    """Return the verdicts with a threat, newest first."""
    query = "SELECT * FROM verdicts WHERE threat <> '' ORDER BY scanned_ms DESC, digest"
    return [record_of(ScanVerdict, row) for row in store.rows(query, {})]


def verdict_of(store: DecisionStore, digest: str) -> ScanVerdict | None:
    """Return the verdict of a payload; None when it was never scanned."""
    rows = store.rows("SELECT * FROM verdicts WHERE digest = :digest", {"digest": digest_key(digest)})
    return record_of(ScanVerdict, rows[0]) if rows else None


def scanned_digests(store: DecisionStore, digests: Sequence[str], scanner: str) -> set[str]:
    """Return those digests, as given, for which that scanner has a verdict."""
    keys = {digest: digest_key(digest) for digest in digests}
    distinct, known = sorted(set(keys.values())), set[str]()
    for marks, values in in_lists(distinct):
        query = f"SELECT digest FROM verdicts WHERE scanner = :scanner AND digest IN ({marks})"  # noqa: S608 names of values
        known.update(row["digest"] for row in store.rows(query, {**values, "scanner": scanner}))
    return {digest for digest, key in keys.items() if key in known}


def store_verdicts(store: DecisionStore, verdicts: Iterable[ScanVerdict]) -> None:
    """Store the verdicts; a newer one replaces an older one."""
    changes = [
        insert_row("verdicts", row_values(each) | {"digest": digest_key(each.digest)}, then=_REPLACE)
        for each in verdicts
    ]
    if changes:
        store.change(changes)


class UnscannedPolicy(StrEnum):
    """Policy for downloads that have not been scanned."""

    ALLOW = "allow"  # served, and marked as not scanned
    HOLD = "hold-downloads"  # it is held back until it is scanned


@dataclass(frozen=True, slots=True)
class PayloadHold(Takedown):
    """Decision that a payload must not be sent."""

    verdict: ScanVerdict | None = None  # the scan result; None: not scanned yet


class _HoldState(NamedTuple):
    threats: Mapping[str, ScanVerdict]  # by the digests of their payloads
    lists: ThreatLists
    state: str

    def threat(self, digest: str) -> ScanVerdict | None:
        # Most archives have no threats; then no digest needs to be read.
        return self.threats.get(digest_key(digest)) if self.threats else None


class HoldIndex:
    """Current holds. Thread-safe. Methods raise TransientError when decisions or lists are unreadable."""

    def __init__(
        self,
        decisions: DecisionStore | None,  # scan verdicts and threat lists; None: none
        lists: Path | None = None,  # directory of the threat list files; None: no list is used
        *,
        # policy for downloads that were not scanned
        unscanned: UnscannedPolicy = UnscannedPolicy.ALLOW,
    ) -> None:
        self._decisions = decisions
        self.unscanned = unscanned

        def load(store: DecisionStore) -> _HoldState:
            threats = {digest_key(each.digest): each for each in list_threats(store)}
            digests = " ".join(sorted(threats))
            state = f"m{zlib.crc32(digests.encode()):08x}" if digests else ""
            return _HoldState(threats, load_lists(store, lists) if lists is not None else ThreatLists(), state)

        nothing = _HoldState({}, ThreatLists(), "")
        self._known: Callable[[], _HoldState] = (
            (lambda: nothing) if decisions is None else WatchedValue(decisions, load).now
        )

    def state(self) -> str:
        """Return a value that changes with the set of payloads with a threat; empty without any."""
        return self._known().state

    def any_threat(self) -> bool:
        """Return True when any payload has a threat."""
        return bool(self._known().threats)

    def threat(self, digests: Iterable[str]) -> ScanVerdict | None:
        """Return the first verdict with a threat for one of these payloads."""
        known = self._known()
        return next((verdict for each in digests if (verdict := known.threat(each))), None)

    def payload(self, digest: str) -> PayloadHold | None:
        """Return why the payload with that digest must not be sent; None if it may."""
        verdict = self._known().threat(digest)
        return None if verdict is None else hold_of(verdict)

    def download(self, digest: str) -> PayloadHold | None:
        """Return why the payload must not be downloaded as a file; None if it may."""
        hold = self.payload(digest)
        if hold is not None or self.unscanned is UnscannedPolicy.ALLOW:
            return hold
        verdict = self.verdict(digest)
        if verdict is not None and not verdict.skipped:
            return None
        return PayloadHold(0, TakedownKind.DIGEST, digest, reason="It has not been scanned for malware yet.")

    def verdict(self, digest: str) -> ScanVerdict | None:
        """Return the verdict of the payload; None when it was never scanned."""
        return None if self._decisions is None else verdict_of(self._decisions, digest)

    def listed(self, *urls: str) -> ListHit | None:
        """Return the list entry of one of the URLs; blocking lists take precedence over warning ones."""
        return self._known().lists.on(*urls)


def hold_of(verdict: ScanVerdict) -> PayloadHold:
    """Return the hold that follows from a verdict."""
    return PayloadHold(
        0,
        TakedownKind.DIGEST,
        verdict.digest,
        reason=f"{verdict.scanner} found {verdict.threat} in it.",
        actor=verdict.scanner,
        decided_at=verdict.scanned_at,
        verdict=verdict,
    )
