"""Take-downs: what must not be shown, and why (P-22).

What each kind covers; all but digests go by the replay key (`core.replay_keys`), and an artifact
``urn:KIND:URL`` by the URL within it:

url      the URL and what shares its replay key: the other scheme, with and without ``www.``, other
         letter case, another order of arguments, any fragment
prefix   that path and all below it, at the boundary of a segment: ``/a`` covers ``/a``, ``/a/b`` and
         ``/a?q``, never ``/ab``; the same port only
host     the host on every port, with and without ``www.``, and every host below it
capture  the page of that URL and second, with all that was captured for it and for no other page
digest   a payload, wherever it was captured

A look-up's cost grows with the parts of the URL asked about, never with the number of take-downs.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from urllib.parse import urlsplit

from core.digests import Digest
from core.errors import BadUrlError, InputError
from core.replay_keys import replay_key
from core.timestamps import parse_timestamp14

_URN = re.compile(r"urn:[^:]*:(.*)", re.DOTALL)
_PORT = re.compile(r":\d+\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HOST_TEXT = re.compile(r"\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\\\[\]()<>\"']+")
_MOST_LABELS = 128


class TakedownKind(StrEnum):
    """What a take-down names."""

    URL = "url"
    PREFIX = "prefix"
    HOST = "host"
    CAPTURE = "capture"
    DIGEST = "digest"


class Effect(StrEnum):
    """What a reader is told."""

    BLOCK = "block"  # 451, with the public reason; still listed
    HIDE = "hide"  # as if it had never been captured


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be shown: a record, or a page.

    Attributes:
        url: its URL; of an artifact the ``urn:``, which stands for the URL within it.
        timestamp: its moment, 14 digits.
        digest: its payload's; empty when none is known.
        page_id: the page it was captured for; empty when none is known.
    """

    url: str
    timestamp: str = ""
    digest: str = ""
    page_id: str = ""


@dataclass(frozen=True, slots=True)
class Takedown:
    """One decision that something must not be shown.

    Attributes:
        number: which it is, from 1; 0 while it was not kept.
        what: URL, prefix, host or digest, as `canonical` spells it.
        timestamp: of a capture, 14 digits; else empty.
        reason: for readers, when the effect is to block.
        ticket: where it was asked for; not for readers.
        actor: who decided.
        expires_at: when it ends by itself; None: never.
    """

    number: int
    kind: TakedownKind
    what: str
    timestamp: str
    effect: Effect
    reason: str
    ticket: str
    actor: str
    decided_at: datetime
    expires_at: datetime | None

    def holds(self, now: datetime) -> bool:
        """Whether it has not ended by itself."""
        return self.expires_at is None or now < self.expires_at


class Takedowns:
    """Take-downs that were not lifted, ready to be asked about each record.

    May be asked while another thread puts and drops: an answer counts what was there before or after.
    """

    def __init__(self, takedowns: Iterable[Takedown] = ()) -> None:
        self._by_key: dict[tuple[TakedownKind, str], tuple[Takedown, ...]] = {}
        self._by_number: dict[int, Takedown] = {}
        self._count: Counter[TakedownKind] = Counter()
        self._digests = 0
        self._longest = 0  # of the keys of prefixes
        for each in takedowns:
            self.put(each)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._by_number)

    @property
    def state_of_digests(self) -> str:
        """Differs when other payloads are taken down; empty while none is."""
        return f"{self._digests:08x}" if self._count[TakedownKind.DIGEST] else ""

    def has(self, *kinds: TakedownKind) -> bool:
        """Whether there is any of these kinds."""
        return any(self._count[kind] for kind in kinds)

    def put(self, takedown: Takedown) -> None:
        """Add it, or take it for the one that has its number."""
        self.drop(takedown.number)
        key = (takedown.kind, key_of(takedown))
        self._by_key[key] = (*self._by_key.get(key, ()), takedown)
        self._by_number[takedown.number] = takedown
        self._note(takedown, 1)

    def drop(self, number: int) -> None:
        """Forget the one with that number, if there is one."""
        takedown = self._by_number.pop(number, None)
        if takedown is None:
            return
        key = (takedown.kind, key_of(takedown))
        left = tuple(each for each in self._by_key[key] if each.number != number)
        if left:
            self._by_key[key] = left
        else:
            del self._by_key[key]
        self._note(takedown, -1)

    def on(self, subject: Subject, now: datetime) -> Takedown | None:
        """The take-down that holds for the subject at `now`; None: it may be shown.

        Hiding goes before blocking, and of equals the first decision counts. What a page's parts share
        with it, its redirects and its document's payload are looked at by `playback.permits`.
        """
        return self._strictest(self._keys(subject), now) if self._by_number else None

    def on_capture(self, url: str, timestamp: str, now: datetime) -> Takedown | None:
        """The take-down of that one capture, whatever else holds for its URL."""
        if not self._count[TakedownKind.CAPTURE]:
            return None
        key = (TakedownKind.CAPTURE, f"{timestamp} {_url_key(within(url))}")
        return self._strictest((key,), now)

    def _strictest(
        self, keys: Iterable[tuple[TakedownKind, str]], now: datetime
    ) -> Takedown | None:
        return strictest(
            each for key in keys for each in self._by_key.get(key, ()) if each.holds(now)
        )

    def _keys(self, subject: Subject) -> Iterator[tuple[TakedownKind, str]]:
        """Every key under which a take-down of the subject would be filed."""
        count = self._count
        if count[TakedownKind.DIGEST] and subject.digest:
            yield TakedownKind.DIGEST, digest_key(subject.digest)
        if len(self._by_number) == count[TakedownKind.DIGEST]:
            return
        url = within(subject.url)
        key = _url_key(url)
        yield TakedownKind.URL, key
        if count[TakedownKind.CAPTURE] and subject.timestamp:
            yield TakedownKind.CAPTURE, f"{subject.timestamp} {key}"
        if count[TakedownKind.PREFIX]:
            for prefix in _prefixes(key, self._longest):
                yield TakedownKind.PREFIX, prefix
        if count[TakedownKind.HOST]:
            for host in _hosts(key, url):
                yield TakedownKind.HOST, host

    def _note(self, takedown: Takedown, count: int) -> None:
        self._count[takedown.kind] += count
        if takedown.kind is TakedownKind.PREFIX:
            self._longest = max(self._longest, len(key_of(takedown)))
        if takedown.kind is TakedownKind.DIGEST:
            self._digests ^= zlib.crc32(f"{takedown.number} {takedown.what}".encode())


