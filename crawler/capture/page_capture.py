"""Capture of one page, from claim to manifest, at the stored level in force.

    open at the proxy ─> render through it ─> fetch player media ─> fetch gaps again
    ─> write artifacts ─> seal ─> write the manifest

The wiki whose rules apply is the one whose page cites the link: the item's `via` is that page's address.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from classify.page_classifier import NOT_JUDGED
from core.captures import ArtifactKind, artifact_uri
from core.clock import Clock
from core.config.settings import BehaviourSettings, Settings
from core.config.stored_level import DEFAULT_STORED_LEVEL, StoredLevel
from core.page_classes import REFUSAL_STATUSES, PageClass
from core.page_manifest import PageInfo, PageResource, VisitOutcome
from core.urls import host_of
from crawler.capture.reconciliation import CompletenessResult, build_page_info, check_completeness
from crawler.frontier.base import Frontier, FrontierItem
from crawler.frontier.host_slots import RETRY_AFTER_LIMIT
from crawler.pools.resource_pool import ResourcePool
from crawler.pools.shared_contexts import ContextKey, SharedContext
from net.connect_errors import NO_SUCH_HOST
from proxy.control.client import NewArtifact, ProxyVisit
from render.behaviours.catalog import load_behaviours
from render.visit import Visit, VisitRequest, visit

if TYPE_CHECKING:
    from crawler.capture.media_download import MediaDownloads
    from crawler.capture.plain_visit import PlainVisits
    from render.sign_in import Login

WIKI_ORDER = "wiki"  # its key is the wiki's name in levels, its value a page's address with $1
# The level of a URL that a wiki's page cites; the wiki is empty when none does. Asks a store.
StoredLevelOf = Callable[[str, str], StoredLevel]
_OF_IMAGES = frozenset({"lazy", "candidates"})
_OF_MEDIA = frozenset({"media", "play"})


def store_everything(_url: str, _wiki: str) -> StoredLevel:
    """Return the default level, for runs without a collection's decisions."""
    return DEFAULT_STORED_LEVEL


def stored_level(item: FrontierItem, settings: Settings, frontier: Frontier, level_of: StoredLevelOf) -> StoredLevel:
    """Return the level from the settings, else the one decided for the link; may raise TransientError."""
    if settings.visit.store:
        return StoredLevel(settings.visit.store)
    wiki = wiki_of(item.via, frontier.orders(WIKI_ORDER)) if item.via else ""
    return level_of(item.url, wiki)


def wiki_of(page: str, wikis: Mapping[str, str]) -> str:
    """Return the name of the wiki that a page's address belongs to; empty for none.

    >>> wikis = {"handbook": "https://wiki.example/wiki/$1", "all": "https://wiki.example/$1"}
    >>> wiki_of("https://wiki.example/wiki/Main_Page", wikis)
    'handbook'
    """
    matches = []
    for name, address in wikis.items():
        before, _, after = address.partition("$1")
        if before and page.startswith(before) and page.endswith(after):
            matches.append((len(before), len(after), name))
    return max(matches)[2] if matches else ""


def announce_wikis(frontier: Frontier, addresses: Mapping[str, str]) -> None:
    """Store the wikis' changed page address formats in the frontier; may raise TransientError."""
    known = frontier.orders(WIKI_ORDER)
    for name, address in addresses.items():
        if known.get(name) != address:
            frontier.give_order(WIKI_ORDER, name, address)


def limit_settings(settings: Settings, level: StoredLevel) -> Settings:
    """Return the settings of a visit at that level; artifacts that it leaves out are not made."""
    if level is StoredLevel.EVERYTHING:
        return settings
    run = _without(settings.behaviours, _OF_MEDIA)
    settings = replace(settings, media=replace(settings.media, players=False), behaviours=run)
    if level.keeps_images:
        return settings
    return replace(
        settings,
        behaviours=_without(run, _OF_IMAGES),
        visit=replace(settings.visit, view=False, full_page=False, thumbnail=False, pdf=False, favicon=False),
    )


def _without(behaviours: BehaviourSettings, names: frozenset[str]) -> BehaviourSettings:
    return replace(behaviours, run=tuple(each for each in behaviours.run if each not in names))


