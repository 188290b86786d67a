"""State of feeders: progress, leases, links to archive, and what pages say of links."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import select

from links.archives.copy_store import CopySearchOutcome, last_search, note_search
from links.registry.archive_backlog import (
    AT_ONCE,
    ArchivePriority,
    current_links,
    due_links,
    forget_links,
    hold_back_pages,
    next_due,
    postpone_links,
    release_pages,
    want_links,
)
from links.registry.citations import CitationFlag, CitationRow, citations_of, cited_uses, put_citations
from links.registry.database import RegistryStore
from links.registry.pages import (
    LinkRef,
    PutPage,
    drop_pages,
    find_pages,
    find_titled,
    mark_stale,
    next_stale,
    number_of,
    put_pages,
    untouched,
)
from links.registry.retention import purge
from links.registry.schema import citations, wanted
from links.registry.wikis import Wiki
from tests.links.registry.conftest import page

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def _written(store: RegistryStore, wiki: Wiki, *given: PutPage, day: int = 5) -> tuple[LinkRef, ...]:
    with store.writing() as rows:
        return put_pages(rows, wiki.id, given, day=day).added


def test_writing_pages_tells_each_link_that_is_new_back_or_gone(store: RegistryStore, wiki: Wiki) -> None:
    """A01: the differences are exact, also for a link that returns."""
    first = _written(store, wiki, page(1, "https://a.net/", "https://b.net/"))
    with store.writing() as rows:
        second = put_pages(rows, wiki.id, [page(1, "https://b.net/", "https://c.net/")], day=6)
        third = put_pages(rows, wiki.id, [page(1, "https://a.net/")], day=7)

    number = number_of(wiki.id, 1)
    assert len(first) == 2
    assert second.added == (LinkRef(number, second.ids["https://c.net/"]),)
    assert second.gone == (LinkRef(number, third.ids["https://a.net/"]),)
    assert third.added == second.gone
    assert set(third.gone) == {LinkRef(number, second.ids[url]) for url in ("https://b.net/", "https://c.net/")}


def test_what_was_saved_is_due_before_what_was_swept(store: RegistryStore, wiki: Wiki) -> None:
    """Within each, what has waited longest comes first; nothing comes before its grace is over."""
    swept = _written(store, wiki, page(1, "https://a.net/"))
    saved = _written(store, wiki, page(2, "https://b.net/"))
    late = _written(store, wiki, page(3, "https://c.net/"))
    with store.writing() as rows:
        want_links(rows, swept, priority=ArchivePriority.SWEPT, now=NOW - MINUTE)
        want_links(rows, saved, priority=ArchivePriority.SAVED, now=NOW)
        want_links(rows, late, priority=ArchivePriority.SAVED, now=NOW, grace=timedelta(hours=24))
        due = due_links(rows, wiki.id, now=NOW, limit=10)
        one = due_links(rows, wiki.id, now=NOW, limit=1)

        assert [row.page_id for row in due] == [2, 1]
        assert [row.page_id for row in one] == [2]
        assert [row.title for row in due] == ["Page 2", "Page 1"]
        assert next_due(rows, wiki.id) == NOW - MINUTE


def test_a_page_with_many_new_links_goes_behind_others(store: RegistryStore, wiki: Wiki) -> None:
    """Its first ones are as urgent as any; the rest comes after all that others saved, before sweeps."""
    large = page(1, *(f"https://a.net/{number}" for number in range(AT_ONCE + 3)))
    crowd = _written(store, wiki, large)
    saved = _written(store, wiki, page(2, "https://b.net/"))
    swept = _written(store, wiki, page(3, "https://c.net/"))
    with store.writing() as rows:
        want_links(rows, [*crowd[-3:-1], *swept], priority=ArchivePriority.SWEPT, now=NOW - MINUTE)
        want_links(rows, crowd, priority=ArchivePriority.SAVED, now=NOW)
        want_links(rows, saved, priority=ArchivePriority.SAVED, now=NOW + MINUTE)
        due = due_links(rows, wiki.id, now=NOW + MINUTE, limit=100)
        few = due_links(rows, wiki.id, now=NOW + MINUTE, limit=AT_ONCE + 1)

    assert [row.page_id for row in due] == [1] * AT_ONCE + [2] + [1] * 3 + [3]
    assert [row.priority for row in due[-4:]] == [ArchivePriority.CROWD] * 3 + [ArchivePriority.SWEPT]
    assert few == due[: AT_ONCE + 1]


def test_a_link_that_waits_keeps_its_day_and_is_only_moved_up(store: RegistryStore, wiki: Wiki) -> None:
    """Being found again neither begins its grace period again nor makes it less urgent."""
    links = _written(store, wiki, page(1, "https://a.net/"))
    with store.writing() as rows:
        want_links(rows, links, priority=ArchivePriority.SWEPT, now=NOW)
        want_links(rows, links, priority=ArchivePriority.SAVED, now=NOW + MINUTE)
        want_links(rows, links, priority=ArchivePriority.SWEPT, now=NOW + 9 * MINUTE)
        (row,) = due_links(rows, wiki.id, now=NOW + 10 * MINUTE, limit=5)

    assert (row.priority, row.since, row.due) == (ArchivePriority.SAVED, NOW, NOW + MINUTE)


def test_a_due_link_tells_whether_its_page_still_has_it(store: RegistryStore, wiki: Wiki) -> None:
    """Gone from the page, or with the page: whoever hands links on must know."""
    links = _written(store, wiki, page(1, "https://a.net/"), page(2, "https://b.net/"))
    with store.writing() as rows:
        want_links(rows, links, priority=ArchivePriority.SAVED, now=NOW)
        put_pages(rows, wiki.id, [page(1)], day=6)
        drop_pages(rows, wiki.id, [2], day=6)
        backlog_rows = due_links(rows, wiki.id, now=NOW, limit=5)

    assert [(row.page_id, row.gone_day, row.is_there) for row in backlog_rows] == [(1, 6, True)]


def test_what_could_not_be_handed_on_is_put_off(store: RegistryStore, wiki: Wiki) -> None:
    """It counts its attempts, and leaves when it was taken."""
    links = _written(store, wiki, page(1, "https://a.net/"))
    with store.writing() as rows:
        want_links(rows, links, priority=ArchivePriority.SAVED, now=NOW)
        postpone_links(rows, due_links(rows, wiki.id, now=NOW, limit=5), until=NOW + MINUTE)
        assert due_links(rows, wiki.id, now=NOW, limit=5) == []
        (row,) = due_links(rows, wiki.id, now=NOW + MINUTE, limit=5)
        assert row.attempts == 1
        forget_links(rows, links)
        assert next_due(rows, wiki.id) is None


def test_links_of_a_released_page_wait_until_it_is_observed_again(store: RegistryStore, wiki: Wiki) -> None:
    """Held back for longer than the page itself stays; let go with a new grace."""
    links = _written(store, wiki, page(1, "https://a.net/"))
    numbers = [number_of(wiki.id, 1)]
    later = NOW + timedelta(days=100)
    with store.writing() as rows:
        want_links(rows, links, priority=ArchivePriority.SAVED, now=NOW)
        hold_back_pages(rows, numbers, now=NOW)
        assert due_links(rows, wiki.id, now=later, limit=5) == []
        release_pages(rows, numbers, now=NOW + MINUTE, grace=MINUTE)
        (row,) = due_links(rows, wiki.id, now=later, limit=5)
        release_pages(rows, numbers, now=later, grace=MINUTE)
        assert due_links(rows, wiki.id, now=later, limit=5) == [row]

    assert row.due == NOW + 2 * MINUTE


def test_a_new_access_date_outdates_the_search_for_copies(store: RegistryStore, wiki: Wiki) -> None:
    """B06: the version that was found was chosen for another day; the same date again changes nothing."""
    (link,) = _written(store, wiki, page(1, "https://a.net/"))
    dated = CitationRow(link, "citation", 1000)
    with store.writing() as rows:
        note_search(rows, link.url_id, CopySearchOutcome.FOUND, 3_000)
        put_citations(rows, [link.page], [dated], day=6)
        outdated = last_search(rows, link.url_id)
        note_search(rows, link.url_id, CopySearchOutcome.FOUND, 3_000)
        put_citations(rows, [link.page], [dated], day=6)
        again = last_search(rows, link.url_id)

    assert outdated is not None
    assert again is not None
    assert (outdated.outcome, again.outcome) == (CopySearchOutcome.OUTDATED, CopySearchOutcome.FOUND)


def test_of_two_citations_the_one_that_says_more_is_kept(store: RegistryStore, wiki: Wiki) -> None:
    """And what a page does not say any more is forgotten."""
    (link,) = _written(store, wiki, page(1, "https://a.net/"))
    plain = CitationRow(link, "bare")
    full = CitationRow(link, "citation", 1000, "https://web.archive.org/x", "2020", CitationFlag.DEAD)
    with store.writing() as rows:
        put_citations(rows, [link.page], [plain, full, plain], day=6)
        assert citations_of(rows, [link.page]) == {link: full}
        (use,) = cited_uses(rows, link.url_id)
        assert (use.link, use.access_day) == (link, 1000)
        put_citations(rows, [link.page], [plain], day=6)
        assert citations_of(rows, [link.page]) == {link: plain}
        put_citations(rows, [link.page], [], day=6)
        assert citations_of(rows, [link.page]) == {}


def test_a_page_leaves_with_what_is_wanted_and_said_of_it(store: RegistryStore, wiki: Wiki) -> None:
    """W25, W37: nothing hangs on a page that is not there, nor on a URL that is forgotten."""
    links = _written(store, wiki, page(1, "https://a.net/"), page(2, "https://b.net/"))
    with store.writing() as rows:
        want_links(rows, links, priority=ArchivePriority.SAVED, now=NOW)
        put_citations(rows, [each.page for each in links], [CitationRow(each, "bare") for each in links], day=6)
        drop_pages(rows, wiki.id, [1], day=6)
        assert {row[0] for row in rows.execute(select(wanted.c.page))} == {number_of(wiki.id, 2)}
        put_pages(rows, wiki.id, [page(2)], day=6)
    purge(store, day=400)

    with store.reading() as rows:
        assert rows.execute(select(wanted.c.page)).all() == []
        assert rows.execute(select(citations.c.page)).all() == []


def test_pages_are_found_by_the_name_they_bore(store: RegistryStore, wiki: Wiki) -> None:
    """A deletion tells a title alone; underscores and spaces are one."""
    _written(store, wiki, page(1, title="Foo bar"), page(2, title="Foo bar"), page(3, title="Baz"))
    with store.reading() as rows:
        page_rows = find_titled(rows, wiki.id, ["Foo_bar", "Nothing", "\0"])

    assert sorted(row.page_id for row in page_rows) == [1, 2]


def test_a_mark_can_be_taken_back(store: RegistryStore, wiki: Wiki) -> None:
    """W36: exclusion clears the flag that a page's URLs must be read."""
    _written(store, wiki, page(1), page(2))
    with store.writing() as rows:
        mark_stale(rows, wiki.id, [1, 2])
        mark_stale(rows, wiki.id, [1], is_stale=False)
        assert [row.page_id for row in next_stale(rows, wiki.id, limit=5)] == [2]


def test_pages_that_the_feeder_did_not_see_are_told_in_order(store: RegistryStore, wiki: Wiki) -> None:
    """W37: part after part, from the number on that was told last."""
    _written(store, wiki, page(1), page(2), page(4), day=5)
    _written(store, wiki, page(3), day=6)
    with store.reading() as rows:
        first = untouched(rows, wiki.id, before=6, limit=2)
        rest = untouched(rows, wiki.id, before=6, after=first[-1].id, limit=2)
        assert len(find_pages(rows, wiki.id, [1, 2, 3, 4])) == 4
        links = current_links(rows, [number_of(wiki.id, 1)])

    assert [row.page_id for row in (*first, *rest)] == [1, 2, 4]
    assert links == []