def strictest(takedowns: Iterable[Takedown | None]) -> Takedown | None:
    """The one that counts of several for the same thing; None when there is none."""
    found = [each for each in takedowns if each is not None]
    if not found:
        return None
    return min(found, key=lambda each: (each.effect is not Effect.HIDE, each.number))


def within(url: str) -> str:
    """The URL within an artifact's ``urn:``; any other as it is.

    >>> within("urn:view:https://example.org/"), within("https://example.org/")
    ('https://example.org/', 'https://example.org/')
    """
    while (match := _URN.fullmatch(url)) is not None:
        url = match[1]
    return url


def canonical(kind: TakedownKind, text: str) -> str:
    """What somebody typed, as it is kept.

    Raises:
        InputError: it is nothing of that kind.

    >>> canonical(TakedownKind.HOST, "WWW.Example.org."), canonical(TakedownKind.URL, "example.org")
    ('www.example.org', 'https://example.org/')
    """
    text = text.strip()
    if kind is TakedownKind.DIGEST:
        return str(Digest.parse(text))
    if kind is TakedownKind.HOST:
        return _canonical_host(text)
    url = _web_url(within(text))
    if kind is TakedownKind.PREFIX and ("?" in url or "#" in url):
        raise InputError(
            f"{url[:200]!r} is no prefix, for it has a query: name the path, or each URL."
        )
    return url


def checked_timestamp(text: str) -> str:
    """The 14 digits of a capture's moment.

    Raises:
        InputError: they name none.
    """
    parse_timestamp14(text)
    return text


def key_of(takedown: Takedown) -> str:
    """What the take-down is filed under."""
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
    """One spelling of a digest, however it is spelled; what is none stays what it is."""
    try:
        return str(Digest.parse(text))
    except InputError:
        return text


@lru_cache(maxsize=4096)
def _url_key(url: str) -> str:
    try:
        return replay_key(url)
    except BadUrlError:
        return url  # no index has a key for it either; its own text stands for it


def _prefixes(key: str, longest: int) -> Iterator[str]:
    """The key and all that it lies below, at boundaries of segments, up to `longest` characters."""
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
    """The host of a key, without its port, and the hosts that it lies below."""
    host = key.partition(")")[0]
    if host.count(":") > 1:  # an IPv6 address, from whose end a port cannot be told
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


def _canonical_host(text: str) -> str:
    host = urlsplit(text).netloc.rpartition("@")[2] if "://" in text else text
    host = _PORT.sub("", host) if host.count(":") == 1 or host.startswith("[") else host
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    host = host.strip(".").lower()
    if _HOST_TEXT.fullmatch(host) is None:
        raise InputError(f"{text[:200]!r} is no host: write example.org, or 192.0.2.1.")
    _web_url(f"http://{host}/")
    return host


def _web_url(text: str) -> str:
    """The URL; https where no scheme is given.

    Raises:
        InputError: it is none of the web's.
    """
    if "://" not in text and not text.lower().startswith(("http:", "https:")):
        text = f"https://{text}"
    try:
        parts = urlsplit(text)
        replay_key(text)
    except (ValueError, BadUrlError) as error:
        raise InputError(f"{text[:200]!r} is no URL: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or re.search(r"\s", text):
        raise InputError(f"{text[:200]!r} is no URL of the web.")
    return text if parts.path or parts.query else f"{text.rstrip('/')}/"
