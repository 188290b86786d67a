"""Spam lists of a wiki and of its farm, fetched by the feeder once an hour (W52).

The wiki's own lists are pages of it, such as MediaWiki:Spam-blacklist; a farm keeps one for all its wikis,
as Wikimedia does on Meta-Wiki. A list that has changed takes the place of the one that the registry has
under the page's title; it counts for links that are written from then on, so for every page within a sweep.
A list that is no more is forgotten. What cannot be fetched stays as it is, and is tried again.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import timedelta

from core.errors import InputError, WeboidError
from links.days import day_of
from links.rulebook import FARM_WIDE, is_kept, put_list, remove_list
from links.spam import SpamList, list_kind
from wiki.feeding.desk import Desk

CURSOR = "spam"
EVERY = timedelta(hours=1)

log = logging.getLogger(__name__)


class SpamListFetcher:
    """Keeps the spam lists of one wiki up to date."""

    def __init__(self, desk: Desk) -> None:
        """Take the wiki's desk."""
        self._desk = desk

    async def refresh(self) -> int:
        """Fetch the lists when that is due; return how many changed.

        Raises:
            FeedHeldError: another process feeds the wiki.
            TransientError: the registry does not answer.
        """
        desk = self._desk
        now = desk.now()
        if now.timestamp() - _fetched_at(desk.cursor(CURSOR)) < EVERY.total_seconds():
            return 0
        changed = await self._refresh(desk.feed.spam_lists, "", desk.wiki.id)
        if desk.feed.farm_spam_api:
            changed += await self._refresh(
                desk.feed.farm_spam_lists, desk.feed.farm_spam_api, FARM_WIDE
            )
        await desk.note({CURSOR: json.dumps({"at": int(now.timestamp())})})
        return changed

    async def _refresh(self, titles: tuple[str, ...], address: str, wiki_id: int) -> int:
        if not titles:
            return 0
        try:
            texts = await self._desk.source.texts(titles, address)
        except WeboidError as error:
            log.warning(
                "%s: its spam lists cannot be fetched, and stay as they are: %s",
                self._desk.wiki.name,
                error,
            )
            return 0
        return await asyncio.to_thread(self._put, texts, wiki_id)

    def _put(self, texts: Mapping[str, str | None], wiki_id: int) -> int:
        changed = 0
        for title, text in texts.items():
            with self._desk.store.writing() as rows:
                farm_id = self._desk.wiki.farm_id
                if not (text or "").strip():
                    changed += remove_list(rows, farm_id, title, wiki_id=wiki_id)
                    continue
                found = SpamList(title, list_kind(title), text or "")
                if is_kept(rows, farm_id, found, wiki_id=wiki_id):
                    continue
                try:
                    put_list(rows, farm_id, found, wiki_id=wiki_id, today=day_of(self._desk.now()))
                    changed += 1
                except InputError as error:
                    log.warning("%s: %s", self._desk.wiki.name, error)
        return changed


def _fetched_at(cursor: str) -> float:
    try:
        return float(json.loads(cursor or "{}").get("at", 0))
    except (ValueError, TypeError, AttributeError):
        return 0.0