# RFC 9110, 15.5.20, 15.5.22 and 15.6.6: another connection, or protocol, may be answered.
CONNECTION_STATUSES = (421, 426, 505)
DENIED = 403  # the page may be forbidden, or the kind of connection
REFUSED_CONNECTIONS = ("tls:", "malformed:", "disconnected:")
# The same of the browser's own connections; TLS that it will not speak, the recorder may.
_REFUSED_BROWSERS = ("net::ERR_SSL", "net::ERR_CERT", "net::ERR_HTTP2", "net::ERR_EMPTY", "net::ERR_CONNECTION_CLOSED")
# Certificates that do not verify where they must: the browser's connections do not take them either.
_UNVERIFIED = re.compile("tls: (expired|not-yet-valid|wrong-host|self-signed|unknown-issuer):")
SILENCES = ("timeout", "deadline: navigate")  # how some hosts treat clients that they do not take for browsers
# Failures of the machine or the connection rather than of the page: a second visit may be complete.
_TRANSIENT_SHORTFALLS = ("crashed", "cut:", "missing:")
# Reasons that do not change with time; "origin:" is an answer that no browser takes from a site.
_LEFT_OUT = "level:"  # the proxy's reason (`proxy.exchange.left_out_reason`)
_PERMANENT = ("address:", "origin:", _LEFT_OUT, "net::ERR_UNSAFE_PORT", "net::ERR_INVALID_URL")


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """Result of one visit."""

    page: PageInfo  # the manifest
    again: bool = False  # another attempt may do better; the manifest was not written
    not_before: datetime | None = None  # the moment from Retry-After; None without one


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """Parameters of one visit."""

    url: str  # a fetch key
    page_id: str  # identifies the page in every record
    last_attempt: bool  # store a failure, too: there is no further attempt
    plain: PlainVisits | None = None  # fetches the page instead of a browser; None: it is rendered
    login: Login | None = None  # the session the page is rendered with; None: without login
    first_attempt: bool = False  # try once more where the capture is partial by chance
    waits_for_host: bool = False  # try again where the host does not exist: its domain may be renewed
    stored: StoredLevel = DEFAULT_STORED_LEVEL
    context: ContextKey | None = None  # names the browser context to share; None: a fresh one
    # Hosts that the browser connects to itself ("*": all), where the proxy is on this machine: the secrets
    # of its connections go to the proxy.
    browser_hosts: tuple[str, ...] = ()
    # Store no last attempt either that may have failed for the recorder's connections, since one by the browser follows.
    browser_follows: bool = False
    # Whether a host that answers `DENIED` has not been asked by the browser's connections, so that an attempt by them follows.
    tries_browser: bool = False
    downloads: MediaDownloads | None = None  # of the run, for visits with a shared context; None: of the page

    @property
    def login_name(self) -> str:
        """Return the login's name; empty when it is not used."""
        return self.login.name if self.login is not None and self.plain is None else ""


