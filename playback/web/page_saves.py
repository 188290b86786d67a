"""Pages on which readers save a URL: form with a bookmarklet, quotas, and progress until the copy is there.

Addresses and day totals are counted by token buckets, which are stored in the frontier as notes, or in Redis when
several fronts share a frontier.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from core.errors import BadUrlError, InputError, TransientError
from core.timestamps import from_unix_milliseconds
from core.urls import UrlFault, fetch_key
from links.feedback.replacements import MAX_ADDRESS_LENGTH, RefusedAddressError
from playback.web.copy_lookup import QueueStatusReader, UrlQueueState
from playback.web.i18n import localized_path, noop, translate
from playback.web.page_renderer import WebContext, path_with_query, reader_path
from playback.web.page_request import archived_url, raw_rest
from playback.web.rate_limits import BusyError, RateLimiter, RateLimitPolicy, ReaderRates, RequestThrottle, TokenRate
from playback.web.registry.link_messages import FAULTS
from playback.web.registry.registry_forms import OTHER_SITE, check_sender, read_form_post
from playback.web.registry.user_reports import FORM_HEADERS, REFUSED_ADDRESSES

SAVE_PATH: Final = "/save"
SAVE_INTERVAL: Final = timedelta(hours=1)  # between two captures of a URL for readers
SAVES_PER_ADDRESS: Final = 20
SAVES_PER_DAY: Final = 1_000
_DAY_S = 86_400
_RANGE_FACTOR = 5  # address ranges may save more than a single address
_PENDING = (UrlQueueState.QUEUED, UrlQueueState.VISITING)
_EXCLUDED = noop("The operator of this archive has excluded this address.")


class SaveQueue(QueueStatusReader, Protocol):
    """Interface to the crawl queue for saved pages. Thread-safe; TransientError: it cannot be used now."""

    def check(self, url: str) -> None:
        """Raise RefusedAddressError when the fetch key is, by its text alone, not on the public web."""
        ...

    def save(self, url: str, *, again: timedelta, counters: Mapping[str, tuple[str, float]]) -> None:
        """Queue the fetch key before all others, unless it ended less than `again` ago.

        `counters` are texts to store by name, each for a time in seconds.
        """
        ...

    def counter(self, name: str) -> str | None:
        """Return a stored text; None when there is none or its time is over."""
        ...


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """Queue of saved pages, and quotas of pages a day."""

    queue: SaveQueue
    per_address: int = SAVES_PER_ADDRESS  # an IPv4 address or IPv6 /64; ranges of addresses have five times as many
    per_day: int = SAVES_PER_DAY  # of all readers


def save_addresses(saves: SaveOptions | None) -> Callable[..., str]:
    """Return a function that gives the address of the form, filled in with a URL; empty if readers may not save."""
    if saves is None:
        return lambda _url="": ""
    return lambda url="": path_with_query(localized_path(SAVE_PATH), {"url": url})


class SavePages:
    """Routes of saved pages."""

    def __init__(self, saves: SaveOptions, access: RateLimitPolicy, context: WebContext) -> None:
        self._saves = saves
        self._context = context
        self._limiter = RateLimiter(access, "save", context.clock.monotonic)
        rates = [
            TokenRate(most / _DAY_S, most)
            for most in (saves.per_address, saves.per_address * _RANGE_FACTOR, saves.per_day)
        ]
        self._quota = RequestThrottle(
            ReaderRates(*rates), shared=access.shared, name="saved pages", stored=saves.queue.counter
        )

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route(SAVE_PATH, self.show),
            Route(SAVE_PATH, self.save, methods=["POST"]),
            Route(f"{SAVE_PATH}/{{rest:path}}", self.fill_in),
        ]

    def fill_in(self, request: Request) -> Response:
        """Redirect to the form with the URL of the path."""
        url = archived_url(raw_rest(request, 1))
        if url is None:
            raise HTTPException(404)
        return RedirectResponse(path_with_query(localized_path(SAVE_PATH), {"url": url}), 302)

    def show(self, request: Request) -> Response:
        """Return the form; with ``url=`` filled in, or the progress; with ``since=`` in the end a redirect to the copy."""
        entered = request.query_params.get("url", "")[: MAX_ADDRESS_LENGTH + 1].strip()
        if not entered:
            return self._page(request)
        try:
            self._limiter.count(request)
            url = _parse(entered)
        except (BusyError, InputError) as error:
            return self._refused(request, error, entered)
        is_hidden = self._context.store.takedowns_of([url])[0] is not None
        standing = None if is_hidden else self._saves.queue.standing(url)
        seconds = request.query_params.get("since", "")
        is_plain = seconds.isascii() and seconds.isdigit() and len(seconds) <= 11
        since = from_unix_milliseconds(int(seconds) * 1000) if is_plain else None
        if standing is not None and standing.standing in _PENDING:
            now = self._context.clock.now()
            if since is None:
                return _follow(url, now)
            pause_s = min(max(int((now - since).total_seconds()) // 10, 2), 30)
            return self._page(request, headers={"Refresh": str(pause_s)}, url=url, standing=standing, is_pending=True)
        newest = None if is_hidden else next(iter(self._context.store.captures(url, limit=1)), None)
        is_done = standing is not None and standing.standing is UrlQueueState.DONE
        if since is not None and is_done and newest is not None and newest.captured_at > since - SAVE_INTERVAL:
            return RedirectResponse(reader_path(newest.timestamp, newest.url), 302, headers=FORM_HEADERS)
        shown = standing if since is not None and not is_done else None
        return self._page(request, url=url, newest=newest, standing=shown, is_lost=since is not None and is_done)

    async def save(self, request: Request) -> Response:
        """Queue the page of the form and redirect to its progress."""
        try:
            check_sender(request, self._context.origin)
        except HTTPException:
            return self._page(request, 403, error=translate(OTHER_SITE))
        entered = (await read_form_post(request)).get("url", "")[: MAX_ADDRESS_LENGTH + 1].strip()
        return await run_in_threadpool(self._queue, request, entered)

    def _queue(self, request: Request, entered: str) -> Response:
        now = self._context.clock.now()
        try:
            self._limiter.count(request, is_form=True)
            url = _parse(entered)
            # A hidden URL must not look different from one that the operator excludes.
            if self._context.store.takedowns_of([url])[0] is not None:
                return self._page(request, 403, url=url, error=translate(_EXCLUDED))
            standing = self._saves.queue.standing(url)
            is_recent = standing is not None and now - standing.since < SAVE_INTERVAL
            if standing is None or standing.standing in _PENDING or not is_recent:
                self._saves.queue.check(url)
                address, is_internal = self._limiter.address_of(request), self._limiter.is_internal(request)
                moment = now.timestamp()  # by the wall clock, so that it means the same after a restart
                wait_s = 0 if is_internal else self._quota.wait_s(address, moment)
                if wait_s:
                    return self._refused(request, BusyError(wait_s), entered)
                counters = {} if is_internal else self._quota.texts_of(address, moment)
                try:
                    self._saves.queue.save(url, again=SAVE_INTERVAL, counters=counters)
                except TransientError:
                    if not is_internal:
                        self._quota.charge(address, moment, -1)  # nothing was queued
                    raise
        except (BusyError, InputError) as error:
            return self._refused(request, error, entered)
        return _follow(url, now)

    def _refused(self, request: Request, error: Exception, entered: str) -> Response:
        """Return the form with the reason; 429 with the time to wait, else 400."""
        if isinstance(error, BusyError):
            headers = {"Retry-After": str(error.seconds)}
            return self._page(request, 429, headers, url=entered, wait_min=math.ceil(error.seconds / 60))
        if isinstance(error, RefusedAddressError):
            return self._page(request, 400, url=entered, error=translate(REFUSED_ADDRESSES[error.reason]))
        return self._page(request, 400, url=entered, error=str(error))

    def _page(
        self, request: Request, code: int = 200, headers: Mapping[str, str] | None = None, **values: object
    ) -> Response:
        nothing: dict[str, object] = {
            "url": "", "error": "", "wait_min": 0, "standing": None, "newest": None, "is_pending": False, "is_lost": False,
        }  # fmt: skip
        origin = self._context.origin or f"{request.url.scheme}://{request.url.netloc}"
        return self._context.render(
            "save.html",
            code,
            {**FORM_HEADERS, **(headers or {})},
            **{**nothing, **values},
            per_address=self._saves.per_address,
            form=origin + localized_path(SAVE_PATH),
        )


def _follow(url: str, since: datetime) -> Response:
    """Return the redirect to the progress of a page that was saved at that time."""
    target = path_with_query(localized_path(SAVE_PATH), {"url": url, "since": str(int(since.timestamp()))})
    return RedirectResponse(target, 303, headers=FORM_HEADERS)


def _parse(text: str) -> str:
    """Return the fetch key of the entered URL; InputError states why it is not valid."""
    if len(text) > MAX_ADDRESS_LENGTH:
        raise InputError(translate(FAULTS[UrlFault.TOO_LONG]))
    try:
        return fetch_key(text)
    except BadUrlError as error:
        fault = error.reason if error.reason in set(UrlFault) else UrlFault.UNPARSABLE
        raise InputError(translate(FAULTS[UrlFault(fault)])) from error
