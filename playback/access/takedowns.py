"""Take-downs: coverage of each kind, and their store (P-22, docs/how-to/takedown.md).

All kinds except digests match by replay key (`core.url_keys`), at a cost that grows with the URL's segments only.
Rows are never deleted: a lifted take-down records who lifted it, when and why.
"""

import re
import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from urllib.parse import urlsplit

from core.digests import Digest
from core.errors import BadUrlError, InputError, TransientError
from core.timestamps import unix_milliseconds
from core.url_keys import replay_key
from playback.access.decision_store import DecisionStore, numbered_row, record_of, row_values

_URN = re.compile(r"urn:[^:]*:(.*)", re.DOTALL)
_PORT = re.compile(r":\d+\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HOST_TEXT = re.compile(r"\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\\\[\]()<>\"']+")
_MOST_LABELS = 128
_EPOCH = datetime.fromtimestamp(0, UTC)


class TakedownKind(StrEnum):
    """Kind of target of a take-down."""

    URL = "url"
    PREFIX = "prefix"
    HOST = "host"
    CAPTURE = "capture"
    DIGEST = "digest"


class TakedownEffect(StrEnum):
    """Effect of a take-down on readers: hidden, or blocked with a notice."""

    BLOCK = "block"  # 451, with the public reason; still listed
    HIDE = "hide"  # as if it had never been captured


@dataclass(frozen=True, slots=True)
class TakedownSubject:
    """Record or page to check against take-downs."""

    url: str  # its URL; for an artifact the ``urn:``, which stands for the URL within it
    timestamp: str = ""  # capture time, 14 digits
    digest: str = ""  # payload digest; empty when unknown


@dataclass(frozen=True, slots=True)
class Takedown:
    """Decision that something must not be shown."""

    number: int  # identifier from 1; 0 before it is stored
    kind: TakedownKind
    what: str  # URL, prefix, host or digest, as normalised by `normalize_target`
    timestamp: str = ""  # of a capture, 14 digits; else empty
    effect: TakedownEffect = TakedownEffect.BLOCK
    reason: str = ""  # shown to readers when the effect is to block
    ticket: str = ""  # reference of the request; not shown to readers
    actor: str = ""  # author of the decision
    decided_at: datetime = _EPOCH
    expires_at: datetime | None = None  # when it expires; None: never
    lifted_at: datetime | None = None  # when it was lifted; None: it was not
    lifted_by: str = ""  # who lifted it
    lifted_reason: str = ""  # why

    @property
    def identity(self) -> tuple[str, ...]:
        """Return its subject and effect, which equal take-downs share."""
        return (self.kind, self.what, self.timestamp, self.effect)

    def holds(self, now: datetime) -> bool:
        """Return True when it is in force at `now`."""
        return self.lifted_at is None and (self.expires_at is None or now < self.expires_at)


