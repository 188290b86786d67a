"""The bot's edit book, on both databases: what it keeps, and which ways an edit may go."""

from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from core.errors import InputError, InvariantError
from core.layout import Layout
from links.registry.bot_edits import (
    DEAD_KINDS,
    HOLDING,
    MOVES,
    REVIVED_KIND,
    BotBusyError,
    BotEdit,
    EditChange,
    EditKind,
    EditState,
    IntendedEdit,
    called_dead_by_us,
    count_edits,
    edits_by_id,
    edits_in,
    edits_of_page,
    edits_to_watch,
    forget_edit,
    held_links,
    last_edits,
    last_made,
    make_urls_due,
    move_edit,
    newest_edits,
    note_nothing_to_do,
    record_intended_edit,
    release_edit_lock,
    revived_links,
    set_checked,
    set_reported,
    take_edit_lock,
)
from links.registry.database import RegistryStore
from links.registry.pages import LinkRef, number_of
from links.states import LinkState
from tests.links.rows import TODAY, RegistryRows
from tests.support.examples import examples
from tests.support.services.registries import open_registry
from wiki.wikitext.citation_model import RepairKind

WIKI = 1
CHANGES = (EditChange(5, "archived", "a", "b"), EditChange(6, "tagged", "", "{{dead link}}"))


def made(
    store: RegistryStore, page_id: int = 7, *, moment: int = 1_000, changes: tuple[EditChange, ...] = CHANGES
) -> BotEdit:
    """Record an edit as made, and return it."""
    with store.writing() as rows:
        number = record_intended_edit(
            rows, WIKI, IntendedEdit(page_id, "job", 10, "f" * 40, changes=changes), moment=moment
        )
        edit = edits_by_id(rows, [number])[number]
        return move_edit(rows, edit, EditState.MADE, moment=moment, rev=11)


def test_a_link_is_called_dead_by_us_while_our_last_word_stands(store: RegistryStore) -> None:
    """Changes that were undone, or that we revived later, do not count; nor do those of another page."""
    links = [LinkRef(number_of(WIKI, page), url) for page, url in ((7, 5), (7, 6), (7, 9), (8, 5))]
    assert {str(kind) for kind in RepairKind} - DEAD_KINDS == {REVIVED_KIND, "tidied"}

    edit = made(store)
    with store.writing() as rows:
        assert called_dead_by_us(rows, links) == set(links[:2])
        move_edit(rows, edit, EditState.REVERTED, moment=2_000, undone=[1])
        assert called_dead_by_us(rows, links) == {links[0]}

    made(store, changes=(EditChange(5, "revived", "b", "a"),), moment=3_000)
    with store.reading() as rows:
        assert called_dead_by_us(rows, links) == set()


def test_an_edit_comes_back_as_it_was_written(store: RegistryStore) -> None:
    """With its changes in their order, whatever characters they hold."""
    odd = (EditChange(1, "archived", "[http://a ä\U0001f600\x00]", "x\n\u202ey"), EditChange(2, "tagged", "", "z"))
    edit = made(store, changes=odd)

    with store.reading() as rows:
        stored_edit = edits_by_id(rows, [edit.id])[edit.id]
        listed = edits_of_page(rows, WIKI, 7)

    assert stored_edit == edit
    assert [change.before for change in stored_edit.changes] == ["[http://a ä\U0001f600]", ""]
    assert listed == [stored_edit]


def test_an_edit_goes_no_way_but_those_of_the_table(sqlite_store: RegistryStore) -> None:
    """Every other way is a mistake of ours, and nothing is written."""
    for start, end in product(EditState, EditState):
        with sqlite_store.writing() as rows:
            number = record_intended_edit(rows, WIKI, IntendedEdit(7, "job", 10), moment=1)
            edit = edits_by_id(rows, [number])[number]
            for state in _path_to(start):
                edit = move_edit(rows, edit, state, moment=2)
            if end in MOVES[start]:
                assert move_edit(rows, edit, end, moment=3).state is end
            else:
                with pytest.raises(InvariantError, match="cannot become"):
                    move_edit(rows, edit, end, moment=3)
                assert edits_by_id(rows, [number])[number].state is start


def _path_to(state: EditState) -> list[EditState]:
    """Return the shortest path of states to `state`."""
    paths: dict[EditState, list[EditState]] = {EditState.INTENDED: []}
    waiting = [EditState.INTENDED]
    while waiting:
        here = waiting.pop(0)
        for there in sorted(MOVES[here]):
            if there not in paths:
                paths[there] = [*paths[here], there]
                waiting.append(there)
    return paths[state]


