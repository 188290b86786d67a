"""Marks: which one decides, how states follow it, and how it ends."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, update

from core.errors import InputError
from links.feedback import marks as marks_module
from links.feedback.marks import (
    REFRESH_S,
    WATCHED_AGAIN_DAYS,
    LinkMark,
    LiveMarks,
    MarkKind,
    MarkSet,
    apply_marks,
    check_mark,
    lift_marks,
    named_marks,
    pending_marks,
    preview_marks,
    put_marks,
    read_marks,
)
from links.registry.database import RegistryStore
from links.registry.schema import marks as book
from links.registry.schema import urls
from links.states import LinkState
from tests.support.clocks import ManualClock
from tests.support.feedback_reports import NOW, TODAY, watch

SITE = "https://example.org"
DAY = timedelta(days=1)


def mark(kind: MarkKind, pattern: str, number: int = 0, **more: object) -> LinkMark:
    """Return a mark of that kind; `more` replaces its plain values."""
    made = LinkMark(number, kind, pattern, "because", "operator", int(NOW.timestamp()))
    return replace(made, **more)  # type: ignore[arg-type]


def states(store: RegistryStore, ids: list[int]) -> list[LinkState]:
    """Return the states of the URLs."""
    with store.reading() as rows:
        url_rows = rows.execute(select(urls.c.id, urls.c.state).where(urls.c.id.in_(ids)))
        state_by_id = {row.id: row.state for row in url_rows}
    return [LinkState(state_by_id[each]) for each in ids]


def put(store: RegistryStore, *made: LinkMark) -> list[LinkMark]:
    """Put marks into the book, checked."""
    with store.writing() as rows:
        return put_marks(rows, [check_mark(each) for each in made])


@pytest.mark.parametrize(
    ("url", "state"),
    [
        (f"{SITE}/", LinkState.PERMADEAD),
        ("http://a.b.example.org/x", LinkState.PERMADEAD),
        (f"{SITE}/docs/1", None),
        (f"{SITE}/docs/old/1", LinkState.EXCLUDED),
        (f"{SITE}/docs/old/1?page=2", LinkState.PERMALIVE),
        ("https://www.example.org/tag/x", LinkState.PERMALIVE),
        ("https://example.net/tag/x", LinkState.PERMALIVE),
        ("https://example.net/", None),
        ("https://notexample.org/", None),
    ],
    ids=str,
)
def test_the_most_specific_mark_decides(url: str, state: LinkState | None) -> None:
    """A URL before a prefix before an expression before a domain; ALWAYS takes out (A16, B10, B11)."""
    marks = MarkSet(
        [
            mark(MarkKind.PERMADEAD, "example.org", 1),
            mark(MarkKind.ALWAYS, "example.org/docs/", 2),
            mark(MarkKind.NEVER, "example.org/docs/old/", 3),
            mark(MarkKind.PERMALIVE, f"{SITE}/docs/old/1?page=2", 4),
            mark(MarkKind.PERMALIVE, "re:/tag/[a-z]+$", 5),
        ],
        ManualClock(NOW).now,
    )
    assert marks.state_of(url) is state


def test_of_equal_patterns_the_newest_decides_and_settings_stand_apart() -> None:
    """A setting takes nothing out of a mark, nor one key another."""
    marks = MarkSet(
        [
            mark(MarkKind.NEVER, "example.org", 1),
            mark(MarkKind.PERMALIVE, "*.example.org", 2),
            mark(MarkKind.SETTING, "example.org/x", 3, key="method", value="get"),
            mark(MarkKind.SETTING, "example.org", 4, key="every_days", value="30"),
            mark(MarkKind.SETTING, "example.org/x/y", 5, key="method", value="head"),
        ],
        ManualClock(NOW).now,
    )
    assert marks.state_of(f"{SITE}/x") is LinkState.PERMALIVE
    assert marks.setting(f"{SITE}/x", "method") == "get"
    assert marks.setting(f"{SITE}/x/y", "method") == "head"
    assert marks.setting(f"{SITE}/x/y", "every_days") == "30"
    assert marks.setting(f"{SITE}/", "method") is None


def test_a_mark_ends_when_it_said(sqlite_store: RegistryStore) -> None:
    """From that second on the next less specific one decides."""
    clock = ManualClock(NOW)
    end = int((NOW + DAY).timestamp())
    marks = MarkSet(
        [mark(MarkKind.PERMALIVE, "example.org", 1), mark(MarkKind.NEVER, f"{SITE}/x", 2, expires=end)], clock.now
    )
    assert marks.state_of(f"{SITE}/x") is LinkState.EXCLUDED
    clock.moment = NOW + DAY
    assert marks.state_of(f"{SITE}/x") is LinkState.PERMALIVE


@pytest.mark.parametrize(
    "wrong",
    [
        mark(MarkKind.NEVER, "re:("),
        mark(MarkKind.NEVER, ""),
        mark(MarkKind.NEVER, "ftp://example.org/"),
        mark(MarkKind.NEVER, "example.org", reason=" "),
        mark(MarkKind.NEVER, "example.org", key="method", value="get"),
        mark(MarkKind.SETTING, "example.org"),
        mark(MarkKind.SETTING, "example.org", key="colour", value="red"),
        mark(MarkKind.SETTING, "example.org", key="every_days", value="0"),
        mark(MarkKind.SETTING, "example.org", key="every_days", value="-1"),
        mark(MarkKind.SETTING, "example.org", key="gap_s", value="0"),
        mark(MarkKind.SETTING, "example.org", key="gap_s", value="600"),
        mark(MarkKind.SETTING, "example.org/path", key="gap_s", value="1"),
        mark(MarkKind.SETTING, "example.org", key="preset", value="none"),
    ],
    ids=lambda each: f"{each.kind}-{each.pattern}-{each.key}-{each.value}",
)
def test_what_is_no_mark_is_refused(wrong: LinkMark) -> None:
    """Before it is in the book."""
    with pytest.raises(InputError):
        check_mark(wrong)


def test_states_follow_marks_and_come_back(store: RegistryStore) -> None:
    """Applied in batches; lifted URLs are watched again within a week, others stay as they are."""
    with store.writing() as rows:
        ids = watch(rows, f"{SITE}/", f"{SITE}/docs/1", f"{SITE}/docs/2", "https://www.example.org/docs/3")
        (other,) = watch(rows, "https://example.net/", state=LinkState.ALIVE)
    put(
        store,
        mark(MarkKind.PERMADEAD, "example.org"),
        mark(MarkKind.PERMALIVE, "example.org/docs/"),
        mark(MarkKind.ALWAYS, f"{SITE}/docs/2"),
    )
    clock = ManualClock(NOW)
    done = apply_marks(store, clock)

    assert done.changed == {LinkState.PERMADEAD: 2, LinkState.PERMALIVE: 1}
    assert states(store, [*ids, other]) == [
        LinkState.PERMADEAD, LinkState.PERMALIVE, LinkState.DEAD, LinkState.PERMADEAD, LinkState.ALIVE
    ]  # fmt: skip
    with store.reading() as rows:
        due = {row.id: row.due_day for row in rows.execute(select(urls.c.id, urls.c.due_day))}
        assert pending_marks(rows, NOW) == []
    assert [due[each] is None for each in [*ids, other]] == [True, True, False, True, False]
    assert apply_marks(store, clock).looked == 0

    with store.writing() as rows:
        lift_marks(rows, named_marks(rows, ["*.example.org"]), "operator", NOW)
    back = apply_marks(store, clock)
    assert back.changed == {LinkState.UNKNOWN: 2}
    assert states(store, ids) == [
        LinkState.UNKNOWN, LinkState.PERMALIVE, LinkState.DEAD, LinkState.UNKNOWN
    ]  # fmt: skip
    with store.reading() as rows:
        again = rows.execute(select(urls.c.due_day).where(urls.c.id.in_([ids[0], ids[3]])))
        assert all(TODAY <= day < TODAY + WATCHED_AGAIN_DAYS for day in again.scalars())


def test_what_expired_is_taken_back(sqlite_store: RegistryStore) -> None:
    """Nobody has to lift it."""
    clock = ManualClock(NOW)
    with sqlite_store.writing() as rows:
        ids = watch(rows, f"{SITE}/")
    put(sqlite_store, mark(MarkKind.NEVER, "example.org", expires=int((NOW + DAY).timestamp())))
    apply_marks(sqlite_store, clock)
    assert states(sqlite_store, ids) == [LinkState.EXCLUDED]

    clock.moment = NOW + DAY
    apply_marks(sqlite_store, clock)
    assert states(sqlite_store, ids) == [LinkState.UNKNOWN]
    with sqlite_store.reading() as rows:
        assert pending_marks(rows, clock.moment) == []


def test_settling_goes_on_where_it_was_broken_off(sqlite_store: RegistryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes that were made stay, and the rest is done next time."""
    monkeypatch.setattr(marks_module, "MOST", 2)
    clock = ManualClock(NOW)
    with sqlite_store.writing() as rows:
        ids = watch(rows, *(f"{SITE}/{n}" for n in range(5)))
    put(sqlite_store, mark(MarkKind.PERMALIVE, "example.org"))

    def stop(count: int) -> None:
        if count >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply_marks(sqlite_store, clock, on_progress=stop)
    assert states(sqlite_store, ids).count(LinkState.PERMALIVE) == 4
    assert apply_marks(sqlite_store, clock).changed == {LinkState.PERMALIVE: 1}
    assert set(states(sqlite_store, ids)) == {LinkState.PERMALIVE}


