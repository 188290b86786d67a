"""Lookup of a page's links at the front: cited addresses, requests, answers.

Answers are inserted into pages of other sites: only texts of a known form are accepted, and addresses at the
front's own origins or at a known archive. An unavailable front is not queried for half a minute.
"""

import asyncio
import json
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import cached_property, lru_cache
from html import unescape
from html.entities import html5
from typing import Any
from urllib.parse import quote, urljoin

import httpx

from core.clock import Clock
from core.errors import BadUrlError, ConfigError
from core.hosts import HostPatterns
from core.urls import fetch_key, host_of, identity_key
from core.web_dates import parse_retry_after
from links.archives.archive_urls import recognise

LONGEST_CITED_URL = 4_096  # of an address: longer ones are not cited
_REFERENCE = re.compile(r"&(?:#(?:[0-9]{1,9}|[xX][0-9a-fA-F]{1,8});?|([A-Za-z0-9]{1,40};?))(=?)")
_TAKEN_OUT = re.compile("[\t\n\r]")
_AROUND = "".join(map(chr, range(0x21)))  # C0 controls and space (WHATWG URL, 4.4)
_ABSOLUTE = re.compile(r"https?:[/\\]{2}[^/\\]", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE | re.ASCII)
_ASCII = "".join(map(chr, range(0x80)))


def attribute_text(value: bytes, charset: str) -> str:
    """Decode an attribute's value, with character references as in attributes (13.2.5.73).

    >>> attribute_text(b"/?a=1&amp;b=2&copy=3&eacute", "utf-8")
    '/?a=1&b=2&copy=3é'
    """
    text = value.decode(charset, "replace")
    return _REFERENCE.sub(_referred, text) if "&" in text else text


def _referred(match: re.Match[str]) -> str:
    name, equals = match[1], match[2]
    if name is None:
        return unescape(match[0].removesuffix("=")) + equals
    if name.endswith(";"):
        return html5.get(name, f"&{name}") + equals
    return match[0] if equals else html5.get(name, f"&{name}")


@dataclass(frozen=True, slots=True)
class CitedAddress:
    """Address that a link cites."""

    url: str  # absolute if possible, else as written in the page
    host: str
    page: str  # identity of the cited page; of a copy, that of the original; empty when unknown
    is_copy: bool  # it belongs to a known archive, or to this one


@dataclass(frozen=True)
class PageLocation:
    """Location of a page, and the addresses excluded from marking."""

    url: str = ""  # the page's own; empty when unknown
    own: tuple[str, ...] = ()  # hosts whose pages are not citations: ``wiki.example``, ``*.example``
    fronts: tuple[str, ...] = ()  # origins of this archive's front and replay

    @cached_property
    def hosts(self) -> HostPatterns[bool]:
        """Return all hosts excluded from marking. Raises ConfigError: a pattern is invalid."""
        named = [*self.own]
        try:
            named += [host_of(url) for url in (self.url, *self.fronts) if url]
        except BadUrlError as error:
            raise ConfigError(f"A page or front has no usable address: {error}") from error
        return HostPatterns(dict.fromkeys(named, True))

    def cited(self, href: str, base: str = "") -> "CitedAddress | None":
        """Return the address that a link cites; None when it is excluded or not applicable."""
        text = _TAKEN_OUT.sub("", href.strip(_AROUND))
        if not text or len(text) > LONGEST_CITED_URL or "\ufffd" in text:
            return None
        text = text if _ABSOLUTE.match(text) else self._absolute(text, base)
        cited = _cited_address(text, self.fronts) if text else None
        return cited if cited is not None and not self.hosts.of(cited.host) else None

    def _absolute(self, text: str, base: str) -> str:
        is_of_host = text.replace("\\", "/", 2).startswith("//")
        if _SCHEME.match(text) or not (is_of_host or base):  # without a base it is on the page's own host
            return ""
        with suppress(ValueError):
            start = urljoin(self.url, base) if base else self.url
            start = start or ("https://unknown.invalid/" if is_of_host else "")
            joined = urljoin(start, text.replace("\\", "/", 2) if is_of_host else text)
            return joined if _ABSOLUTE.match(joined) else ""
        return ""


@lru_cache(maxsize=8_192)  # a page's links are the same at its next view
def _cited_address(text: str, fronts: tuple[str, ...]) -> CitedAddress | None:
    """Parse an absolute address; None for one that cannot be looked up."""
    try:
        key = fetch_key(text)
        archive = recognise(key, own=fronts)
        is_copy = archive is not None and archive.is_known
        # Copies of a page may have either scheme, and may lack the last slash.
        of = archive.original if archive is not None and is_copy else key
        page = identity_key(of).partition("://")[2].rstrip("/") if of else ""
        return CitedAddress(text, host_of(key), page, is_copy=is_copy)
    except BadUrlError:
        return None


def with_escaped_query(text: str, charset: str) -> str:
    """Percent-encode the query in the page's encoding, as browsers do (WHATWG URL, 4.4).

    >>> with_escaped_query("http://example.org/é?q=é", "cp1252")
    'http://example.org/é?q=%E9'
    """
    if charset == "utf-8" or text.isascii() or "?" not in text:
        return text
    before, hash_sign, fragment = text.partition("#")
    path, mark, query = before.partition("?")
    return path + mark + quote(query.encode(charset, "xmlcharrefreplace"), _ASCII) + hash_sign + fragment


