"""Results of visits to watched links: check results, confirmation of dead links, and mirroring."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

from core.config.settings import Settings
from core.layout import Layout
from core.page_manifest import VisitOutcome
from core.timestamps import unix_milliseconds
from core.urls import identity_key
from crawler.frontier.base import ClaimAttempt, ItemRecord, ItemState, Lane, NewItem
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.policy.policy_evaluator import ROBOTS_UNAVAILABLE
from crawler.policy.robots_cache import NO_ROBOTS
from crawler.run.context_builder import make_slot_assigner
from crawler.run.crawl_run import RunSummary
from crawler.worker.page_task import HOST_DOWN, ONE_ATTEMPT
from links.archives import copy_upkeep
from links.check_result import CheckResult, CheckVerdict
from links.checker.browser_check import DriftEvidence, PageText, VisitSummary, compare_with_copy, result_of_visit
from links.checker.due_urls import AwaitingLink, links_awaiting_browser
from links.checker.result_store import CheckRules, RecordedResult, UrlCheckResult, record_results
from links.registry.database import RegistryStore
from links.registry.urls import UrlRow, find_urls
from links.states import preset_of
from net.connect_errors import UNREACHABLE
from playback.web.page_store import COLUMNS, CapturedPage, PageRecords, PageStore, TimeSpan
from qa.compare.content_comparison import compare_texts
from qa.compare.picture_comparison import compare_if_readable
from qa.snapshot_reader import SnapshotReader, snapshot_of
from warc.artifact_reader import ArtifactReader
from warc.index.database import IndexDatabase
from weboid.app.copy_sources import CLOCK, open_archives

_CAPTURES_LOOKED_AT = 50
_BATCH = 500
_COMPARED_AT_ONCE = 200
_ONE_ATTEMPT_DAYS = 7  # a link unvisited for this long is dropped from this round


class CaptureOpinions:
    """Captures of one collection as link check results. Not thread-safe."""

    def __init__(self, database: IndexDatabase, records: ArtifactReader) -> None:
        self._database = database
        self._store = PageStore(database)
        self._snapshots = SnapshotReader(database, self._store, PageRecords(self._store, records))

    def opinion(self, url: str, *, since: datetime, until: datetime) -> tuple[CheckResult, datetime] | None:
        """Return the newest visit's result in that interval, a good one compared with the oldest good copy; or None."""
        pages = self._store.captures(url, span=TimeSpan(since, until), limit=_CAPTURES_LOOKED_AT)
        for page in pages:
            finding = result_of_visit(snapshot_of(page))
            if finding.verdict is not CheckVerdict.UNDECIDED or page is pages[-1]:
                return self._held_against_copy(finding, page), page.captured_at
        return None

    def verdicts(self, since: datetime) -> Iterator[tuple[str, CheckVerdict]]:
        """Yield (URL, verdict) of each page visited since then, oldest first."""
        for page in self._visited(since):
            yield page.url, result_of_visit(snapshot_of(page)).verdict

    def compared(self, since: datetime) -> Iterator[tuple[str, CheckResult, datetime]]:
        """Yield (URL, result, time) of each page visited since then."""
        for page, finding in ((page, result_of_visit(snapshot_of(page))) for page in self._visited(since)):
            if finding.verdict is not CheckVerdict.UNDECIDED:
                yield page.url, self._held_against_copy(finding, page), page.captured_at

    def _held_against_copy(self, finding: CheckResult, page: CapturedPage) -> CheckResult:
        """Return a visit's result, a good one adjusted by similarity to the oldest good copy if comparable."""
        if finding.verdict is not CheckVerdict.OK:
            return finding
        now, older = self._face(page), self._oldest_face(page)
        if now is None or older is None:
            return finding
        copy, then = older

        def ask() -> DriftEvidence:
            old, new = self._snapshots.pair(copy, page)
            picture = compare_if_readable(old.picture, new.picture)
            looks = None if picture is None or picture.seen_blank else picture.score
            return DriftEvidence(compare_texts(then.text, now.text).score, looks)

        return compare_with_copy(finding, then, now, ask=ask)[0]

    def _visited(self, since: datetime) -> Iterator[CapturedPage]:
        at, last = unix_milliseconds(since), ""
        query = (
            f"SELECT {COLUMNS} FROM pages WHERE captured_ms >= :at"  # noqa: S608 a constant of ours
            " AND (captured_ms > :at OR page_id > :last) ORDER BY captured_ms, page_id LIMIT :limit"
        )
        while rows := self._database.rows(query, {"at": at, "last": last, "limit": _BATCH}):
            yield from self._store.pages_of(rows)
            at, last = rows[-1]["captured_ms"], rows[-1]["page_id"]

    def _oldest_face(self, page: CapturedPage) -> tuple[CapturedPage, PageText] | None:
        for each in self._store.captures(page.url, limit=_CAPTURES_LOOKED_AT, oldest_first=True):
            if each.page_id == page.page_id or each.captured_at >= page.captured_at:
                return None
            is_shown = each.is_good and each.outcome in (VisitOutcome.COMPLETE, VisitOutcome.PARTIAL)
            if is_shown and (face := self._face(each)) is not None:
                return each, face
        return None

    def _face(self, page: CapturedPage) -> PageText | None:
        text = self._snapshots.records.text(page)
        return None if text is None else PageText(page.title, text)


