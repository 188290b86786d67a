"""Asking the front what is known of a page's links.

    async with HttpLookup("https://archive.example", …) as lookup:
        answers = await lookup.ask("handbook@me", urls)

A front that is slow or away costs one page its short time-out, and the next ones nothing: it is not
asked again for half a minute. Answers are kept as long as the front says that they hold.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Protocol, Self

import httpx

from core.clock import Clock
from core.http_dates import parse_retry_after
from wiki.embedding.addresses import origins as all_origins
from wiki.embedding.answers import ASKED_AT_ONCE, Answer, read_answers

PATH = "/links/api/cached"
TIMEOUT_S = 1.0
REST_S = 30.0  # how long a front that failed is left alone
KEPT = 20_000  # answers
ANSWER_LIMIT_BYTES = 8 << 20
_QUESTION_BYTES = 250_000  # the front reads no more than 300,000
_PATIENCE = 20  # questions that a patient one repeats
_WAIT_LIMIT_S = 60


class Lookup(Protocol):
    """Whoever knows what became of links.

    Attributes:
        failure: why the last question had no answer; empty when it had one.
    """

    failure: str

    async def ask(self, wiki: str, urls: Sequence[str], /) -> Mapping[str, Answer]:
        """What is known of the URLs, by URL; nothing of those that nobody knows. Never fails."""
        ...


class _LaterError(Exception):
    """The front asks to be left alone for a while."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        wait = parse_retry_after(said, now=None, limit=timedelta(seconds=_WAIT_LIMIT_S))
        self.wait_s = 5.0 if wait is None else wait.total_seconds()


class NobodyAsked:
    """Nothing is known of any link: what was marked loses its marks."""

    failure = ""

    async def ask(self, _wiki: str, urls: Sequence[str]) -> Mapping[str, Answer]:
        """Of each URL, nothing."""
        return {url: Answer(url) for url in urls}


class NotAsked(Exception):  # noqa: N818 it is caught where it is raised
    """The front gave no answer; its text says why."""


def batches(urls: Iterable[str]) -> Iterator[list[str]]:
    """The URLs in as few questions as the front reads."""
    batch: list[str] = []
    size = 0
    for url in urls:
        more = len(json.dumps(url, ensure_ascii=False).encode("utf-8", "replace")) + 2
        if batch and (len(batch) == ASKED_AT_ONCE or size + more > _QUESTION_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(url)
        size += more
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class Manner:
    """How a front is asked.

    Attributes:
        language: of the words that are shown; empty: the front's own.
        token: that lets us ask as often as we like; empty for none.
        rest_s: how long a front that failed is not asked.
        is_patient: a front that says "later" is waited for.
    """

    language: str = ""
    token: str = ""
    rest_s: float = REST_S
    is_patient: bool = False


class HttpLookup:
    """A front that is asked over HTTP. Close it, or use it as a context."""

    def __init__(
        self,
        front: str,
        *,
        clock: Clock,
        origins: Sequence[str] = (),
        timeout_s: float = TIMEOUT_S,
        manner: Manner | None = None,
    ) -> None:
        """Take the front's address.

        Args:
            front: its origin, and a path when it lies below one: ``https://wiki.example/archive``.
            clock: tells how old an answer is.
            origins: where copies may lie, beside the front's own origin.
            timeout_s: for a whole question.
            manner: how else it is asked.

        Raises:
            ConfigError: an address is none.
        """
        self._address = front.rstrip("/") + PATH
        self._origins = all_origins((front, *origins))
        self._clock = clock
        self._manner = manner or Manner()
        self._timeout_s = timeout_s
        self._client = httpx.AsyncClient(
            timeout=timeout_s,
            follow_redirects=False,
            trust_env=False,
            headers=self._head(),
        )
        self._rests_until = float("-inf")
        self._kept: OrderedDict[tuple[str, str], tuple[float, Answer]] = OrderedDict()
        self.failure = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def ask(self, wiki: str, urls: Sequence[str]) -> Mapping[str, Answer]:
        """What is known of the URLs; `failure` says whether the front was missed."""
        now = self._clock.monotonic()
        found: dict[str, Answer] = {}
        missing = []
        for url in dict.fromkeys(urls):
            until, answer = self._kept.get((wiki, url), (now, None))
            if answer is not None and until > now:
                found[url] = answer
            else:
                missing.append(url)
        for batch in batches(missing):
            if self._clock.monotonic() < self._rests_until:
                break
            try:
                told, fresh_s = await self._asked(wiki, batch)
            except NotAsked as error:
                self.failure = str(error)
                self._rests_until = self._clock.monotonic() + self._manner.rest_s
                break
            self.failure = ""
            found |= told
            self._keep(wiki, told, self._clock.monotonic() + fresh_s)
        return found

    def _head(self) -> dict[str, str]:
        head = {"Accept": "application/json", "Content-Type": "application/json"}
        token = self._manner.token
        return head | ({"Authorization": f"Bearer {token}"} if token else {})

    async def _asked(self, wiki: str, urls: list[str]) -> tuple[dict[str, Answer], float]:
        question = {"wiki": wiki, "urls": urls, "lang": self._manner.language or None}
        body = json.dumps(question, ensure_ascii=False).encode("utf-8", "replace")
        for _ in range(_PATIENCE if self._manner.is_patient else 1):
            try:
                async with asyncio.timeout(
                    self._timeout_s
                ):  # httpx bounds each step, not their sum
                    document = json.loads(await self._body(body))
            except _LaterError as error:
                if self._manner.is_patient:
                    await asyncio.sleep(error.wait_s)
                continue
            except TimeoutError as error:
                raise NotAsked(f"it took longer than {self._timeout_s:g} s") from error
            except httpx.HTTPError as error:
                raise NotAsked(str(error) or type(error).__name__) from error
            except (ValueError, RecursionError) as error:
                raise NotAsked("its answer is no JSON") from error
            return read_answers(document, urls, self._origins)
        raise NotAsked("it was asked too often, and says so")

    async def _body(self, question: bytes) -> bytes:
        async with self._client.stream("POST", self._address, content=question) as answer:
            if answer.status_code == 429:
                raise _LaterError(answer.headers.get("retry-after", ""))
            if answer.status_code != 200:
                raise NotAsked(f"it answers with status {answer.status_code}")
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > ANSWER_LIMIT_BYTES:
                    raise NotAsked("its answer is too large")
        return bytes(body)

    def _keep(self, wiki: str, told: Mapping[str, Answer], until: float) -> None:
        for url, answer in told.items():
            self._kept[wiki, url] = (until, answer)
            self._kept.move_to_end((wiki, url))
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