def all_origins(urls: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct origins of addresses. Raises ConfigError: one is not an http(s) address."""
    matches = {url: re.match(r"(https?://[^/?#\\@\s]+)(?=[/?#]|$)", url, re.IGNORECASE) for url in urls}
    for url in (url for url, matched in matches.items() if matched is None):
        raise ConfigError(f"{url[:80]!r} is not the address of a front: https://archive.example.")
    return tuple(dict.fromkeys(matched[1].lower() for matched in matches.values() if matched is not None))


URLS_AT_ONCE = 1_000
_LONGEST_ADDRESS = 8_192
_LONGEST_WORDS = 300
_LONGEST_LABEL = 40
_WORD = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)
_KEPT = "!#$%&()*+,/:;=?@[]^`{|}"  # besides letters, digits and `-._~`
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)?", re.ASCII)
_FRESH_LIMIT_S = 86_400.0
_FRESH_DEFAULT_S = 60.0


class CopyDisplay(StrEnum):
    """Selection of links that get a link to their copy."""

    ALWAYS = "always"
    DEAD = "dead"
    NEVER = "never"  # classes and attributes only


@dataclass(frozen=True, slots=True)
class LinkAnswer:
    """Answer about one link; the fields are those of docs/how-to/embedding.md."""

    url: str
    answer: str = "none"
    href: str = ""
    copy: str = ""
    date: str = ""
    group: str = "unknown"
    is_dead: bool = False
    words: str = ""
    label: str = ""  # the word next to the link, in the requested language; empty: English


def read_answers(document: Any, urls: Sequence[str], fronts: Iterable[str]) -> tuple[dict[str, LinkAnswer], float]:
    """Validate answers for the allowed origins; return them by URL, and their lifetime in seconds."""
    links = document.get("links") if isinstance(document, dict) else None
    if not isinstance(links, list):
        return {}, _FRESH_DEFAULT_S
    allowed = tuple(f"{origin.rstrip('/')}/".lower() for origin in fronts)
    paired = ((url, each) for url, each in zip(urls, links, strict=False) if isinstance(each, dict))
    answers = {url: _read_answer(url, each, allowed) for url, each in paired if each.get("url") == url}
    fresh = document.get("fresh_s")
    is_number = isinstance(fresh, (int, float)) and not isinstance(fresh, bool)
    is_sane = is_number and 0 <= fresh <= _FRESH_LIMIT_S
    return answers, float(fresh) if is_sane else _FRESH_DEFAULT_S


def _read_answer(url: str, each: Mapping[str, Any], allowed: tuple[str, ...]) -> LinkAnswer:
    answer, group, date = _text(each, "answer"), _text(each, "group"), _text(each, "date")
    href, copy = (_address(each.get(key), allowed) for key in ("href", "copy"))
    group = group if _WORD.fullmatch(group) else "unknown"
    words, label = _plain_line(_text(each, "words")), _plain_line(_text(each, "label"))[:_LONGEST_LABEL]
    known = LinkAnswer(url, group=group, is_dead=each.get("is_dead") is True, words=words, label=label)
    if answer == "none" or not _WORD.fullmatch(answer) or not (href or copy):
        return known
    if answer != "copy":
        return replace(known, answer=answer, href=href)
    # Copies come from an origin of their own; where that is not known, the page around one does.
    date = date if _DATE.fullmatch(date) else ""
    return replace(known, answer=answer, href=href or copy, copy=copy or href, date=date)


def _text(each: Mapping[str, Any], key: str) -> str:
    value = each.get(key)
    return value if isinstance(value, str) else ""


def _address(value: Any, allowed: tuple[str, ...]) -> str:
    """Return the address in ASCII; empty when it is not allowed."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ADDRESS:
        return ""
    is_ours = value.lower().startswith(allowed) and "\\" not in value
    try:
        key = fetch_key(value, allow_single_label=is_ours)
    except BadUrlError:
        return ""
    if is_ours:
        # Unchanged: a copy's address may contain the fragment or user information of the original.
        return quote(value, _KEPT)
    recognised = recognise(key)
    return key if recognised is not None and recognised.is_known and recognised.is_usable else ""


def _plain_line(text: str) -> str:
    shown = "".join(
        " " if unicodedata.category(char) in {"Cc", "Zl", "Zp"} else char
        for char in text[: 2 * _LONGEST_WORDS]
        if unicodedata.category(char) not in {"Cf", "Cs", "Cn", "Co"}
    )
    return " ".join(shown.split())[:_LONGEST_WORDS]


LOOKUP_PATH = "/links/api/cached"
TIMEOUT_S = 1.0
FAILURE_PAUSE_S = 30.0  # pause after a failure of the front
ANSWERS_KEPT = 20_000  # answers
ANSWER_LIMIT_BYTES = 8 << 20
_QUESTION_BYTES = 250_000  # the front reads no more than 300,000
_PATIENCE = 20  # questions that a patient one repeats
_WAIT_LIMIT_S = 60


class LinkLookup:
    """Lookup of links; this one without answers: existing marks are removed."""

    failure = ""  # reason why the last request failed; empty on success

    async def ask(self, _wiki: str, urls: Sequence[str], /) -> Mapping[str, LinkAnswer]:
        """Return answers by URL; unknown URLs have none. Never raises."""
        return {url: LinkAnswer(url) for url in urls}


class LookupFailedError(Exception):
    """Failed request to the front; its text gives the reason."""


def url_batches(urls: Iterable[str]) -> Iterator[list[str]]:
    """Split the URLs into as few requests as the front accepts."""
    batch: list[str] = []
    size = 0
    for url in urls:
        more = len(json.dumps(url, ensure_ascii=False).encode("utf-8", "replace")) + 2
        if batch and (len(batch) == URLS_AT_ONCE or size + more > _QUESTION_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(url)
        size += more
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class LookupOptions:
    """Options of requests to a front."""

    language: str = ""  # of displayed words; empty: the front's own
    token: str = ""  # for unlimited requests; empty for none
    is_patient: bool = False  # wait when the front requests a pause


class HttpLinkLookup(LinkLookup, AbstractAsyncContextManager["HttpLinkLookup"]):
    """Lookup over HTTP. Close it, or use it as a context manager."""

    def __init__(
        self,
        front: str,
        *,
        clock: Clock,
        origins: Sequence[str] = (),
        timeout_s: float = TIMEOUT_S,
        manner: LookupOptions | None = None,
    ) -> None:
        """Store the front's address; `origins`: further ones that copies may have. ConfigError: an invalid address."""
        self._address = front.rstrip("/") + LOOKUP_PATH
        self._origins = all_origins((front, *origins))
        self._clock = clock
        self._manner = manner or LookupOptions()
        self._timeout_s = timeout_s
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._manner.token:
            headers["Authorization"] = f"Bearer {self._manner.token}"
        self._client = httpx.AsyncClient(timeout=timeout_s, follow_redirects=False, trust_env=False, headers=headers)
        self._rests_until = float("-inf")
        self._cached: OrderedDict[tuple[str, str], tuple[float, LinkAnswer]] = OrderedDict()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def ask(self, wiki: str, urls: Sequence[str], /) -> Mapping[str, LinkAnswer]:
        """Return answers by URL; `failure` is set when the front failed."""
        now = self._clock.monotonic()
        known = {url: self._cached.get((wiki, url), (now, LinkAnswer(url))) for url in dict.fromkeys(urls)}
        answers_by_url = {url: cached for url, (until, cached) in known.items() if until > now}
        for batch in url_batches(url for url in known if url not in answers_by_url):
            if self._clock.monotonic() < self._rests_until:
                break
            try:
                answers, fresh_s = await self._request(wiki, batch)
            except LookupFailedError as error:
                self.failure = str(error)
                self._rests_until = self._clock.monotonic() + FAILURE_PAUSE_S
                break
            self.failure = ""
            answers_by_url |= answers
            until = self._clock.monotonic() + fresh_s
            for url, answer in answers.items():
                self._cached[wiki, url] = (until, answer)
                self._cached.move_to_end((wiki, url))
            while len(self._cached) > ANSWERS_KEPT:
                self._cached.popitem(last=False)
        return answers_by_url

    async def _request(self, wiki: str, urls: list[str]) -> tuple[dict[str, LinkAnswer], float]:
        question = {"wiki": wiki, "urls": urls, "lang": self._manner.language or None}
        body = json.dumps(question, ensure_ascii=False).encode("utf-8", "replace")
        for _ in range(_PATIENCE if self._manner.is_patient else 1):
            try:
                # httpx bounds each step, not their sum.
                async with asyncio.timeout(self._timeout_s):
                    answer = await self._answer(body)
                if isinstance(answer, bytes):
                    return read_answers(json.loads(answer), urls, self._origins)
            except TimeoutError as error:
                raise LookupFailedError(f"it took longer than {self._timeout_s:g} s") from error
            except httpx.HTTPError as error:
                raise LookupFailedError(str(error) or type(error).__name__) from error
            except (ValueError, RecursionError) as error:
                raise LookupFailedError("its answer is no JSON") from error
            if self._manner.is_patient:
                await asyncio.sleep(answer)
        raise LookupFailedError("it limits the request rate")

    async def _answer(self, question: bytes) -> bytes | float:
        """Return the answer's body, or the seconds to wait before asking again."""
        async with self._client.stream("POST", self._address, content=question) as answer:
            if answer.status_code == 429:
                limit = timedelta(seconds=_WAIT_LIMIT_S)
                wait = parse_retry_after(answer.headers.get("retry-after", ""), now=None, limit=limit)
                return 5.0 if wait is None else wait.total_seconds()
            if answer.status_code != 200:
                raise LookupFailedError(f"it answers with status {answer.status_code}")
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > ANSWER_LIMIT_BYTES:
                    raise LookupFailedError("its answer is too large")
        return bytes(body)
