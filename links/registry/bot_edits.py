"""Bot edit log: intended, made, reverted and reviewed edits, and the edit lock of a wiki.

An edit is recorded before it is sent (`record_intended_edit`), and settled after the wiki's answer, after a crash by
the page's history. A reverted edit waits for a review; until then, and permanently if the review confirms the revert,
the bot does not touch that link on that page. `MOVES` lists all state transitions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import Connection, insert

from core.errors import CollectionInUseError, InputError, InvariantError
from links.registry import edit_statements as sql
from links.registry.pages import LinkRef, number_of
from links.registry.schema import edit_changes, edit_turns, edits
from links.registry.statements import MOST, Reader, batches, insert_missing


class EditState(IntEnum):
    """State of a bot edit; the values are stored in the registry."""

    INTENDED = 0  # written down; whether it was made is not known yet
    MADE = 1  # and it is watched
    NOTHING = 2  # there was nothing to change
    FAILED = 3  # the wiki refused it; the note says why
    ABANDONED = 4  # it never reached the wiki
    KEPT = 5  # it stood long enough
    REVERTED = 6  # somebody took it back; a review is awaited
    ACCEPTED = 7  # a review found: whoever took it back was right
    DECLINED = 8  # a review found: the edit was right, and may be repeated
    SWEPT = 9  # it went together with edits of others; nobody objected to it
    GONE = 10  # the page is no more


class EditKind(StrEnum):
    """Kind of a bot edit."""

    PAGE = "page"
    TALK = "talk"  # a message on the page's talk page (B16)


_S = EditState
MOVES: Final[Mapping[EditState, frozenset[EditState]]] = {
    _S.INTENDED: frozenset({_S.MADE, _S.NOTHING, _S.FAILED, _S.ABANDONED}),
    _S.MADE: frozenset({_S.KEPT, _S.REVERTED, _S.ACCEPTED, _S.SWEPT, _S.GONE}),
    _S.KEPT: frozenset({_S.REVERTED, _S.ACCEPTED, _S.SWEPT, _S.GONE}),
    # Of what was taken back in part the rest may be taken back later.
    _S.REVERTED: frozenset({_S.MADE, _S.ACCEPTED, _S.DECLINED, _S.REVERTED}),
    _S.ACCEPTED: frozenset({_S.DECLINED, _S.REVERTED}),
    _S.DECLINED: frozenset({_S.ACCEPTED, _S.REVERTED}),
    _S.SWEPT: frozenset({_S.MADE}),
    _S.GONE: frozenset({_S.MADE}),
    _S.NOTHING: frozenset(),
    _S.FAILED: frozenset(),
    _S.ABANDONED: frozenset(),
}
STANDING: Final = (_S.MADE, _S.KEPT)  # made, and as far as is known still there
HOLDING: Final = (_S.REVERTED, _S.ACCEPTED)  # what was undone is not repeated
PARTLY: Final = (_S.REVERTED, _S.ACCEPTED, _S.DECLINED)  # … what was not undone of it stands


REVIVED_KIND: Final = "revived"  # of a change: the text no longer says that the link is dead
# `wiki.wikitext.citation_model.RepairKind`: after these the text says that the link is dead.
DEAD_KINDS: Final = frozenset({"converted", "archived", "moved", "replaced", "marked", "tagged"})
_Link = TypeVar("_Link")


@dataclass(frozen=True, slots=True)
class EditChange:
    """Change that an edit makes to one link."""

    url_id: int  # the registry's number for the link
    kind: str  # the kind of change
    before: str  # the replaced text
    after: str  # the new text
    is_undone: bool = False  # it was reverted


@dataclass(frozen=True, slots=True)
class IntendedEdit:
    """Edit that is about to be sent."""

    page_id: int  # the wiki's number for the page; of a message, the page that it is about
    job: str  # identifier of the run, as given in the edit summary
    base_rev: int  # the revision that was read
    digest: str = ""  # SHA-1 of the text that is sent, in hexadecimal
    kind: EditKind = EditKind.PAGE
    changes: tuple[EditChange, ...] = ()


@dataclass(frozen=True, slots=True)
class BotEdit:
    """Edit as stored; times are seconds since 1970."""

    id: int
    wiki_id: int
    page_id: int
    kind: EditKind
    job: str
    moment: int
    base_rev: int
    rev: int | None  # the revision that it made; None: none
    digest: str
    state: EditState
    undone_rev: int | None  # the revision that reverted it
    undone_by: str  # the account that reverted it
    note: str  # reason of a failure, kind of revert, or comment of a review
    checked: int | None  # time of the last check that it is still in place; None: never
    is_reported: bool  # the revert was counted as a report of a working link
    reviewed: int | None
    reviewed_by: str
    changes: tuple[EditChange, ...] = ()


class BotBusyError(CollectionInUseError):
    """Refusal of the edit lock because another run of the bot edits the wiki."""


class LastEdit(NamedTuple):
    """Last action on a page; `basis` is set when nothing was to be done."""

    state: EditState
    base_rev: int
    basis: bytes | None
    moment: int


class RevivedLink(NamedTuple):
    """Link that the bot changed on a page, and that is alive now."""

    page_id: int
    url_id: int
    kind: str


def _row(wiki_id: int, wanted: IntendedEdit, state: EditState, moment: int) -> dict[str, Any]:
    return {
        "wiki_id": wiki_id, "page_id": wanted.page_id, "kind": str(wanted.kind), "job": wanted.job,
        "moment": moment, "base_rev": wanted.base_rev, "state": int(state),
    }  # fmt: skip


def record_intended_edit(connection: Connection, wiki_id: int, wanted: IntendedEdit, *, moment: int) -> int:
    """Record an edit that is about to be sent; return its number."""
    row = _row(wiki_id, wanted, EditState.INTENDED, moment) | {"digest": wanted.digest}
    number: int = connection.execute(insert(edits).values(row).returning(edits.c.id)).scalar_one()
    page = number_of(wiki_id, wanted.page_id)
    rows = [
        {
            "edit_id": number,
            "number": place,
            "page": page,
            "url_id": change.url_id,
            "kind": change.kind,
            "before": change.before.replace("\0", ""),
            "after": change.after.replace("\0", ""),
        }
        for place, change in enumerate(wanted.changes)
    ]
    if rows:
        connection.execute(insert(edit_changes), rows)
    return number


def move_edit(
    connection: Connection,
    edit: BotEdit,
    state: EditState,
    *,
    moment: int,
    undone: Collection[int] | None = None,
    **facts: Any,
) -> BotEdit:
    """Set the state of an edit at `moment`, with further columns, after its last check; return the updated edit.

    `undone`: indexes of the reverted changes. InvariantError: not in `MOVES`; InputError: concurrent change.
    """
    if state not in MOVES[edit.state]:
        raise InvariantError(f"An edit that is {edit.state.name} cannot become {state.name}.")
    made = replace(edit, state=state, checked=moment, **facts)
    values = {f"new_{name}": getattr(made, name) for name in sql.MOVED}
    values |= {"new_state": int(state), "new_note": made.note[:2_000]}
    if not sql.MOVE.run(connection, {**values, "of": edit.id, "was": int(edit.state)}):
        raise InputError(f"Edit {edit.id} was changed by somebody else meanwhile: look again.")
    if undone is None:
        return made
    changes = []
    for place, change in enumerate(made.changes):
        now = place in undone
        if now != change.is_undone:
            sql.SET_UNDONE.run(connection, {"of": edit.id, "place": place, "undone": now})
        changes.append(replace(change, is_undone=now))
    return replace(made, changes=tuple(changes))


def forget_edit(connection: Connection, edit_id: int) -> None:
    """Delete an edit that was certainly not made, such as one that met a conflict."""
    if sql.FORGET.run(connection, {"of": edit_id, "was": int(EditState.INTENDED)}):
        sql.FORGET_CHANGES.run(connection, {"of": edit_id})


def note_nothing_to_do(
    connection: Connection, wiki_id: int, wanted: IntendedEdit, basis: bytes, *, moment: int
) -> None:
    """Record that there was nothing to do on a page, for that revision and state of knowledge."""
    of_page = {"wiki": wiki_id, "page": wanted.page_id}
    sql.FORGET_NOTHING.run(connection, {**of_page, "was": int(EditState.NOTHING)})
    row = _row(wiki_id, wanted, EditState.NOTHING, moment) | {"basis": basis}
    connection.execute(insert(edits).values(row))


def set_checked(connection: Connection, edit_ids: Collection[int], *, moment: int) -> None:
    """Record that the edits were still in place at that time."""
    sql.SET_CHECKED.run_each(connection, "ids", sorted(edit_ids), seen_at=moment)


def set_reported(connection: Connection, edit_id: int) -> None:
    """Record that the revert of the edit was counted as a report."""
    sql.SET_REPORTED.run(connection, {"of": edit_id})


def make_urls_due(connection: Connection, url_ids: Collection[int], *, day: int) -> int:
    """Schedule the links for a check today (B14); return how many were due later."""
    return sql.LOOK_AGAIN.run_each(connection, "ids", sorted(url_ids), day_now=day)


def take_edit_lock(connection: Connection, wiki_id: int, who: str, *, now: int, length_s: int) -> None:
    """Lock a wiki for the run of that unique name, or renew the lock; BotBusyError when another has it."""
    insert_missing(connection, edit_turns, [{"wiki_id": wiki_id, "holder": who, "until": 0}])
    parameters = {"wiki": wiki_id, "who": who, "now": now, "end": now + length_s}
    if sql.TAKE_TURN.run(connection, parameters):
        return
    holder, until = sql.TURN.rows(connection, {"wiki": wiki_id})[0]
    raise BotBusyError(
        f"Another run ({holder}) edits this wiki: wait for its end. If it was killed, its turn ends by"
        f" itself in {max(until - now, 0)} s."
    )


def release_edit_lock(connection: Connection, wiki_id: int, who: str) -> None:
    """Release the lock of a wiki, unless another run holds it."""
    sql.END_TURN.run(connection, {"wiki": wiki_id, "who": who})


def edits_by_id(reader: Reader, ids: Iterable[int]) -> dict[int, BotEdit]:
    """Return the existing edits with these numbers."""
    found = list(sql.BY_ID.each(reader, "ids", dict.fromkeys(ids)))
    return {edit.id: edit for edit in _whole(reader, found)}


def called_dead(changes: Iterable[tuple[_Link, str]]) -> frozenset[_Link]:
    """Return the links that are tagged dead after these changes: (link, kind), the oldest first."""
    found: set[_Link] = set()
    for link, kind in changes:
        if kind == REVIVED_KIND:
            found.discard(link)
        elif kind in DEAD_KINDS:
            found.add(link)
    return frozenset(found)


def called_dead_by_us(reader: Reader, links: Iterable[LinkRef]) -> frozenset[LinkRef]:
    """Return those of the links that the bot's own edits, if still in place, tag as dead."""
    wanted = sorted(set(links))
    states = list(map(int, (EditState.INTENDED, *STANDING, *PARTLY)))
    found: list[tuple[LinkRef, str]] = []
    for batch in batches(wanted):
        pages, ids = ({link[place] for link in batch} for place in (0, 1))
        parameters = {"pages": sorted(pages), "urls": sorted(ids), "states": states}
        rows = sql.OF_LINKS.rows(reader, {**parameters, "kind": str(EditKind.PAGE)})
        found += [(LinkRef(page, url_id), kind) for page, url_id, kind in rows]
    return called_dead(found) & frozenset(wanted)