def test_a_dry_run_tells_how_many_and_changes_nothing(sqlite_store: RegistryStore) -> None:
    """Of making, of replacing and of lifting."""
    clock = ManualClock(NOW)
    with sqlite_store.writing() as rows:
        ids = watch(rows, f"{SITE}/a", f"{SITE}/b")
    new = mark(MarkKind.PERMALIVE, "example.org")
    assert preview_marks(sqlite_store, [new], (), clock).changed == {LinkState.PERMALIVE: 2}
    assert states(sqlite_store, ids) == [LinkState.DEAD, LinkState.DEAD]

    (there,) = put(sqlite_store, new)
    apply_marks(sqlite_store, clock)
    other = mark(MarkKind.NEVER, "*.example.org")
    assert preview_marks(sqlite_store, [other], (), clock).changed == {LinkState.EXCLUDED: 2}
    assert preview_marks(sqlite_store, [], [there.id], clock).changed == {LinkState.UNKNOWN: 2}
    assert states(sqlite_store, ids) == [LinkState.PERMALIVE, LinkState.PERMALIVE]


def test_a_mark_replaces_the_one_with_the_same_pattern(sqlite_store: RegistryStore) -> None:
    """However it is spelled; both stay in the book, with who did what and when."""
    put(sqlite_store, mark(MarkKind.PERMALIVE, "example.org"))
    put(sqlite_store, mark(MarkKind.NEVER, "org,example,", actor="other", moment=77))
    with sqlite_store.reading() as rows:
        old, new = read_marks(rows, with_lifted=True)

    assert (old.kind, old.lifted, old.lifted_by) == (MarkKind.PERMALIVE, 77, "other")
    assert (new.kind, new.lifted) == (MarkKind.NEVER, None)


