"""Making and lifting marks, and letting the states of the URLs that they match follow.

A mark counts from the moment it is in the book; the states that readers see follow by `settle`, in batches
that may be interrupted: whatever is left is found again, and doing it twice changes nothing. A URL that no
mark decides on any more goes back to be watched, as one of which nothing is known, within the next week.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, insert, select, update

from core.clock import Clock
from core.errors import InputError
from core.url_patterns import parse_pattern
from links.days import day_of
from links.host_gaps import LARGEST_GAP_S, LEAST_GAP_S, parse_gap
from links.host_gaps import SETTING as GAP
from links.marks import (
    MARKED,
    Mark,
    MarkKind,
    Marks,
    Settled,
    read_marks,
    stamp_of,
    standing,
)
from links.observed import Observed, hosts_of, matcher, observed_of, url_select
from links.states import State
from links.store.schema import marks as book
from links.store.schema import urls
from links.store.statements import MOST, batches
from links.store.store import Store

WATCHED_AGAIN_DAYS: Final = 7
MOST_TEXT: Final = 2_000  # characters of a reason
_UNMARKED: dict[str, Any] = {
    "fails": 0, "first_fail_day": None, "last_fail_day": None, "proofs": 0, "opinion_day": None,
}  # fmt: skip


def _day_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= 100


SETTINGS: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "every_days": (_day_count, "1 to 100: how often it is looked at while it works"),
    "method": (lambda text: text in ("head", "get"), "head or get: what it is asked with first"),
    GAP: (
        lambda text: parse_gap(text) is not None,
        f"{LEAST_GAP_S:g} to {LARGEST_GAP_S:g}: seconds between two requests to a host",
    ),
    "preset": (
        lambda text: text in ("default", "iabot", "dewiki"),
        "default, iabot or dewiki: what it takes to be dead",
    ),
}


@dataclass
class Tally:
    """What settling did, or would do.

    Attributes:
        looked: URLs that a mark matches.
        changed: URLs by the state that they get.
    """

    looked: int = 0
    changed: Counter[State] = field(default_factory=Counter)


def checked(mark: Mark) -> Mark:
    """The mark, when `put_marks` can take it; its number is given there.

    Raises:
        InputError: the pattern is none, the reason is missing, or the setting is none.
    """
    mark = replace(mark, pattern=mark.pattern.strip(), reason=mark.reason.strip())
    parse_pattern(mark.pattern)
    if not 0 < len(mark.reason) <= MOST_TEXT:
        raise InputError(f"A mark needs a reason, of {MOST_TEXT:,} characters at most.")
    if (mark.kind is MarkKind.SETTING) != bool(mark.key):
        raise InputError("A setting, and only that, has KEY=VALUE.")
    if mark.key:
        if mark.key not in SETTINGS:
            raise InputError(f"{mark.key[:80]!r} is no setting; there is {', '.join(SETTINGS)}.")
        check, meaning = SETTINGS[mark.key]
        if not check(mark.value):
            raise InputError(f"{mark.key} is {meaning}; not {mark.value[:80]!r}.")
        if mark.key == GAP and not parse_pattern(mark.pattern).names_site:
            raise InputError(
                f"{GAP} is for hosts, such as example.org or =example.org; {mark.pattern[:80]!r} is none."
            )
    return mark


def put_marks(connection: Connection, made: Iterable[Mark]) -> list[Mark]:
    """Put marks into the book, each in place of the one with the same pattern; as they are there."""
    there: dict[tuple[object, str], list[Mark]] = {}
    for mark in standing(connection):
        try:
            there.setdefault((parse_pattern(mark.pattern), mark.key), []).append(mark)
        except InputError:
            continue  # `weboid links mark list` tells of it
    found = []
    for mark in made:
        place = (parse_pattern(mark.pattern), mark.key)
        for old in there.get(place, ()):
            _lift(connection, [old.id], mark.actor, mark.moment)
        row = {
            "kind": str(mark.kind), "pattern": mark.pattern, "key": mark.key, "value": mark.value,
            "reason": mark.reason, "actor": mark.actor, "moment": mark.moment,
            "expires": mark.expires, "settled": int(Settled.NOT_YET),
        }  # fmt: skip
        number = connection.execute(insert(book).values(row).returning(book.c.id)).scalar_one()
        found.append(replace(mark, id=number))
        there[place] = [found[-1]]
    return found


def named_marks(connection: Connection, names: Sequence[str]) -> list[Mark]:
    """The marks with these numbers or patterns that were not lifted.

    Raises:
        InputError: no mark that stands goes by one of the names.
    """
    marks = standing(connection)
    chosen: dict[int, Mark] = {}
    for name in names:
        found = [mark for mark in marks if _is_named(mark, name)]
        if not found:
            raise InputError(
                f"No mark that stands has the number or the pattern {name[:200]!r};"
                " `weboid links mark list` shows them."
            )
        chosen |= {mark.id: mark for mark in found}
    return list(chosen.values())


def lift_marks(connection: Connection, marks: Iterable[Mark], actor: str, now: datetime) -> None:
    """Lift the marks; they stay in the book."""
    _lift(connection, [mark.id for mark in marks], actor, int(now.timestamp()))


def pending(connection: Connection, now: datetime) -> list[Mark]:
    """The marks that states may not follow yet: new ones, lifted ones, and those that expired."""
    return [mark for mark in read_marks(connection) if mark.is_pending(now)]


def settle(
    store: Store,
    clock: Clock,
    *,
    told: Callable[[int], None] = lambda _count: None,
) -> Tally:
    """Let the states of all URLs follow the marks that are pending.

    Each batch is a transaction of its own, and reads the marks anew when they changed: those that another
    process made meanwhile hold.

    Args:
        store: the registry.
        clock: tells the time.
        told: told how many URLs were looked at, again and again.

    Raises:
        TransientError: the registry does not answer; what was done stays, the rest is done next time.
    """
    tally = Tally()
    stamp, decided = None, Marks((), clock)
    with store.reading() as rows:
        waiting = pending(rows, clock.now())
    for mark in waiting:
        for chosen in _matched(store, mark):
            with store.writing() as rows:
                now_there = stamp_of(rows)
                if now_there != stamp:
                    stamp, decided = now_there, Marks(standing(rows), clock)
                _follow(rows, chosen, decided, clock, tally)
            told(tally.looked)
        _note_settled(store, mark, clock.now())
    return tally


def foresee(store: Store, made: Sequence[Mark], lifted: Collection[int], clock: Clock) -> Tally:
    """What `settle` would do once these marks were made and those lifted; nothing is changed."""
    tally = Tally()
    with store.reading() as rows:
        there = standing(rows)
    replaced = {(parse_pattern(mark.pattern), mark.key) for mark in made}
    left = [
        mark for mark in there
        if mark.id not in lifted and not _is_in(mark, replaced)
    ]  # fmt: skip
    newest = max((mark.id for mark in there), default=0) + 1
    fresh = [replace(mark, id=newest + place) for place, mark in enumerate(made)]
    decided = Marks([*left, *fresh], clock)
    gone = [mark for mark in there if mark not in left]
    seen: set[int] = set()
    for mark in (*fresh, *gone):
        for chosen in _matched(store, mark):
            with store.reading() as rows:
                new = [each for each in chosen if each not in seen]
                seen.update(new)
                for each in _rows(rows, new):
                    _count(each, decided, tally)
    return tally


def _matched(store: Store, mark: Mark) -> Iterable[list[int]]:
    """The ids of URLs on the hosts that the mark can match on, in batches."""
    if mark.kind is MarkKind.SETTING:
        return
    try:
        pattern = parse_pattern(mark.pattern)
    except InputError:
        return
    matches = matcher(pattern)
    with store.reading() as rows:
        host_ids = list(hosts_of(rows, pattern))
    for host_id in host_ids:
        with store.reading() as rows:
            question = select(urls.c.id).where(urls.c.host_id == host_id).order_by(urls.c.id)
            ids = list(rows.execute(question).scalars())
        for batch in batches(ids, MOST):
            with store.reading() as rows:
                chosen = [each.id for each in _rows(rows, batch) if matches(each.url)]
            if chosen:
                yield chosen


def _rows(connection: Connection, ids: Sequence[int]) -> list[Observed]:
    found = connection.execute(url_select().where(urls.c.id.in_(ids)))
    return [observed_of(row) for row in found]


def _count(url: Observed, marks: Marks, tally: Tally) -> State | None:
    """The state that the URL gets; None when it stays as it is."""
    tally.looked += 1
    wanted = marks.state_of(url.url)
    if wanted is None and url.state in MARKED:
        wanted = State.UNKNOWN
    if wanted is None or wanted is url.state or url.state is State.INVALID:
        return None
    tally.changed[wanted] += 1
    return wanted


def _follow(
    connection: Connection, ids: Sequence[int], marks: Marks, clock: Clock, tally: Tally
) -> None:
    """Give the URLs the states that the marks say."""
    day = day_of(clock.now())
    groups: dict[tuple[State, int | None], list[int]] = {}
    for each in _rows(connection, ids):
        wanted = _count(each, marks, tally)
        if wanted is not None:
            back = wanted is State.UNKNOWN
            # Spread over a week: a large domain is not asked for all it has on one day.
            due = day + each.id % WATCHED_AGAIN_DAYS if back else None
            groups.setdefault((wanted, due), []).append(each.id)
    for (state, due), some in groups.items():
        connection.execute(
            update(urls)
            .where(urls.c.id.in_(some))
            .values(state=int(state), due_day=due, **_UNMARKED)
        )


def _note_settled(store: Store, mark: Mark, now: datetime) -> None:
    done = Settled.APPLIED if mark.holds(now) else Settled.TAKEN_BACK
    with store.writing() as rows:
        # Not when it was lifted meanwhile: then what was applied has to be taken back.
        unchanged = (book.c.id == mark.id) & (book.c.lifted.is_(None) == (mark.lifted is None))
        rows.execute(update(book).where(unchanged).values(settled=int(done)))


def _lift(connection: Connection, ids: Collection[int], actor: str, moment: int) -> None:
    for some in batches(ids):
        connection.execute(
            update(book)
            .where(book.c.id.in_(some), book.c.lifted.is_(None))
            .values(lifted=moment, lifted_by=actor)
        )


def _is_in(mark: Mark, places: Collection[tuple[object, str]]) -> bool:
    try:
        return (parse_pattern(mark.pattern), mark.key) in places
    except InputError:
        return False


def _is_named(mark: Mark, name: str) -> bool:
    if name.removeprefix("#").isdecimal():
        return mark.id == int(name.removeprefix("#"))
    try:
        return _is_in(mark, {(parse_pattern(name), mark.key)}) or mark.pattern == name.strip()
    except InputError:
        return mark.pattern == name.strip()