async def capture(
    wanted: CaptureRequest,
    *,
    supervisor: ResourcePool,
    settings: Settings,
    clock: Clock,
    before_manifest: Callable[[PageInfo], Awaitable[None]],
    forbids: Callable[[Visit], str] = lambda _visit: "",
) -> CaptureResult:
    """Visit the URL and store the result.

    `before_manifest` is awaited when all but the manifest is on disk: then the page is not visited again, so the
    visit's follow-up must be stored. `forbids` returns why the page must not be archived, e.g. ``noarchive: …``, or "":
    the page is SKIPPED, without artifacts and playback; what the proxy has already written stays, and the manifest
    names it.

    Raises BrowserUnavailableError, ProxyUnavailableError (one of them died; try again), DiskFullError.
    """
    async with AsyncExitStack() as stack:
        shared = None
        if wanted.context is not None and supervisor.contexts is not None:
            lending = supervisor.contexts.lend(
                wanted.context, visits=settings.visit.shared_pages, age_s=settings.visit.shared_age_s
            )
            shared = await stack.enter_async_context(lending)
        proxy = await stack.enter_async_context(supervisor.proxies.lend(shared.proxy if shared is not None else ""))
        own = wanted.browser_hosts if wanted.plain is None and proxy.is_local else ()
        opening = proxy.visit(
            wanted.page_id,
            bucket=settings.proxy.dedup_bucket,
            headers=settings.visit.headers,
            login=wanted.login_name,
            unverified_tls=wanted.login is not None and wanted.login.unverified_tls,
            stored=wanted.stored,
            shared=shared.credentials if shared is not None else None,
            confirm_within_s=settings.visit.confirm_s if shared is not None else 0.0,
            browser_hosts=own,
        )
        recording = await stack.enter_async_context(opening)
        settings = limit_settings(settings, wanted.stored)
        visit = await _render(wanted, recording, shared, supervisor, settings, clock)
        if visit.synthesised:
            stays = [e for e in visit.synthesised if not wanted.stored.excludes_type(e.mime)]
            visit = replace(visit, synthesised=tuple(stays))
        again, not_before = retry_decision(
            visit,
            now=clock.now(),
            first=wanted.first_attempt,
            waits_for_host=wanted.waits_for_host,
            tries_browser=wanted.tries_browser and proxy.is_local,
        )
        if again:
            page = build_page_info(wanted.page_id, visit, (), ())
            # Nothing was recorded, so missing resources are irrelevant.
            page = replace(page, outcome=visit.outcome, reason=visit.reason)
            by_browser = wanted.browser_follows and proxy.is_local and host_refusing_recorder(page)
            if by_browser or not wanted.last_attempt:
                await recording.seal(grace_s=0.0)
                return CaptureResult(page, again=True, not_before=not_before)
        refused = "" if visit.outcome is VisitOutcome.FAILED else forbids(visit)
        if visit.outcome is VisitOutcome.FAILED and visit.reason.startswith(_LEFT_OUT):
            refused = visit.reason  # the page itself is of a type that its level leaves out
        if refused:
            visit = replace(visit, outcome=VisitOutcome.SKIPPED, reason=refused, title="", artifacts=())
            visit = replace(visit, classification=NOT_JUDGED)
        media, download, requested = None, None, set[str]()
        parts: tuple[PageResource, ...] = ()
        if settings.media.players and visit.outcome in (VisitOutcome.COMPLETE, VisitOutcome.PARTIAL):
            from crawler.capture.media_download import download_media, player_of

            player = player_of(visit, settings.media)
            if player and wanted.downloads and wanted.context and shared is not None:
                lent = wanted.downloads.lend(player, wanted.context, settings.media)
                download = await stack.enter_async_context(lent)
            if download is not None and download.earlier is not None:
                media, parts = download.earlier.media, download.earlier.resources
            elif player is not None:
                authority = str((await proxy.status())["authority"])
                media, requested = await download_media(player, recording, authority, settings.media, clock=clock)
        page = await _finish_capture(recording, wanted.page_id, visit, shared, settings, clock)
        resources = (*page.resources, *parts)
        page = replace(page, login=wanted.login_name, media=media, stored=str(wanted.stored), resources=resources)
        await before_manifest(page)
        manifest = NewArtifact(artifact_uri(ArtifactKind.PAGEINFO, visit.url), "application/json", page.to_json())
        await recording.write([manifest], document=visit.final_url, date=visit.started_at)
        if download is not None and download.earlier is None and shared is not None:
            download.set_made(page, requested, shared.recorded)
        return CaptureResult(page)


async def _render(
    wanted: CaptureRequest,
    recording: ProxyVisit,
    shared: SharedContext | None,
    supervisor: ResourcePool,
    settings: Settings,
    clock: Clock,
) -> Visit:
    if wanted.plain is not None:
        return await wanted.plain.visit(recording, wanted.url, settings.visit)
    lending = supervisor.browsers.lend(shared.browser if shared else None)
    async with lending as browser:
        context = None
        if shared is not None:
            context = await shared.in_browser(browser, recording.credentials)
        is_own = recording.send_secrets is not None
        login = wanted.login
        is_strict = settings.egress.enforce_tls
        with browser.key_log.sent_to(recording.send_secrets):
            return await visit(
                browser,
                VisitRequest(
                    wanted.url,
                    recording.credentials,
                    login.session if login else None,
                    context,
                    own_connections=is_own,
                    # As the recorder does, which notes the fault.
                    ignores_certificates=is_own and not is_strict and (login is None or login.unverified_tls),
                ),
                settings.visit,
                behaviours=load_behaviours(settings.behaviours),
                clock=clock,
            )