def test_only_what_stands_can_be_lifted(sqlite_store: RegistryStore) -> None:
    """By number or pattern; a name that fits nothing lifts nothing at all."""
    first, second = put(sqlite_store, mark(MarkKind.NEVER, "a.org"), mark(MarkKind.NEVER, "b.org"))
    with sqlite_store.writing() as rows:
        with pytest.raises(InputError):
            named_marks(rows, ["a.org", "c.org"])
        assert [each.id for each in named_marks(rows, [f"#{first.id}"])] == [first.id]
        marks = named_marks(rows, ["b.org", str(first.id)])
        assert {each.id for each in marks} == {first.id, second.id}
        lift_marks(rows, marks, "operator", NOW)
        with pytest.raises(InputError):
            named_marks(rows, ["a.org"])


def test_what_another_process_decides_is_known_a_second_later(store: RegistryStore) -> None:
    """New marks and lifted ones; between two changes the book is not read."""
    clock = ManualClock(NOW)
    live = LiveMarks(store, clock)
    assert live.current().deciding(f"{SITE}/") is None
    put(store, mark(MarkKind.NEVER, "example.org"))
    assert live.current().deciding(f"{SITE}/") is None
    clock.moment += timedelta(seconds=REFRESH_S)
    decided = live.current().deciding(f"{SITE}/")
    assert decided is not None
    assert decided.kind is MarkKind.NEVER
    assert "excluded" in live.current().refuses(f"{SITE}/")

    with store.writing() as rows:
        lift_marks(rows, named_marks(rows, ["example.org"]), "operator", NOW)
    clock.moment += timedelta(seconds=REFRESH_S)
    assert live.current().deciding(f"{SITE}/") is None


def test_a_mark_that_cannot_be_read_decides_nothing(sqlite_store: RegistryStore) -> None:
    """The others hold."""
    put(sqlite_store, mark(MarkKind.NEVER, "example.net"), mark(MarkKind.NEVER, "example.org"))
    with sqlite_store.writing() as rows:
        rows.execute(update(book).where(book.c.id == 1).values(pattern="re:("))
    with sqlite_store.reading() as rows:
        marks = MarkSet(read_marks(rows, with_lifted=True), ManualClock(NOW).now)

    assert marks.state_of(f"{SITE}/") is LinkState.EXCLUDED
    assert apply_marks(sqlite_store, ManualClock(NOW)).changed == {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["org", "example.org", "a.example.org", "example.org/x", f"{SITE}/x/y"]),
            st.sampled_from([kind for kind in MarkKind if kind is not MarkKind.SETTING]),
        ),
        max_size=6,
    )
)
def test_the_order_of_making_counts_only_among_equals(made: list[tuple[str, MarkKind]]) -> None:
    """Whatever marks there are: the longest fitting pattern, and of these the last made."""
    marks = MarkSet([mark(kind, text, n + 1) for n, (text, kind) in enumerate(made)], ManualClock(NOW).now)
    order = [f"{SITE}/x/y", "example.org/x", "example.org", "org"]
    kinds_in_order = [[kind for text, kind in made if text == each] for each in order]
    expected = next((kinds[-1] for kinds in kinds_in_order if kinds), None)
    deciding_mark = marks.deciding(f"{SITE}/x/y")

    assert (deciding_mark.kind if deciding_mark else None) == (None if expected is MarkKind.ALWAYS else expected)
