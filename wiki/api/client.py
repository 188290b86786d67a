"""MediaWiki API client: login, tokens, maxlag, rate limit, retries, continuation.

Requests are sent one at a time. Retry-After and maxlag are obeyed within `ApiSettings`; beyond that the error
is raised. A write is repeated only when it cannot have been executed. Partial answers are never returned.
"""

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from core.clock import Clock, SystemClock
from core.errors import BadUrlError, ConfigError
from core.urls import fetch_key, host_of
from wiki.api import models, transport
from wiki.api.credentials import WikiCredentials, check_login, split_basic

CONTACT_CHARS: Final = 200

ParamValue = str | int | bool | Sequence[str] | Sequence[int] | None


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Limits and pace of requests to a wiki."""

    gap_s: float = 0.1  # seconds between the end of an answer and the next request
    maxlag_s: int = 5  # no requests while replicas lag by more; 0: do not ask
    attempts: int = 4  # attempts per request
    patience_s: float = 60.0  # of waiting; a longer Retry-After is raised instead
    limit_s: float = transport.RESPONSE_LIMIT_S  # timeout of one answer
    limit_bytes: int = transport.RESPONSE_LIMIT_BYTES  # size limit of one answer
    agent: str = ""  # the User-Agent; empty: `user_agent()`


@dataclass(frozen=True)
class ApiTiming:
    """Clock, sleep function and jitter source."""

    clock: Clock = field(default_factory=SystemClock)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: random.Random = field(default_factory=random.Random)


def user_agent(contact: str = "", purpose_page: str = "") -> str:
    """Return the User-Agent; raises ConfigError for characters that a header must not contain."""
    for name, text in (("contact", contact), ("purpose page", purpose_page)):
        if len(text) > CONTACT_CHARS or not text.isascii() or not text.isprintable():
            raise ConfigError(f"The {name} must be a page or mail address, in ASCII.")
    pages = "".join(f"; +{each}" for each in (purpose_page, contact) if each)
    return f"Weboid/0.2 (wiki archiver{pages})"


def encode_params(params: Mapping[str, ParamValue]) -> dict[str, str]:
    r"""Encode parameters as the API expects them; None and False are left out, lists joined.

    >>> encode_params({"a": True, "b": False, "c": None, "d": ["x", "y"], "e": 5})
    {'a': '1', 'd': 'x|y', 'e': '5'}
    >>> encode_params({"titles": ["x|y", "z"]})
    {'titles': '\x1fx|y\x1fz'}
    """
    encoded = {}
    for name, value in params.items():
        if value is None or value is False:
            continue
        if value is True:
            encoded[name] = "1"
        elif isinstance(value, str | int):
            encoded[name] = str(value)
        else:
            texts = [str(each) for each in value]
            has_bar = any("|" in text for text in texts)
            encoded[name] = "".join(f"\x1f{text}" for text in texts) if has_bar else "|".join(texts)
    return encoded


ApiAnswer = dict[str, Any]

LONG_CHARS: Final = 1_500  # a question that is longer goes as POST: servers limit addresses
REDIRECT_HOPS: Final = 3
PARTS_LIMIT: Final = 100_000  # of one `query`
_WARNINGS_KEPT: Final = 200
_TOKEN_CODES: Final = frozenset(("badtoken", "notoken"))

log = logging.getLogger(__name__)


class WikiApi(AbstractAsyncContextManager["WikiApi"]):
    """Client of one wiki's API; owns its connections and belongs to one event loop."""

    def __init__(
        self,
        address: str,
        account: WikiCredentials | None = None,
        *,
        settings: ApiSettings | None = None,
        route: transport.ServerRoute = transport.DIRECT,
        timing: ApiTiming | None = None,
    ) -> None:
        """Store address and limits; user and password in it are for the web server. ConfigError: an invalid address."""
        address, basic = split_basic(address)
        account = account or WikiCredentials()
        settings, timing = settings or ApiSettings(), timing or ApiTiming()
        if basic and not account.basic:
            account = WikiCredentials(account.name, account.password, account.token, basic)
        try:
            self.address = fetch_key(address, allow_single_label=True)
        except BadUrlError as error:
            raise ConfigError(f"{address[:200]!r} is not the address of an API: {error}") from error
        self.account = account
        self.moved_to = ""  # where the wiki sent us, when it did: the new address
        self.settings = settings
        self._home = self.address  # where secrets may go
        self._wire = transport.ApiTransport(
            user_agent=settings.agent or user_agent(),
            route=route,
            limit_s=settings.limit_s,
            limit_bytes=settings.limit_bytes,
        )
        self._clock = timing.clock
        self._sleep = timing.sleep
        self._chance = timing.chance
        self._turn = asyncio.Lock()
        self._login_turn = asyncio.Lock()
        self._last = float("-inf")
        self._logins = 0  # how often we logged in
        self._is_logged_in = not account.password  # a token is its own login
        self._tokens: dict[str, str] = {}
        self._warned: set[str] = set()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._wire.aclose()

    @property
    def host(self) -> str:
        """Return the API's host, for messages."""
        return host_of(self.address)

    @property
    def is_public(self) -> bool | None:
        """Return True if the server is on the public network; None before an answer or behind a proxy."""
        return self._wire.is_public

    async def keep_public(self) -> None:
        """Refuse private networks, since a public server supplied the address; raises WikiAwayError."""
        await self._wire.keep_public(self.address)

    async def get(self, **params: ParamValue) -> ApiAnswer:
        """Return the answer to a read-only request; parameters are named as in the API (`encode_params`).

        Raises WikiAwayError after all attempts, LoggedOutError, PermissionDeniedError, WikiRefusedError,
        WikiMovedError or BodyTooLargeError.
        """
        await self._ensure_login()
        login_count = self._logins
        try:
            return await self._request(encode_params(params))
        except models.LoggedOutError:
            if not self.account.password:
                raise
        await self._log_in_again(login_count)
        return await self._request(encode_params(params))

    async def post(self, **params: ParamValue) -> ApiAnswer:
        """Return the answer to a write request, sent with a token and as the account.

        Repeated only when the wiki reports that nothing was done. Raises as `get`; after a `WikiAwayError` the write
        may have been executed (`is_unsent`: it was not).
        """
        for is_last in (False, True):
            await self._ensure_login()
            login_count = self._logins
            try:
                return await self._request(encode_params({**params, "token": await self.token()}), writes=True)
            except models.LoggedOutError:
                if is_last or not self.account.password:
                    raise
                await self._log_in_again(login_count)
            except models.WikiRefusedError as error:
                if is_last or error.code not in _TOKEN_CODES:
                    raise
                if error.code == "badtoken" and self.account.password:
                    # The session may have been lost: without one every token is bad.
                    await self._log_in_again(login_count)
                self._tokens.clear()
        raise AssertionError("unreachable")

    async def query(self, parts_most: int = PARTS_LIMIT, /, **params: ParamValue) -> AsyncIterator[ApiAnswer]:
        """Yield unmerged answers to ``action=query``; as `get`, or WikiRefusedError ``endless``."""
        params = {"action": "query", **params}
        further: dict[str, str] = {}
        for _ in range(parts_most):
            answer = await self.get(**{**params, **further})
            yield answer
            further_now = models.continuation(answer)
            if not further_now:
                return
            if further_now == further:
                break
            further = further_now
        raise models.WikiRefusedError("endless", f"{self.host} sends an endless answer.")

    async def token(self, kind: str = "csrf") -> str:
        """Return a token of this kind, cached until the wiki rejects it."""
        if kind not in self._tokens:
            self._tokens[kind] = models.token_field(await self.get(action="query", meta="tokens", type=kind), kind)
        return self._tokens[kind]

    async def has_right(self, name: str) -> bool:
        """Check for a MediaWiki right, such as ``apihighlimits``."""
        answer = await self.get(action="query", meta="userinfo", uiprop="rights")
        return name in models.object_field(models.object_field(answer, "query"), "userinfo").get("rights", [])

    async def raw(self, url: str) -> transport.ApiResponse:
        """Fetch a page of the wiki's server and follow redirects, for API discovery; raises as `get`."""
        for _ in range(REDIRECT_HOPS + 1):
            reply = await self._one(transport.ApiRequest("GET", url, {}, self._secrets_for(url)))
            if reply.status not in transport.REDIRECTS:
                return reply
            url = await self._wire.target_of(reply)
        raise models.WikiAwayError(f"{host_of(url)} redirects in a loop.")

    async def _ensure_login(self) -> None:
        if self._is_logged_in:
            return
        async with self._login_turn:
            if not self._is_logged_in:
                await self._log_in()

    async def _log_in_again(self, login_count: int) -> None:
        async with self._login_turn:
            if self._logins == login_count:
                log.info("%s ended the session; logging in again", self.host)
                await self._log_in()

    async def _log_in(self) -> None:
        self._is_logged_in = False
        self._wire.forget()
        self._tokens.clear()
        answer = await self._request({"action": "query", "meta": "tokens", "type": "login"}, is_login=True)
        login = {
            "action": "login",
            "lgname": self.account.name,
            "lgpassword": self.account.password,
            "lgtoken": models.token_field(answer, "login"),
            "errorformat": "plaintext",  # with the reason's code
            "errorlang": "en",
        }
        check_login(await self._request(login, is_login=True, writes=True), host=self.host, name=self.account.name)
        self._logins += 1
        self._is_logged_in = True

    async def _request(self, params: Mapping[str, str], *, writes: bool = False, is_login: bool = False) -> ApiAnswer:
        waited = 0.0
        for attempt in range(1, self.settings.attempts + 1):
            try:
                return await self._attempt(params, writes=writes, is_login=is_login)
            except models.WikiAwayError as error:
                may_be_done = (
                    writes
                    and not is_login
                    and not (error.is_unsent or isinstance(error, models.ReadOnlyError | models.ThrottledError))
                )
                pause = error.retry_s or float(min(2 ** (attempt - 1), 30) * self._chance.uniform(0.75, 1.25))
                waited += pause
                is_last = attempt == self.settings.attempts
                if may_be_done or is_last or waited > self.settings.patience_s:
                    raise
                log.info("%s (attempt %d, again in %.0f s)", error, attempt, pause)
                await self._sleep(pause)
        raise AssertionError("unreachable")

    async def _attempt(self, params: Mapping[str, str], *, writes: bool, is_login: bool) -> ApiAnswer:
        full = {**params, "format": "json", "formatversion": "2", "utf8": "1"}
        if self.settings.maxlag_s and not is_login:
            full["maxlag"] = str(self.settings.maxlag_s)
        if self.account.is_anybody and not is_login:
            full["assert"] = "user"
        is_post = writes or sum(len(k) + len(v) + 2 for k, v in full.items()) > LONG_CHARS
        for _ in range(REDIRECT_HOPS + 1):
            headers = self._secrets_for(self.address)
            if is_post and not writes:
                headers["Promise-Non-Write-API-Action"] = "true"
            reply = await self._one(transport.ApiRequest("POST" if is_post else "GET", self.address, full, headers))
            if reply.status not in transport.REDIRECTS:
                return self._parse_answer(reply)
            target = (await self._wire.target_of(reply)).partition("?")[0]
            if not target.endswith(".php"):
                raise models.WikiAwayError(
                    f"{self.host} redirects to {target} instead of answering: the web server may want a login "
                    "(--basic-file), or the wiki is out of order."
                )
            if self.account.has_secret and not transport.is_same_server(self._home, target):
                raise models.WikiMovedError(target)
            log.warning("%s answers at %s", self.address, target)
            self.address = self.moved_to = target
            if transport.is_same_server(self._home, target):
                self._home = target
        raise models.WikiAwayError(f"{self.host} redirects in a loop.")

    async def _one(self, question: transport.ApiRequest) -> transport.ApiResponse:
        async with self._turn:
            left = self._last + self.settings.gap_s - self._clock.monotonic()
            if left > 0:
                await self._sleep(left)
            try:
                return await self._wire.send(question)
            finally:
                self._last = self._clock.monotonic()

    def _secrets_for(self, url: str) -> dict[str, str]:
        return self.account.headers() if transport.is_same_server(self._home, url) else {}

    def _parse_answer(self, reply: transport.ApiResponse) -> ApiAnswer:
        answer = transport.parse_response(reply)
        if answer is None or ("error" not in answer and "errors" not in answer):
            transport.check_status(reply)
        if answer is None:
            why = "cut short?" if reply.is_json else "it sent a page instead, for a login or an outage?"
            raise models.WikiAwayError(f"{self.host} did not answer with JSON: {why}")
        if (warnings := answer.get("warnings")) and len(self._warned) < _WARNINGS_KEPT:
            text = json.dumps(warnings, ensure_ascii=False)[:500]
            if text not in self._warned:
                self._warned.add(text)
                log.warning("%s warns: %s", self.host, text)
        transport.check_answer(answer, reply, host=self.host)
        return answer