def edits_of_page(reader: Reader, wiki_id: int, page_id: int) -> list[BotEdit]:
    """Return all edits of the page, the oldest first."""
    return _whole(reader, sql.OF_PAGE.rows(reader, {"wiki": wiki_id, "page": page_id}))


def edits_in(reader: Reader, wiki_id: int, states: Sequence[EditState], *, limit: int = MOST) -> list[BotEdit]:
    """Return edits in these states, the oldest first."""
    parameters = {"states": list(map(int, states)), "most": limit}
    return _whole(reader, sql.IN_STATES.rows(reader, {"wiki": wiki_id, **parameters}))


def newest_edits(
    reader: Reader, wiki_id: int, states: Sequence[EditState] = tuple(EditState), *, limit: int, before: int = 1 << 62
) -> list[BotEdit]:
    """Return edits in these states with numbers below `before`, the newest first."""
    parameters = {"states": list(map(int, states)), "most": limit, "before": before}
    return _whole(reader, sql.NEWEST.rows(reader, {"wiki": wiki_id, **parameters}))


def edits_to_watch(
    reader: Reader, wiki_id: int, states: Sequence[EditState], *, since: int, before: int, limit: int
) -> list[BotEdit]:
    """Return edits made since `since` and last checked before `before`, the oldest first."""
    parameters = {"states": list(map(int, states)), "since": since, "before": before, "most": limit}
    return _whole(reader, sql.TO_WATCH.rows(reader, {"wiki": wiki_id, **parameters}))