VisitLinks = Callable[[Sequence[str]], Coroutine[None, None, RunSummary]]


class BrowserConfirmation:
    """Writer of check results that are derived from captures."""

    def __init__(self, store: RegistryStore, database: IndexDatabase, layout: Layout, settings: Settings) -> None:
        self._store = store
        self._copies = CaptureOpinions(database, ArtifactReader(layout))
        self._layout = layout
        self._settings = settings
        preset = preset_of(settings.links.preset, trusts_tags=settings.links.trust_tags)
        self._rules = CheckRules(preset, browser=True)
        self.recorded: list[RecordedResult] = []  # results that were stored

    def round(
        self, visit: VisitLinks | None, *, limit: int, lately: timedelta | None, hand_over: bool = False
    ) -> tuple[list[AwaitingLink], bool]:
        """Record known results, have other links visited, record those; return links that wait, False when stopped.

        With `hand_over` the visits are made later, by other processes; without `visit` none is made.
        """
        with self._store.reading() as rows:
            waiting = links_awaiting_browser(rows, limit=limit)
        left, stopped = self._record_visits(waiting), False
        unanswered = {each.url_id for each in left}
        answering = {_origin(each.url) for each in waiting if each.url_id not in unanswered}
        for _ in range(1 if hand_over else 2):
            if not left or visit is None or stopped:
                break
            urls = [each.address for each in _first_of_hosts(left, answering, now=CLOCK.now())]
            stopped = asyncio.run(visit(urls)).stopped
            left = self._record_visits(left)
            answering |= {_origin(each.url) for each in left}  # those are visited by themselves now
        if lately is not None:
            comparisons = self._copies.compared(CLOCK.now() - lately)
            while batch := list(islice(comparisons, _COMPARED_AT_ONCE)):
                named = [(identity_key(url), UrlCheckResult(0, result, moment)) for url, result, moment in batch]
                with self._store.reading() as rows:
                    known = find_urls(rows, [identity for identity, _ in named])
                self._record([replace(result, url_id=known[key].id) for key, result in named if key in known])
        return left, not stopped

    def _record_visits(self, waiting: Sequence[AwaitingLink]) -> list[AwaitingLink]:
        """Record results of visits, an unreachable host's for all its links; return links without a result."""
        until = CLOCK.now() + timedelta(days=1)
        opinions: dict[int, tuple[CheckResult, datetime]] = {}
        layout, settings = self._layout, self._settings
        records: Sequence[ItemRecord | None] = [None] * len(waiting)
        if waiting and (settings.frontier.url or layout.frontier_db.exists()):
            with open_frontier(layout, settings.frontier, settings.politeness) as frontier:
                records = frontier.find_all([each.address for each in waiting])
        for each, record in zip(waiting, records, strict=True):
            opinion = self._copies.opinion(each.address, since=each.since, until=until)
            if opinion is None or opinion[0].verdict is CheckVerdict.UNDECIDED:
                opinion = _queue_opinion(each, record) or opinion
            if opinion is not None:
                opinions[each.url_id] = opinion
        down: dict[str, tuple[CheckResult, datetime]] = {}
        for each in waiting:
            opinion, known = opinions.get(each.url_id), down.get(_origin(each.url))
            if opinion is not None and opinion[0].whole_host and (known is None or known[1] < opinion[1]):
                down[_origin(each.url)] = opinion
        for each in waiting:
            shared = down.get(_origin(each.url))
            own = opinions.get(each.url_id)
            is_open = own is None or own[0].verdict is CheckVerdict.UNDECIDED
            if is_open and shared is not None and shared[1] >= each.since:
                note = f"{shared[0].note} (seen at another page of the host)"
                opinions[each.url_id] = (replace(shared[0], note=note, final_url=""), shared[1])
        self._record([UrlCheckResult(number, *opinion) for number, opinion in opinions.items()])
        return [each for each in waiting if each.url_id not in opinions]

    def _record(self, results: Sequence[UrlCheckResult]) -> None:
        if results:
            with self._store.writing() as rows:
                self.recorded += record_results(rows, results, self._rules)


