"""Input from watched wikis: links for the frontier, levels, and addresses of the watcher.

The wiki states the user; `weboid level rights` limits what its editors may set (`WikiName.in_levels`).
"""

import asyncio
import getpass
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from core.clock import Clock
from core.config.settings import Settings
from core.config.stored_level import DEFAULT_STORED_LEVEL, StoredLevel
from core.errors import InputError
from core.json_values import read_json
from core.layout import Layout
from crawler.capture.page_capture import announce_wikis
from crawler.frontier.base import Frontier, Lane, NewItem
from crawler.run.context_builder import make_slot_assigner
from links.registry.archive_backlog import ArchivePriority
from playback.access.decision_store import open_decisions
from playback.access.level_store import LevelStore
from playback.access.levels import Level, LevelActor, LevelDecision, RuleTable, parse_actor, target_of
from warc.local_storage import replace_file
from weboid.app.copy_sources import open_own_captures
from wiki.sync.archive_queue import DueLink
from wiki.sync.webhook import LevelRequest, RefusedRequestError, WikiLevelsRequest

_LANES = {
    ArchivePriority.SAVED: Lane.NOW,
    ArchivePriority.CROWD: Lane.HIGH,
    ArchivePriority.REVIVED: Lane.HIGH,
    ArchivePriority.SWEPT: Lane.STANDARD,
    ArchivePriority.WITHOUT_COPY: Lane.STANDARD,
}


class FrontierArchive:
    """Sink that adds links to a frontier, which knows past visits (A02) and applies its rules."""

    def __init__(self, frontier: Frontier, settings: Settings, *, clock: Clock, layout: Layout) -> None:
        """Use the frontier, the profile whose politeness its workers have, and the collection."""
        self._frontier = frontier
        self._settings = settings
        self._turns = make_slot_assigner(settings)
        self._clock = clock
        self._layout = layout

    async def archived(self, urls: Sequence[str], since: datetime) -> Collection[str]:
        """Return those of the URLs that have a capture since then that shows the page."""

        def recent() -> Collection[str]:
            with open_own_captures(self._layout, self._settings.index.url, "") as own:
                pages = [(url, own.usable(url, None)) for url in urls]
            good = [(url, page.captured_at) for url, page in pages if page is not None and not page.rank]
            return [url for url, moment in good if moment >= since]

        return await asyncio.to_thread(recent)

    async def take(self, urls: Sequence[DueLink]) -> None:
        """Queue the links, just saved ones first; those visited lately are skipped, unless they came back to life."""
        addresses = {each.wiki.in_levels: each.pages_url for each in urls if each.pages_url}
        await asyncio.to_thread(announce_wikis, self._frontier, addresses)
        ages = defaultdict[int, list[NewItem]](list)
        for each in urls:
            days = 0 if each.priority is ArchivePriority.REVIVED else each.archived_days
            ages[days].append(NewItem(each.url, _LANES[each.priority], via=each.page_url))
        for days, items in sorted(ages.items()):
            assigned = await self._turns.assign(items)
            await asyncio.to_thread(self._frontier.add, assigned, now=self._clock.now(), again=timedelta(days=days))


_NOTE_FILE = "watch.json"
LOCAL_SETTINGS = "#LocalSettings.php"  # an actor's name that no user of MediaWiki can have
_Kind = TypeVar("_Kind", Level, StoredLevel)