async def _finish_capture(
    recording: ProxyVisit, page_id: str, seen: Visit, shared: SharedContext | None, settings: Settings, clock: Clock
) -> PageInfo:
    """Fetch gaps, write the artifacts and seal; return the manifest, not yet written."""
    written, began = [], clock.monotonic()
    write = partial(recording.write, document=seen.final_url, date=seen.started_at)
    cached = shared.recorded if shared is not None else {}
    fails = seen.outcome in (VisitOutcome.FAILED, VisitOutcome.SKIPPED)
    grace_s = settings.proxy.seal_grace_s
    checked = (
        CompletenessResult(grace_s=grace_s) if fails else await check_completeness(recording, seen, settings, cached)
    )
    if seen.artifacts:
        new = [NewArtifact(artifact_uri(each.kind, seen.url), each.content_type, each.data) for each in seen.artifacts]
        written = await write(new)
    synthesised = () if fails else seen.synthesised
    if synthesised:
        # A response of the site, of whatever status, is the capture of its URL.
        so_far = await recording.ledger()
        answered = so_far.in_flight | {e.url for e in so_far.entries if e.status is not None}
        synthesised = tuple(each for each in synthesised if each.url not in answered)
        written += await write([NewArtifact(each.url, each.content_type, each.data) for each in synthesised])
    download = not seen.artifacts and seen.outcome is not VisitOutcome.SKIPPED
    spent_s = seen.seconds + clock.monotonic() - began
    ledger = await recording.seal(
        grace_s=checked.grace_s,
        # A download continues after the browser has refused it.
        awaited=(*checked.awaited, seen.final_url) if download else checked.awaited,
        await_s=max(settings.visit.timeout_s - spent_s, 0.0),
    )
    undecoded = next((each.reason for each in ledger if each.reason.startswith("tls:")), "")
    if undecoded and seen.reason.startswith(_REFUSED_BROWSERS):
        seen = replace(seen, reason=undecoded)  # the tunnel was ended by the proxy
    page = build_page_info(
        page_id,
        replace(seen, synthesised=synthesised),
        ledger,
        written,
        refused=recording.refused,
        gaps=checked.gaps,
        cached=cached,
    )
    if shared is not None:
        shared.remember(ledger)
    return page


def retry_decision(
    visit: Visit, *, now: datetime, first: bool, waits_for_host: bool = False, tries_browser: bool = False
) -> tuple[bool, datetime | None]:
    """Return (retryable, not_before) for a visit's result.

    A first attempt that is PARTIAL by chance (`_TRANSIENT_SHORTFALLS`) is repeated once. A host that does not exist is
    visited again only with `waits_for_host`, a page that is `DENIED` only with `tries_browser`.
    """
    # A check for robots may let the next visitor pass, or the same one later.
    is_challenge = visit.classification.kind is PageClass.CHALLENGE
    is_denied = tries_browser and _is_denied(visit) and visit.final_url.startswith("https:")
    if visit.status in (*REFUSAL_STATUSES, *CONNECTION_STATUSES) or is_challenge or is_denied:
        return True, retry_moment(visit.headers, now=now)
    if first and visit.outcome is VisitOutcome.PARTIAL and visit.reason.startswith(_TRANSIENT_SHORTFALLS):
        return True, None
    permanent = visit.reason.startswith(_PERMANENT if waits_for_host else (*_PERMANENT, NO_SUCH_HOST))
    return visit.outcome is VisitOutcome.FAILED and not permanent, None


def _is_denied(page: Visit | PageInfo) -> bool:
    """Return whether the site answered `DENIED`; with a FAILED page the status may be the proxy's."""
    return page.status == DENIED and page.outcome is not VisitOutcome.FAILED


def host_refusing_recorder(page: PageInfo, *, counts_denial: bool = True) -> str:
    """Return the https host that may refuse the kind of connection, by a 403 only with `counts_denial`; empty: none."""
    reasons = (*REFUSED_CONNECTIONS, *_REFUSED_BROWSERS, *SILENCES)
    failed = page.outcome is VisitOutcome.FAILED and page.reason.startswith(reasons)
    failed = failed and not _UNVERIFIED.match(page.reason)
    refused = page.page_class is PageClass.CHALLENGE or page.status in CONNECTION_STATUSES
    is_denied = counts_denial and _is_denied(page)
    url = page.final_url or page.url
    return host_of(url) if (failed or refused or is_denied) and url.startswith("https:") else ""


def retry_moment(headers: Mapping[str, str], *, now: datetime) -> datetime | None:
    """Return the moment from Retry-After, at most a day ahead; None without one."""
    value = headers.get("retry-after", "")
    if not value:
        return None
    from core.web_dates import parse_retry_after

    wait = parse_retry_after(value, now=now, limit=RETRY_AFTER_LIMIT)
    return None if wait is None else now + wait