def test_who_is_too_late_is_told(store: RegistryStore) -> None:
    """Two look at one edit: the second's word is not written over the first's."""
    edit = made(store)
    with store.writing() as rows:
        move_edit(rows, edit, EditState.KEPT, moment=5)

    with pytest.raises(InputError, match="reload it"), store.writing() as rows:
        move_edit(rows, edit, EditState.REVERTED, moment=6, undone=frozenset({0}))
    with store.reading() as rows:
        assert not edits_by_id(rows, [edit.id])[edit.id].changes[0].is_undone


def test_only_what_was_undone_is_held(store: RegistryStore) -> None:
    """Of a partly reverted edit the other link is free; a declined review frees all."""
    edit = made(store)
    with store.writing() as rows:
        edit = move_edit(rows, edit, EditState.REVERTED, moment=5, undone=frozenset({1}))
        held = held_links(rows, WIKI, [7, 8])
        edit = move_edit(rows, edit, EditState.ACCEPTED, moment=6)
        accepted = held_links(rows, WIKI, [7])
        move_edit(rows, edit, EditState.DECLINED, moment=7)
        declined = held_links(rows, WIKI, [7])

    assert (held, accepted, declined) == ({7: {6: edit.id}}, {7: {6: edit.id}}, {})


def test_an_edit_of_the_same_page_of_another_wiki_holds_nothing(store: RegistryStore) -> None:
    """Page ids are the wiki's own."""
    edit = made(store)
    with store.writing() as rows:
        move_edit(rows, edit, EditState.REVERTED, moment=5, undone=frozenset({0}))
        assert held_links(rows, 2, [7]) == {}
        assert edits_of_page(rows, 2, 7) == []


def test_what_certainly_was_not_made_is_forgotten(store: RegistryStore) -> None:
    """After a conflict the row goes with its changes; one that was made stays."""
    edit = made(store)
    with store.writing() as rows:
        number = record_intended_edit(rows, WIKI, IntendedEdit(7, "job", 10, changes=CHANGES), moment=1)
        forget_edit(rows, number)
        forget_edit(rows, edit.id)
        assert set(edits_by_id(rows, [number, edit.id])) == {edit.id}


def test_of_a_page_without_anything_to_do_one_row_is_kept(store: RegistryStore) -> None:
    """The newest, with what was known then."""
    with store.writing() as rows:
        for rev in (10, 12):
            note_nothing_to_do(rows, WIKI, IntendedEdit(7, "job", rev), b"x" * 16, moment=rev)
        edit_by_page = last_edits(rows, WIKI, [7, 8])

    assert edit_by_page[7][:3] == (EditState.NOTHING, 12, b"x" * 16)
    assert set(edit_by_page) == {7}


def test_edits_are_watched_until_they_were_looked_at(store: RegistryStore) -> None:
    """The oldest first, not those before the month, not those that were looked at lately."""
    old, one, two = (made(store, page, moment=at) for page, at in ((1, 10), (2, 1_000), (3, 2_000)))
    with store.writing() as rows:
        set_checked(rows, [two.id], moment=9_000)
        due = edits_to_watch(rows, WIKI, [EditState.MADE], since=500, before=5_000, limit=9)
        open_ = edits_in(rows, WIKI, [EditState.MADE], limit=2)
        newest = newest_edits(rows, WIKI, limit=2)
        summed = count_edits(rows, WIKI, EditKind.PAGE)

    assert [each.id for each in due] == [one.id]
    assert [each.id for each in open_] == [old.id, one.id]
    assert [each.id for each in newest] == [two.id, one.id]
    assert summed == {EditState.MADE: 3}
    assert old.id not in {each.id for each in due}


def test_the_last_edit_is_known_across_runs(store: RegistryStore) -> None:
    """For the rate: nothing that was not sent counts."""
    made(store, moment=77)
    with store.writing() as rows:
        note_nothing_to_do(rows, WIKI, IntendedEdit(9, "job", 1), b"", moment=99)
        assert (last_made(rows, WIKI), last_made(rows, 2)) == (77, 0)


def test_who_undid_an_edit_is_heard_once(store: RegistryStore) -> None:
    """The flag is kept beside the state."""
    edit = made(store)
    with store.writing() as rows:
        set_reported(rows, edit.id)
        assert edits_by_id(rows, [edit.id])[edit.id].is_reported


def test_a_link_that_lives_again_is_found_by_its_page(store: RegistryStore) -> None:
    """Of edits that stand, and of changes that were not undone."""
    book = RegistryRows(store)
    book.add_wiki()
    urls = book.add_urls({"https://a.example/": LinkState.ALIVE, "https://b.example/": LinkState.DEAD})
    live, dead = urls.values()
    edit = made(store, changes=(EditChange(live, "archived", "", "x"), EditChange(dead, "archived", "", "y")))
    with store.writing() as rows:
        links = revived_links(rows, WIKI, [int(LinkState.ALIVE)])
        behind = revived_links(rows, WIKI, [int(LinkState.ALIVE)], after=7)
        move_edit(rows, edit, EditState.REVERTED, moment=5, undone=frozenset({0}))
        gone = revived_links(rows, WIKI, [int(LinkState.ALIVE)])

    assert [(each.page_id, each.url_id) for each in links] == [(7, live)]
    assert (behind, gone) == ([], [])


