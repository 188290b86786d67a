"""Verdicts: what scanners found in payloads (C-16).

A verdict is about a payload, so it holds for every capture of it: revisits and copies at other URLs
have the same digest. A digest is kept in one spelling, so that it is found however a record spells it.
A payload that a later scan could not look into keeps the threat that an earlier one found.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.digests import Digest
from core.errors import InputError
from core.timestamps import milliseconds, moment
from playback.decisions.store import DecisionStore, Values

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
class Verdict:
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


class Threats:
    """The payloads in which a threat was found, ready to be asked for each capture."""

    def __init__(self, verdicts: Iterable[Verdict] = ()) -> None:
        self._by_digest = {digest_key(each.digest): each for each in verdicts if each.threat}

    def __bool__(self) -> bool:
        return bool(self._by_digest)

    def digests(self) -> list[str]:
        """Of these payloads, sorted."""
        return sorted(self._by_digest)

    def on(self, digest: str) -> Verdict | None:
        """The verdict that names a threat in the payload of that digest; None when there is none."""
        # Most archives know no threat, and then no digest needs to be read.
        return self._by_digest.get(digest_key(digest)) if self._by_digest else None


def load_threats(store: DecisionStore) -> Threats:
    """All threats that the store knows.

    Raises:
        TransientError: it cannot be read.
    """
    return Threats(threats(store))


def threats(store: DecisionStore) -> list[Verdict]:
    """The verdicts that name a threat, newest first."""
    query = f"SELECT {_COLUMNS} FROM verdicts WHERE threat <> '' ORDER BY scanned_ms DESC, digest"  # noqa: S608 constants
    return [_verdict(row) for row in store.rows(query, {})]


def verdict_of(store: DecisionStore, digest: str) -> Verdict | None:
    """What is known of a payload; None when no scanner ever saw it."""
    query = f"SELECT {_COLUMNS} FROM verdicts WHERE digest = :digest"  # noqa: S608 constants
    found = store.rows(query, {"digest": digest_key(digest)})
    return _verdict(found[0]) if found else None


def judged(store: DecisionStore, digests: Sequence[str], scanner: str) -> set[str]:
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


def keep(store: DecisionStore, verdicts: Iterable[Verdict]) -> None:
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


def _values(verdict: Verdict) -> Mapping[str, Any]:
    return {
        "digest": digest_key(verdict.digest),
        "threat": verdict.threat,
        "scanner": verdict.scanner,
        "scanned_ms": milliseconds(verdict.scanned_at),
        "skipped": verdict.skipped,
    }


def _verdict(row: Any) -> Verdict:
    at = moment(row["scanned_ms"])
    return Verdict(row["digest"], row["threat"], row["scanner"], at, row["skipped"])