def last_made(reader: Reader, wiki_id: int) -> int:
    """Return when the bot last edited the wiki, or intended to; 0: never."""
    states = [int(each) for each in EditState if each is not EditState.NOTHING]
    found = sql.LAST_MADE.rows(reader, {"wiki": wiki_id, "states": states})
    return int(found[0][0] or 0)


def count_edits(reader: Reader, wiki_id: int, kind: EditKind) -> dict[EditState, int]:
    """Count the wiki's edits by state."""
    found = sql.COUNTS.rows(reader, {"wiki": wiki_id, "kind": str(kind)})
    return {EditState(state): number for state, number in found}


def held_links(reader: Reader, wiki_id: int, page_ids: Iterable[int]) -> dict[int, dict[int, int]]:
    """Return links that the bot must not touch, by page and link, with the edit that is the reason."""
    found: dict[int, dict[int, int]] = {}
    states = list(map(int, HOLDING))
    numbers = {number_of(wiki_id, page_id) for page_id in page_ids}
    for page_id, url_id, edit_id in sql.HELD.each(reader, "pages", numbers, states=states):
        found.setdefault(page_id, {})[url_id] = edit_id
    return found


def last_edits(reader: Reader, wiki_id: int, page_ids: Iterable[int]) -> dict[int, LastEdit]:
    """Return the last action on each of the pages."""
    found: dict[int, LastEdit] = {}
    parameters = {"wiki": wiki_id, "kind": str(EditKind.PAGE)}
    for row in sql.LATELY.each(reader, "ids", dict.fromkeys(page_ids), **parameters):
        basis = None if row[3] is None else bytes(row[3])
        found[row[0]] = LastEdit(EditState(row[1]), row[2], basis, row[4])
    return found


def revived_links(reader: Reader, wiki_id: int, living: Sequence[int], *, after: int = 0) -> list[RevivedLink]:
    """Return links in one of the states `living` that the bot changed, by page, after page `after`."""
    parameters = {"states": list(map(int, STANDING)), "living": list(living)}
    rows = sql.REVIVED.rows(reader, {"wiki": wiki_id, "after": after, "most": MOST, **parameters})
    return [RevivedLink(*row) for row in rows]


def _whole(reader: Reader, rows: Sequence[Any]) -> list[BotEdit]:
    """Load edits with their changes."""
    changes: dict[int, list[EditChange]] = {}
    ids = (row[0] for row in rows)
    for number, *facts in sql.CHANGES.each(reader, "ids", ids):
        change = EditChange(*facts)
        changes.setdefault(number, []).append(replace(change, is_undone=bool(change.is_undone)))
    found = []
    for row in rows:
        facts = dict(zip(sql.NAMES, row, strict=True))
        facts |= {"kind": EditKind(facts["kind"]), "state": EditState(facts["state"])}
        facts["is_reported"] = bool(facts["is_reported"])
        found.append(BotEdit(**facts, changes=tuple(changes.get(row[0], ()))))
    return found