def _origin(url: str) -> str:
    """Return the scheme, host and port of an identity key: the scope of a refused connection."""
    return "/".join(url.split("/", 3)[:3])


def _first_of_hosts(left: Sequence[AwaitingLink], answering: set[str], *, now: datetime) -> list[AwaitingLink]:
    """Return the links to visit now: one of each host until it answers, and all that have waited for a day."""
    first = {_origin(each.url): each for each in reversed(left)}
    day = timedelta(days=1)
    origins = [(each, _origin(each.url)) for each in left]
    return [each for each, origin in origins if first[origin] is each or origin in answering or now - each.since > day]


def _queue_opinion(link: AwaitingLink, record: ItemRecord | None) -> tuple[CheckResult, datetime] | None:
    """Return the result of attempts without a capture, also when the host was down for its robots.txt."""
    if record is None:
        return None
    for attempt in reversed(record.attempts):
        reason = _failure_of(attempt)
        if attempt.ended_at < link.since or not reason:
            continue
        finding = result_of_visit(VisitSummary(link.address, "", VisitOutcome.FAILED, reason, None))
        if finding.verdict is not CheckVerdict.UNDECIDED:
            return finding, attempt.ended_at
    return None


def _failure_of(attempt: ClaimAttempt) -> str:
    """Return why the attempt could not reach its page; empty if it gives no evidence of that."""
    if attempt.ending in ("retry", "fail"):
        down = attempt.reason.removeprefix(HOST_DOWN).strip()
        return down.removeprefix(NO_ROBOTS).strip()
    unfetched = attempt.reason.removeprefix(ROBOTS_UNAVAILABLE).removesuffix(")")
    return unfetched if unfetched.startswith(UNREACHABLE) else ""


async def hand_over_visits(urls: Sequence[str], layout: Layout, settings: Settings) -> RunSummary:
    """Queue the links for the frontier's workers, each for one attempt; a later round takes the results."""
    now = CLOCK.now()
    until = now + timedelta(days=_ONE_ATTEMPT_DAYS)
    with open_frontier(layout, settings.frontier, settings.politeness) as frontier:
        records = dict(zip(urls, frontier.find_all(urls), strict=True))
        # Links that wait for their site's return are tested now; a live one is queued again.
        waiting = [
            url
            for url, each in records.items()
            if each is not None and each.state is ItemState.QUEUED and each.due_at is not None and each.due_at > now
            # A failed visit is repeated later.
            if any(one.ending == "retry" or _failure_of(one) for one in each.attempts)
        ]
        frontier.discard(waiting, now=now, reason="confirm")
        new = [NewItem(url, Lane.HIGH, via=each.item.via if each is not None else "") for url, each in records.items()]
        items = await make_slot_assigner(settings).assign(new)
        for item in items:
            record = records.get(item.url)
            if record is None or record.ended_at is not None or item.url in waiting:
                key = identity_key(item.url)
                frontier.put_note(ONE_ATTEMPT, key, "confirm", now=now, until=until)
        added = frontier.add(items, now=now, again=timedelta(0))
    return RunSummary(added=added, handed_over=True)


class CaptureMirror:
    """Reader of recent visits that has them mirrored."""

    def __init__(self, store: RegistryStore, database: IndexDatabase, layout: Layout, settings: Settings) -> None:
        self._store = store
        self._opinions = CaptureOpinions(database, ArtifactReader(layout))
        self._settings = settings

    def waiting(self, since: datetime) -> Iterator[tuple[UrlRow, CheckVerdict]]:
        """Yield the watched links visited since then that the setting wants mirrored."""
        visits = (
            (identity_key(url), verdict)
            for url, verdict in self._opinions.verdicts(since)
            if verdict in copy_upkeep.MIRRORED
        )
        wanted = copy_upkeep.MirrorMode(self._settings.links.mirror)
        while batch := dict(islice(visits, _BATCH)):
            with self._store.reading() as rows:
                known = find_urls(rows, batch)
            for identity, verdict in batch.items():
                if (url := known.get(identity)) is None:
                    continue
                now = CLOCK.now()
                if copy_upkeep.is_mirror_wanted(self._store, url, verdict, wanted=wanted, now=now) is None:
                    yield url, verdict

    async def mirror(self, links: list[tuple[UrlRow, CheckVerdict]]) -> list[copy_upkeep.MirrorResult]:
        """Query archives about these one after the other; requests are rate-limited anyway."""
        async with open_archives(self._settings) as archives:
            mirror = partial(copy_upkeep.mirror_url, self._store, archives)
            return [await mirror(url, verdict, now=CLOCK.now()) for url, verdict in links]