class LevelSetter:
    """Setter of levels in a collection, as the webhook requests them."""

    def __init__(self, levels: LevelStore, clock: Clock) -> None:
        self._levels = levels
        self._clock = clock

    async def set_level(self, request: LevelRequest) -> str:
        """Set the level of a link; return the effective one."""
        return await asyncio.to_thread(self._set_level, request)

    async def set_wiki_levels(self, request: WikiLevelsRequest) -> None:
        """Set the levels of a whole wiki."""
        await asyncio.to_thread(self._follow_local_settings, request)

    def _set_level(self, request: LevelRequest) -> str:
        wiki, is_stored = request.wiki.in_levels, request.is_stored
        actor, target = parse_actor(f"{request.user}@{wiki}"), target_of(wiki=wiki, link=request.url)

        def rules() -> RuleTable[Any]:
            return self._levels.now().of_kind(is_stored=is_stored)

        level: Level | StoredLevel | None
        level = _level(request.level, StoredLevel) if is_stored else _level(request.level, Level)
        if level is not None or rules().at(target) is not None:  # otherwise there is nothing to withdraw
            now = self._clock.now()
            try:
                self._levels.decide([target], level, actor=actor, now=now, reason=request.reason, is_stored=is_stored)
            except InputError as error:
                raise RefusedRequestError(str(error)) from error
        return str(rules().ruling(target.what, wiki).level)

    def _follow_local_settings(self, request: WikiLevelsRequest) -> None:
        target = target_of(wiki=request.wiki.in_levels)
        actor = LevelActor(LOCAL_SETTINGS, request.wiki.in_levels)
        shown, stored = _level(request.shown, Level), _level(request.stored, StoredLevel)
        rules, now = self._levels.now(), self._clock.now()
        if _is_news(rules.at(target), shown, actor):
            self._levels.decide([target], shown, actor=actor, now=now, reason="$wgWeboidLevel")
        if _is_news(rules.stored.at(target), stored, actor):
            self._levels.decide([target], stored, actor=actor, now=now, reason="$wgWeboidStore", is_stored=True)


@contextmanager
def open_level_setter(layout: Layout, database_url: str, clock: Clock) -> Iterator[LevelSetter]:
    """Yield the setter of levels of a collection."""
    with closing(open_decisions(layout, database_url)) as store:
        yield LevelSetter(LevelStore(store), clock)


def _is_news(held: LevelDecision[Any] | None, level: StrEnum | None, actor: LevelActor) -> bool:
    """Return True if the wiki's rule has to change; without a setting only a rule by the same actor is removed."""
    if level is None:
        return held is not None and held.actor == actor
    return held is None or held.level is not level


def _level(text: str | None, kind: type[_Kind]) -> _Kind | None:
    if text is not None and text not in set(kind):
        raise InputError(f"There is no level {text[:40]!r}; known: {', '.join(kind)}.")
    return None if text is None else kind(text)


def stored_level_of_wiki(
    layout: Layout, database_url: str, wiki: str, level: StoredLevel | None, clock: Clock
) -> StoredLevel:
    """Return the stored level of a wiki's cited pages; set it first unless `level` is None."""
    target = target_of(wiki=wiki)
    with closing(open_decisions(layout, database_url)) as store:
        book = LevelStore(store)
        held = book.now().stored.at(target)
        if level is not None and (held is None or held.level is not level):
            actor = LevelActor(getpass.getuser())
            now, reason = clock.now(), "weboid wiki add"
            book.decide([target], level, actor=actor, now=now, reason=reason, is_stored=True)
        rules = book.now().stored
        ruling = rules.at(target) or rules.at(target_of())
    return DEFAULT_STORED_LEVEL if ruling is None or ruling.level is None else ruling.level


@dataclass(frozen=True)
class WatchNote:
    """Addresses of a running watcher, without secrets."""

    front: str = ""  # the origin of the pages; empty: not served
    replay: str = ""  # the origin of the copies
    webhook: str = ""  # the webhook, `host:port`; empty: there is none
    # by the wiki that signs with each; "" for the only one
    secret_files: dict[str, str] = field(default_factory=dict)

    def changed(
        self, front: str | None, replay: str | None, webhook: str | None, secret_file: str | None
    ) -> "WatchNote":
        """Return a copy of the note with the given values replaced."""
        texts = {"front": front and front.rstrip("/"), "replay": replay and replay.rstrip("/"), "webhook": webhook}
        changes: dict[str, Any] = texts | {"secret_files": None if secret_file is None else {"": secret_file}}
        return replace(self, **{name: value for name, value in changes.items() if value is not None})


def write_note(layout: Layout, note: WatchNote) -> None:
    """Store the note in the collection."""
    replace_file(layout.databases / _NOTE_FILE, json.dumps(asdict(note), indent=1) + "\n")


def read_note(layout: Layout) -> WatchNote:
    """Return the collection's note; an empty one when there is no readable one."""
    try:
        return read_json(WatchNote, json.loads((layout.databases / _NOTE_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, InputError):
        return WatchNote()
