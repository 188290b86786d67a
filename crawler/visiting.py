"""One page from claim to manifest: browser, proxy and index brought together for one visit.

    open at the proxy ─> render through it ─> fetch what a player plays ─> ask again for what broke
    ─> write artifacts ─> seal ─> write the manifest

Done means durable: `capture` returns when everything it reports is on disk and in the index.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from core.classes import PageClass
from core.clock import Clock
from core.http_dates import parse_retry_after
from core.pages import Outcome, PageInfo, Played
from core.records import ArtifactKind, artifact_uri
from core.settings import Settings
from core.stored_levels import DEFAULT_STORED_LEVEL, StoredLevel
from crawler.lending import LentProxy
from crawler.login_file import Login
from crawler.manifest import page_info
from crawler.media import Through, fetch_media, player_of
from crawler.plain import PlainVisits
from crawler.politeness import RETRY_AFTER_LIMIT
from crawler.refetching import Checked, check
from crawler.stored_levels import limited_to
from crawler.supervisor import Supervisor
from proxy.client import NewArtifact, ProxyVisit
from render.behaviours.running import load_behaviours
from render.browser import ProxyEndpoint
from render.classify import NOT_JUDGED
from render.visit import Visit, VisitRequest, visit

REFUSALS = (429, 503)  # RFC 6585, 4; RFC 9110, 15.6.4
# Shortfalls of the machine or the connection rather than of the page: a second visit may be whole.
_UNFIT = ("crashed", "cut:", "missing:")
# Reasons that are the same tomorrow; "origin:" is an answer that no browser takes from a site.
_LEFT_OUT = "level:"  # the proxy's reason (`proxy.exchange.left_out_reason`)
_PERMANENT = ("address:", "origin:", _LEFT_OUT, "net::ERR_UNSAFE_PORT", "net::ERR_INVALID_URL")


@dataclass(frozen=True, slots=True)
class Captured:
    """What became of one visit.

    Attributes:
        page: the manifest.
        again: True when another attempt may do better; then the manifest was not written.
        not_before: when the host said to come back; None when it said nothing.
    """

    page: PageInfo
    again: bool = False
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to visit.

    Attributes:
        url: a fetch key.
        page_id: identifies the page in every record.
        last_attempt: keep a failure, too: there will be no other attempt.
        plain: fetches the page instead of a browser; None: it is rendered.
        login: what the page is rendered with; None: as anybody.
        first_attempt: try once more where the capture is partial by chance.
        stored: how much is recorded.
    """

    url: str
    page_id: str
    last_attempt: bool
    plain: PlainVisits | None = None
    login: Login | None = None
    first_attempt: bool = False
    stored: StoredLevel = DEFAULT_STORED_LEVEL

    @property
    def login_name(self) -> str:
        """The login's name; empty when it is not used."""
        return self.login.name if self.login is not None and self.plain is None else ""


async def capture(
    wanted: Wanted,
    *,
    supervisor: Supervisor,
    settings: Settings,
    clock: Clock,
    before_manifest: Callable[[PageInfo], Awaitable[None]],
    forbids: Callable[[Visit], str] = lambda _seen: "",
) -> Captured:
    """Visit the URL and keep what there is.

    Args:
        wanted: what.
        supervisor: lends proxy and browser.
        settings: how.
        clock: the time.
        before_manifest: awaited when all but the manifest is on disk. Once the manifest is, the page
            is never visited again, so what follows from the visit must be safe by then.
        forbids: why what was seen must not be kept, e.g. ``noarchive: …``; empty when it may. Then
            the page is SKIPPED with that reason: nothing is made of it, and playback offers none of
            it. What the proxy wrote meanwhile stays in the WARC, where the manifest names it.

    Raises:
        BrowserUnavailableError, ProxyUnavailableError: one of them died; try again.
        DiskFullError: there is no space.
    """
    async with (
        supervisor.proxy() as proxy,
        proxy.client.visit(
            wanted.page_id,
            bucket=settings.proxy.dedup_bucket,
            headers=settings.visit.headers,
            login=wanted.login_name,
            unverified_tls=wanted.login is not None and wanted.login.unverified_tls,
            stored=wanted.stored,
        ) as kept,
    ):
        settings = limited_to(settings, wanted.stored)
        seen = await _see(wanted, kept, supervisor, settings, clock)
        again, not_before = retry_decision(seen, now=clock.now(), first=wanted.first_attempt)
        if again and not wanted.last_attempt:
            await kept.seal(grace_s=0.0)
            page = page_info(wanted.page_id, seen, (), ())
            # Nothing was kept of it, so what is missing says nothing.
            page = replace(page, outcome=seen.outcome, reason=seen.reason)
            return Captured(page, again=True, not_before=not_before)
        refused = "" if seen.outcome is Outcome.FAILED else forbids(seen)
        if seen.outcome is Outcome.FAILED and seen.reason.startswith(_LEFT_OUT):
            refused = seen.reason  # the page itself is of a type that its level leaves out
        if refused:
            seen = replace(seen, outcome=Outcome.SKIPPED, reason=refused, title="", artifacts=())
            seen = replace(seen, classification=NOT_JUDGED)
        media = None
        if seen.outcome in (Outcome.COMPLETE, Outcome.PARTIAL):
            media = await _media(proxy, kept, seen, settings, clock)
        page = await _keep(kept, wanted.page_id, seen, settings, clock)
        page = replace(page, login=wanted.login_name, media=media, stored=str(wanted.stored))
        await before_manifest(page)
        manifest = NewArtifact(
            artifact_uri(ArtifactKind.PAGEINFO, seen.url), "application/json", page.to_json()
        )
        await kept.write([manifest], document=seen.final_url, date=seen.started_at)
        return Captured(page)