def test_a_link_is_looked_at_today(store: RegistryStore) -> None:
    """A URL due later is due today; one that is never checked stays so."""
    from sqlalchemy import select, update

    from links.registry.schema import urls

    book = RegistryRows(store)
    ids = list(book.add_urls({f"https://{name}.example/": LinkState.DEAD for name in "abc"}).values())
    with store.writing() as rows:
        for number, due in zip(ids, (TODAY + 9, TODAY - 1, None), strict=True):
            rows.execute(update(urls).where(urls.c.id == number).values(due_day=due))
        assert make_urls_due(rows, ids, day=TODAY) == 1
        due_days = rows.execute(select(urls.c.due_day).order_by(urls.c.id)).scalars().all()
    assert due_days == [TODAY, TODAY - 1, None]


def test_one_run_at_a_time_has_a_wiki(store: RegistryStore) -> None:
    """Until it gives it back, or was not heard of for too long."""
    with store.writing() as rows:
        take_edit_lock(rows, WIKI, "a", now=0, length_s=100)
        take_edit_lock(rows, WIKI, "a", now=50, length_s=100)
        take_edit_lock(rows, 2, "b", now=50, length_s=100)
    with pytest.raises(BotBusyError, match=r"\(a\).* 1 s"), store.writing() as rows:
        take_edit_lock(rows, WIKI, "b", now=149, length_s=100)
    with store.writing() as rows:
        take_edit_lock(rows, WIKI, "b", now=150, length_s=100)
        release_edit_lock(rows, WIKI, "a")
    with pytest.raises(BotBusyError), store.writing() as rows:
        take_edit_lock(rows, WIKI, "a", now=151, length_s=100)
    with store.writing() as rows:
        release_edit_lock(rows, WIKI, "b")
        take_edit_lock(rows, WIKI, "a", now=152, length_s=100)


class BookMachine(RuleBasedStateMachine):
    """Edits of a few pages that go any allowed way: the book says what a list in memory says."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile
        from pathlib import Path

        self._folder = tempfile.TemporaryDirectory()
        self.store = open_registry(Layout(Path(self._folder.name)))
        self.edits: dict[int, BotEdit] = {}
        self.moment = 0

    def teardown(self) -> None:
        """Close what was opened."""
        self.store.close()
        self._folder.cleanup()

    @rule(page=st.integers(1, 3), links=st.lists(st.integers(1, 4), max_size=3))
    def intend(self, page: int, links: list[int]) -> None:
        """Write an edit down."""
        self.moment += 1
        changes = tuple(EditChange(link, "archived", "a", f"b{link}") for link in links)
        with self.store.writing() as rows:
            number = record_intended_edit(rows, WIKI, IntendedEdit(page, "job", 1, changes=changes), moment=self.moment)
            self.edits[number] = edits_by_id(rows, [number])[number]

    @precondition(lambda self: any(MOVES[edit.state] for edit in self.edits.values()))
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        """Bring one into another state."""
        self.moment += 1
        ready = sorted(number for number, edit in self.edits.items() if MOVES[edit.state])
        edit = self.edits[data.draw(st.sampled_from(ready))]
        state = data.draw(st.sampled_from(sorted(MOVES[edit.state])))
        undone = None
        if state is EditState.REVERTED:
            undone = data.draw(st.sets(st.integers(0, max(len(edit.changes) - 1, 0))))
        elif state is EditState.MADE:
            undone = set()
        with self.store.writing() as rows:
            self.edits[edit.id] = move_edit(rows, edit, state, moment=self.moment, undone=undone)

    @precondition(lambda self: any(e.state is EditState.INTENDED for e in self.edits.values()))
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        """Take one away that was not made."""
        ready = sorted(n for n, e in self.edits.items() if e.state is EditState.INTENDED)
        number = data.draw(st.sampled_from(ready))
        with self.store.writing() as rows:
            forget_edit(rows, number)
        del self.edits[number]

    @invariant()
    def the_book_has_what_was_written(self) -> None:
        """Assert that every edit and every held link is stored."""
        with self.store.reading() as rows:
            edits = edits_by_id(rows, self.edits)
            held = held_links(rows, WIKI, [1, 2, 3])
        assert edits == self.edits
        wanted: dict[int, dict[int, int]] = {}
        for edit in sorted(self.edits.values(), key=lambda each: each.id):
            for change in edit.changes:
                if edit.state in HOLDING and change.is_undone:
                    wanted.setdefault(edit.page_id, {})[change.url_id] = edit.id
        assert held == wanted


BookMachine.TestCase.settings = settings(max_examples=examples(8), stateful_step_count=20)
TestBook = BookMachine.TestCase