class TakedownSet:
    """Set of take-downs in force, indexed for look-up, also while another thread changes it."""

    def __init__(self, takedowns: Iterable[Takedown] = ()) -> None:
        self._by_key: dict[tuple[TakedownKind, str], tuple[Takedown, ...]] = {}
        self._by_number: dict[int, Takedown] = {}
        self._count: Counter[TakedownKind] = Counter()
        self._digests = 0
        self._longest = 0  # of the keys of prefixes
        for each in takedowns:
            self.put(each)

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def state_of_digests(self) -> str:
        """Return a value that changes with the digest take-downs; empty without any."""
        return f"{self._digests:08x}" if self._count[TakedownKind.DIGEST] else ""

    def has(self, *kinds: TakedownKind) -> bool:
        """Return True when there is a take-down of one of these kinds."""
        return any(self._count[kind] for kind in kinds)

    def put(self, takedown: Takedown) -> None:
        """Add the take-down, or replace the one with its number."""
        self.drop(takedown.number)
        key = (takedown.kind, takedown_key(takedown))
        self._by_key[key] = (*self._by_key.get(key, ()), takedown)
        self._by_number[takedown.number] = takedown
        self._note(takedown, 1)

    def drop(self, number: int) -> None:
        """Remove the take-down with that number, if there is one."""
        if (takedown := self._by_number.pop(number, None)) is None:
            return
        key = (takedown.kind, takedown_key(takedown))
        left = tuple(each for each in self._by_key[key] if each.number != number)
        if left:
            self._by_key[key] = left
        else:
            del self._by_key[key]
        self._note(takedown, -1)

    def on(self, subject: TakedownSubject, now: datetime) -> Takedown | None:
        """Return the take-down of the subject at `now`, or None: hiding before blocking, then the first."""
        return self._strictest(self._keys(subject), now) if self._by_number else None

    def on_capture(self, url: str, timestamp: str, now: datetime) -> Takedown | None:
        """Return the take-down of that single capture, regardless of others for its URL."""
        if not self._count[TakedownKind.CAPTURE]:
            return None
        return self._strictest(((TakedownKind.CAPTURE, f"{timestamp} {_url_key(url_within(url))}"),), now)

    def _strictest(self, keys: Iterable[tuple[TakedownKind, str]], now: datetime) -> Takedown | None:
        return strictest_takedown(each for key in keys for each in self._by_key.get(key, ()) if each.holds(now))

    def _keys(self, subject: TakedownSubject) -> Iterator[tuple[TakedownKind, str]]:
        """Yield every key under which a take-down of the subject may be stored."""
        count = self._count
        if count[TakedownKind.DIGEST] and subject.digest:
            yield TakedownKind.DIGEST, digest_key(subject.digest)
        if len(self._by_number) == count[TakedownKind.DIGEST]:
            return
        url = url_within(subject.url)
        key = _url_key(url)
        yield TakedownKind.URL, key
        if count[TakedownKind.CAPTURE] and subject.timestamp:
            yield TakedownKind.CAPTURE, f"{subject.timestamp} {key}"
        if count[TakedownKind.PREFIX]:
            yield from ((TakedownKind.PREFIX, prefix) for prefix in _prefixes(key, self._longest))
        if count[TakedownKind.HOST]:
            yield from ((TakedownKind.HOST, host) for host in _hosts(key, url))

    def _note(self, takedown: Takedown, count: int) -> None:
        self._count[takedown.kind] += count
        if takedown.kind is TakedownKind.PREFIX:
            self._longest = max(self._longest, len(takedown_key(takedown)))
        if takedown.kind is TakedownKind.DIGEST:
            self._digests ^= zlib.crc32(f"{takedown.number} {takedown.what}".encode())


def strictest_takedown(takedowns: Iterable[Takedown | None]) -> Takedown | None:
    """Return the strictest of several take-downs of one item; None for an empty list."""
    applying = (each for each in takedowns if each is not None)
    return min(applying, key=lambda each: (each.effect is not TakedownEffect.HIDE, each.number), default=None)


def url_within(url: str) -> str:
    """Return the URL within an artifact's ``urn:``; other URLs are returned unchanged."""
    while (match := _URN.fullmatch(url)) is not None:
        url = match[1]
    return url


def normalize_target(kind: TakedownKind, text: str) -> str:
    """Normalize the target of a take-down as entered by the operator; InputError for other text.

    >>> normalize_target(TakedownKind.HOST, "WWW.Example.org."), normalize_target(TakedownKind.URL, "example.org")
    ('www.example.org', 'https://example.org/')
    """
    text = text.strip()
    if kind is TakedownKind.DIGEST:
        return str(Digest.parse(text))
    if kind is TakedownKind.HOST:
        host = urlsplit(text).netloc.rpartition("@")[2] if "://" in text else text
        host = _PORT.sub("", host) if host.count(":") == 1 or host.startswith("[") else host
        if host.count(":") > 1 and not host.startswith("["):
            host = f"[{host}]"
        host = host.strip(".").lower()
        if _HOST_TEXT.fullmatch(host) is None:
            raise InputError(f"{text[:200]!r} is not a host: write example.org, or 192.0.2.1.")
        _web_url(f"http://{host}/")
        return host
    url = _web_url(url_within(text))
    if kind is TakedownKind.PREFIX and ("?" in url or "#" in url):
        raise InputError(f"{url[:200]!r} is not a prefix, since it has a query: name the path, or each URL.")
    return url


def takedown_key(takedown: Takedown) -> str:
    """Return the look-up key of the take-down."""
    match takedown.kind:
        case TakedownKind.DIGEST:
            return digest_key(takedown.what)
        case TakedownKind.HOST:
            return next(_hosts(_url_key(f"http://{takedown.what}/"), f"http://{takedown.what}/"))
        case TakedownKind.CAPTURE:
            return f"{takedown.timestamp} {_url_key(takedown.what)}"
        case _:
            return _url_key(takedown.what)


@lru_cache(maxsize=4096)
def digest_key(text: str) -> str:
    """Normalize a digest to one spelling; other text is returned unchanged."""
    try:
        return str(Digest.parse(text))
    except InputError:
        return text