async def _see(
    wanted: Wanted, kept: ProxyVisit, supervisor: Supervisor, settings: Settings, clock: Clock
) -> Visit:
    if wanted.plain is not None:
        return await wanted.plain.visit(kept, wanted.url, settings.visit)
    given = kept.credentials
    endpoint = ProxyEndpoint(given.host, given.port, given.username, given.password)
    async with supervisor.browser() as browser:
        return await visit(
            browser,
            VisitRequest(wanted.url, endpoint, wanted.login.session if wanted.login else None),
            settings.visit,
            behaviours=load_behaviours(settings.behaviours),
            clock=clock,
        )


async def _media(
    proxy: LentProxy, kept: ProxyVisit, seen: Visit, settings: Settings, clock: Clock
) -> Played | None:
    """What the page's player plays, fetched through the same visit; None when it seems to have none."""
    player = player_of(seen, settings.media)
    if player is None:
        return None
    status = await proxy.client.status()
    through = Through(kept.credentials, str(status["authority"]))
    return await fetch_media(player, through, settings.media, clock=clock)


async def _keep(
    kept: ProxyVisit, page_id: str, seen: Visit, settings: Settings, clock: Clock
) -> PageInfo:
    """Look for gaps, write the artifacts and seal; the manifest that is still to be written."""
    written, began = [], clock.monotonic()
    fails = seen.outcome in (Outcome.FAILED, Outcome.SKIPPED)
    grace_s = settings.proxy.seal_grace_s
    checked = Checked(grace_s=grace_s) if fails else await check(kept, seen, settings)
    if seen.artifacts:
        written = await kept.write(
            [
                NewArtifact(artifact_uri(each.kind, seen.url), each.content_type, each.data)
                for each in seen.artifacts
            ],
            document=seen.final_url,
            date=seen.started_at,
        )
    download = not seen.artifacts and seen.outcome is not Outcome.SKIPPED
    spent_s = seen.seconds + clock.monotonic() - began
    ledger = await kept.seal(
        grace_s=checked.grace_s,
        # A download goes on after the browser has turned it down.
        awaited=(*checked.awaited, seen.final_url) if download else checked.awaited,
        await_s=max(settings.visit.timeout_s - spent_s, 0.0),
    )
    return page_info(page_id, seen, ledger, written, refused=kept.refused, gaps=checked.gaps)


def retry_decision(seen: Visit, *, now: datetime, first: bool) -> tuple[bool, datetime | None]:
    """Return (a later attempt may do better, not before that moment or None).

    What came of a first attempt only in part because the renderer crashed, a connection broke or a
    picture could not be taken is visited once more; what that visit brings is kept as it is.
    """
    if seen.status in REFUSALS:
        return True, retry_moment(seen.headers, now=now)
    if seen.classification.kind is PageClass.CHALLENGE:
        # A check for robots may let the next visitor pass, or the same one later.
        return True, retry_moment(seen.headers, now=now)
    if first and seen.outcome is Outcome.PARTIAL and seen.reason.startswith(_UNFIT):
        return True, None
    permanent = seen.reason.startswith(_PERMANENT)
    return seen.outcome is Outcome.FAILED and not permanent, None


def retry_moment(headers: Mapping[str, str], *, now: datetime) -> datetime | None:
    """Return when the host said to come back, at most a day ahead; None when it did not say."""
    wait = parse_retry_after(headers.get("retry-after", ""), now=now, limit=RETRY_AFTER_LIMIT)
    return None if wait is None else now + wait
