"""Selection of the pages to edit, with the registry's data of their links."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from sqlalchemy import Connection

from links.archives.copy_store import citable_copies, last_search
from links.check_result import StatusCode
from links.registry import bot_edits
from links.registry.database import RegistryStore
from links.registry.lookups import WikiPageFacts, links_of_wiki, page_facts, pages_by_title
from links.registry.pages import number_of
from links.registry.wikis import Wiki
from links.url_parts import url_parts_of
from wiki.bot.page_edit import EditTask
from wiki.bot.remedies import LIVING_STATES, LOST_STATES, KnownLink, condition_of
from wiki.settings import BotSettings
from wiki.wikitext.citation_model import LinkCondition

_LINKS_AT_ONCE: Final = 1_000
SWEPT_DAYS: Final = 7  # pause after a revert together with other users' edits
_DAY_S: Final = 86_400
_REFUSED: Final = frozenset({StatusCode.NO_ACCESS, StatusCode.LOGIN})


def pages_named(store: RegistryStore, wiki: Wiki, titles: Iterable[str]) -> tuple[list[int], tuple[str, ...]]:
    """Return the ids of these pages, and the titles that the registry does not have."""
    unique_titles = list(dict.fromkeys(titles))
    with store.reading() as rows:
        by_title = pages_by_title(rows, wiki.id, unique_titles)
    known = [by_title[title].page_id for title in unique_titles if title in by_title]
    return list(dict.fromkeys(known)), tuple(title for title in unique_titles if title not in by_title)


def edit_tasks(
    store: RegistryStore, wiki: Wiki, page_ids: Sequence[int], settings: BotSettings, *, now: int, day: int
) -> list[EditTask]:
    """Return tasks with the data of the links that the bot may change, without pages that need no repair."""
    tasks = []
    with store.reading() as rows:
        facts = page_facts(rows, wiki.id, page_ids, day=day)
        held = bot_edits.held_links(rows, wiki.id, page_ids)
        for page_id, page in facts.items():
            done = bot_edits.edits_of_page(rows, wiki.id, page_id)
            waits = swept_lately(done, now)
            links = _known_links(rows, page, marked_by_us(done), day)
            known = {each.url: each for each in links if not settings.is_off_for(host=url_parts_of(each.url).host)}
            if known:
                tasks.append(EditTask(page_id, page.page.title, known, held.get(page_id, {}) | waits))
    return tasks


def marked_by_us(done: Sequence[bot_edits.BotEdit]) -> frozenset[int]:
    """Return the links of a page that the bot's last standing edit marked as dead."""
    return bot_edits.called_dead(
        (change.url_id, change.kind)
        for edit in done
        if edit.kind is bot_edits.EditKind.PAGE and edit.state in (*bot_edits.STANDING, *bot_edits.PARTLY)
        for change in edit.changes
        if not change.is_undone
    )


def swept_lately(done: Sequence[bot_edits.BotEdit], now: int) -> dict[int, int]:
    """Return links whose bot edit was recently undone together with edits of others."""
    return {
        change.url_id: edit.id
        for edit in done
        if edit.state is bot_edits.EditState.SWEPT and now - (edit.checked or 0) < SWEPT_DAYS * _DAY_S
        for change in edit.changes
        if change.is_undone
    }


def _known_links(rows: Connection, page: WikiPageFacts, marked_ids: frozenset[int], day: int) -> Iterator[KnownLink]:
    for link in page.links:
        row, condition = link.facts.row, condition_of(link.facts, day)
        is_ours, is_alive = row.id in marked_ids, condition is LinkCondition.ALIVE
        if condition is not None and (is_ours or not is_alive):
            died, copies = (None, ()) if is_alive else (row.first_fail_day, citable_copies(rows, row.id))
            flags = (is_ours, last_search(rows, row.id) is not None, row.code in _REFUSED)
            yield KnownLink(row.id, row.url, condition, link.first_day, died, copies, *flags)


def pages_with_lost_links(store: RegistryStore, wiki: Wiki, *, beyond: int = 0) -> Iterator[int]:
    """Yield pages with a lost link by their numbers, from the one after `beyond`."""
    states = [int(each) for each in LOST_STATES]
    after = (number_of(wiki.id, beyond), 1 << 62) if beyond else (0, 0)
    while True:
        with store.reading() as rows:
            uses_now = links_of_wiki(rows, wiki, limit=_LINKS_AT_ONCE, after=after, states=states)
        # A page's last link may be in the next part: the page is skipped, not its links.
        for page_id, _ in groupby(use.page.page_id for use in uses_now):
            yield page_id
        if len(uses_now) < _LINKS_AT_ONCE:
            break
        after = (uses_now[-1].page.id, 1 << 62)


def pages_to_edit(store: RegistryStore, wiki: Wiki) -> Iterator[int]:
    """Yield pages with a lost link, and pages with a link that the bot changed and that works again."""
    yield from pages_with_lost_links(store, wiki)
    last, again = 0, True
    while again:
        with store.reading() as rows:
            revived_links = bot_edits.revived_links(rows, wiki.id, [int(each) for each in LIVING_STATES], after=last)
        again = bool(revived_links)
        for last, _ in groupby(each.page_id for each in revived_links):
            yield last