@lru_cache(maxsize=4096)
def _url_key(url: str) -> str:
    try:
        return replay_key(url)
    except BadUrlError:
        return url  # no index has a key for it either; use the text itself


def _prefixes(key: str, longest: int) -> Iterator[str]:
    """Yield the key and its parent paths at segment boundaries, up to `longest` characters."""
    yield key
    at = key.find(")") + 1
    if at == 0:
        return
    yield key[: at + 1]
    query = key.find("?", at)
    end = len(key) if query < 0 else query
    while 0 < (at := key.find("/", at + 1, end)) <= longest:
        yield key[:at]
    if query >= 0:
        yield key[:query]


def _hosts(key: str, url: str) -> Iterator[str]:
    """Yield the host of a key, without its port, and its parent domains."""
    host = key.partition(")")[0]
    if host.count(":") > 1:  # an IPv6 address, where a port is ambiguous
        try:
            yield urlsplit(url).hostname or host
        except ValueError:
            yield host
        return
    host = _PORT.sub("", host)
    yield host
    for _ in range(_MOST_LABELS):
        host, comma, _last = host.rpartition(",")
        if not comma:
            return
        yield host


def _web_url(text: str) -> str:
    if "://" not in text and not text.lower().startswith(("http:", "https:")):
        text = f"https://{text}"
    try:
        parts = urlsplit(text)
        replay_key(text)
    except (ValueError, BadUrlError) as error:
        raise InputError(f"{text[:200]!r} is not a URL: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or re.search(r"\s", text):
        raise InputError(f"{text[:200]!r} is not an http(s) URL.")
    return text if parts.path or parts.query else f"{text.rstrip('/')}/"


_VERSION = "(SELECT n FROM decision_version WHERE id = 1)"
_LIFT = f"""
UPDATE takedowns SET lifted_ms = :lifted_ms, lifted_by = :actor, lifted_reason = :reason,
    changed = {_VERSION} WHERE number = :number AND lifted_ms IS NULL
"""  # noqa: S608 a constant of ours


def add_takedowns(store: DecisionStore, takedowns: Iterable[Takedown]) -> None:
    """Store new take-downs in one transaction; they are numbered in this order."""
    changes = []
    for each in takedowns:
        change, values = numbered_row("takedowns", row_values(each) | {"changed": 0})
        changes.append((change.replace(":changed", _VERSION), values))
    store.change(changes)


def lift_takedowns(store: DecisionStore, numbers: Iterable[int], *, actor: str, reason: str, now: datetime) -> None:
    """Lift take-downs; those already lifted are left unchanged."""
    values = {"lifted_ms": unix_milliseconds(now), "actor": actor, "reason": reason}
    store.change([(_LIFT, {**values, "number": number}) for number in numbers])


def list_takedowns(store: DecisionStore, *, target: str = "", after: int = 0, limit: int = 1 << 62) -> list[Takedown]:
    """Return the take-downs, lifted ones included, by number: those of a target, or with numbers above `after`."""
    named = " AND what = :what" if target else ""
    query = f"SELECT * FROM takedowns WHERE number > :after{named} ORDER BY number LIMIT :most"  # noqa: S608 constants
    rows = store.rows(query, {"after": after, "most": limit, **({"what": target} if target else {})})
    return [record_of(Takedown, row) for row in rows]


class LiveTakedowns:
    """Current take-downs of a store, updated incrementally. Thread-safe."""

    def __init__(self, store: DecisionStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._current = TakedownSet()
        self._version = 0

    def now(self) -> TakedownSet:
        """Return all take-downs that were not lifted."""
        version = self._store.version()
        if version == self._version:
            return self._current
        with self._lock:
            if version == self._version:
                return self._current
            if version == 0:
                # The first change creates the store, and no command removes it.
                raise TransientError("The decision store is missing; restore it and restart.")
            # Data read now is at least as new as the version, and is read again if newer.
            if version < self._version or self._version == 0:
                rows = self._store.rows("SELECT * FROM takedowns WHERE lifted_ms IS NULL", {})
                self._current = TakedownSet(record_of(Takedown, row) for row in rows)
            else:
                query = "SELECT * FROM takedowns WHERE changed >= :since"
                for row in self._store.rows(query, {"since": self._version}):
                    takedown = record_of(Takedown, row)
                    if takedown.lifted_at is None:
                        self._current.put(takedown)
                    else:
                        self._current.drop(takedown.number)
            self._version = version
            return self._current
