"""Bot edit log: intended, made, reverted and reviewed edits, and the edit lock of a wiki.

An edit is recorded before it is sent (`record_intended_edit`), and settled after the wiki's answer, after a crash by
the page's history. A reverted edit waits for a review; until then, and permanently if the review confirms the revert,
the bot does not touch that link on that page. `MOVES` lists all state transitions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import Boolean, Connection, delete, false, func, insert, or_, select, true, update

from core.errors import CollectionInUseError, InputError, InvariantError
from links.registry.pages import LinkRef, number_of
from links.registry.schema import edit_changes, edit_turns, edits, urls
from links.registry.statements import MOST, Reader, SqlStatement, batches, insert_missing, many, one


class EditState(IntEnum):
    """State of a bot edit; the values are stored in the registry."""

    INTENDED = 0  # written down; whether it was made is not known yet
    MADE = 1  # and it is watched
    NOTHING = 2  # there was nothing to change
    FAILED = 3  # the wiki refused it; the note says why
    ABANDONED = 4  # it never reached the wiki
    KEPT = 5  # it stood long enough
    REVERTED = 6  # undone; a review is awaited
    ACCEPTED = 7  # a review found the revert right
    DECLINED = 8  # a review found: the edit was right, and may be repeated
    SWEPT = 9  # removed together with edits of others; no objection
    GONE = 10  # the page no longer exists


class EditKind(StrEnum):
    """Kind of a bot edit."""

    PAGE = "page"
    TALK = "talk"  # a message on the page's talk page (B16)


_S = EditState
MOVES: Final[Mapping[EditState, frozenset[EditState]]] = {
    _S.INTENDED: frozenset({_S.MADE, _S.NOTHING, _S.FAILED, _S.ABANDONED}),
    _S.MADE: frozenset({_S.KEPT, _S.REVERTED, _S.ACCEPTED, _S.SWEPT, _S.GONE}),
    _S.KEPT: frozenset({_S.REVERTED, _S.ACCEPTED, _S.SWEPT, _S.GONE}),
    # The rest of a partly reverted edit may be reverted later.
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
HOLDING: Final = (_S.REVERTED, _S.ACCEPTED)  # reverted changes are not repeated
PARTLY: Final = (_S.REVERTED, _S.ACCEPTED, _S.DECLINED)  # … its other changes remain


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


NAMES = tuple(field.name for field in fields(BotEdit) if field.name != "changes")
_EDIT = select(*(edits.c[name] for name in NAMES))
_OF_WIKI = edits.c.wiki_id == one("wiki")
_IN_STATES = (_OF_WIKI, edits.c.state.in_(many("states")))
BY_ID = SqlStatement(_EDIT.where(edits.c.id.in_(many("ids"))), "ids")
OF_PAGE = SqlStatement(_EDIT.where(_OF_WIKI, edits.c.page_id == one("page")).order_by(edits.c.id))
IN_STATES = SqlStatement(_EDIT.where(*_IN_STATES).order_by(edits.c.id).limit(one("most")), "states")
NEWEST = SqlStatement(
    _EDIT.where(*_IN_STATES, edits.c.id < one("before")).order_by(edits.c.id.desc()).limit(one("most")), "states"
)
TO_WATCH = SqlStatement(
    _EDIT.where(
        *_IN_STATES, edits.c.moment >= one("since"), or_(edits.c.checked.is_(None), edits.c.checked < one("before"))
    )
    .order_by(edits.c.moment, edits.c.id)
    .limit(one("most")),
    "states",
)
LAST_MADE = SqlStatement(select(func.max(edits.c.moment)).where(*_IN_STATES), "states")
COUNTS = SqlStatement(
    select(edits.c.state, func.count()).where(_OF_WIKI, edits.c.kind == one("kind")).group_by(edits.c.state)
)
CHANGES = SqlStatement(
    select(edit_changes.c.edit_id, *(edit_changes.c[field.name] for field in fields(EditChange)))
    .where(edit_changes.c.edit_id.in_(many("ids")))
    .order_by(edit_changes.c.edit_id, edit_changes.c.number),
    "ids",
)
_LINKED = edit_changes.join(edits, edits.c.id == edit_changes.c.edit_id)
HELD = SqlStatement(
    select(edits.c.page_id, edit_changes.c.url_id, func.max(edits.c.id))
    .select_from(_LINKED)
    .where(
        edit_changes.c.page.in_(many("pages")), edits.c.state.in_(many("states")), edit_changes.c.is_undone.is_(true())
    )
    .group_by(edits.c.page_id, edit_changes.c.url_id),
    *("pages", "states"),
)
OF_LINKS = SqlStatement(
    select(edit_changes.c.page, edit_changes.c.url_id, edit_changes.c.kind)
    .select_from(_LINKED)
    .where(
        edit_changes.c.page.in_(many("pages")),
        edit_changes.c.url_id.in_(many("urls")),
        edits.c.kind == one("kind"),
        edits.c.state.in_(many("states")),
        edit_changes.c.is_undone.is_(false()),
    )
    .order_by(edit_changes.c.edit_id, edit_changes.c.number),
    *("pages", "urls", "states"),
)
LATELY = SqlStatement(
    select(edits.c.page_id, edits.c.state, edits.c.base_rev, edits.c.basis, edits.c.moment)
    .where(_OF_WIKI, edits.c.page_id.in_(many("ids")), edits.c.kind == one("kind"))
    .order_by(edits.c.id),
    "ids",
)
REVIVED = SqlStatement(
    select(edits.c.page_id, edit_changes.c.url_id, edit_changes.c.kind)
    .select_from(_LINKED.join(urls, urls.c.id == edit_changes.c.url_id))
    .where(
        *_IN_STATES,
        edit_changes.c.is_undone.is_(false()),
        urls.c.state.in_(many("living")),
        edits.c.page_id > one("after"),
    )
    .order_by(edits.c.page_id, edits.c.id, edit_changes.c.number)
    .limit(one("most")),
    *("states", "living"),
)
SET_CHECKED = SqlStatement(update(edits).where(edits.c.id.in_(many("ids"))).values(checked=one("seen_at")), "ids")
_IS = edits.c.id == one("of")
_MOVED = ("state", "rev", "note", "undone_rev", "undone_by", "checked", "reviewed", "reviewed_by")
MOVE = SqlStatement(
    update(edits).where(_IS, edits.c.state == one("was")).values({name: one(f"new_{name}") for name in _MOVED})
)
SET_REPORTED = SqlStatement(update(edits).where(_IS).values(is_reported=true()))
SET_UNDONE = SqlStatement(
    update(edit_changes)
    .where(edit_changes.c.edit_id == one("of"), edit_changes.c.number == one("place"))
    .values(is_undone=one("undone", Boolean()))
)
FORGET_CHANGES = SqlStatement(delete(edit_changes).where(edit_changes.c.edit_id == one("of")))
FORGET = SqlStatement(delete(edits).where(_IS, edits.c.state == one("was")))
FORGET_NOTHING = SqlStatement(
    delete(edits).where(_OF_WIKI, edits.c.page_id == one("page"), edits.c.state == one("was"))
)
_TURN = edit_turns.c.wiki_id == one("wiki")
TURN = SqlStatement(select(edit_turns.c.holder, edit_turns.c.until).where(_TURN))
TAKE_TURN = SqlStatement(
    update(edit_turns)
    .where(_TURN, or_(edit_turns.c.holder == one("who"), edit_turns.c.until <= one("now")))
    .values(holder=one("who"), until=one("end"))
)
END_TURN = SqlStatement(delete(edit_turns).where(_TURN, edit_turns.c.holder == one("who")))
LOOK_AGAIN = SqlStatement(
    update(urls).where(urls.c.id.in_(many("ids")), urls.c.due_day > one("day_now")).values(due_day=one("day_now")),
    "ids",
)


def _row(wiki_id: int, wanted: IntendedEdit, state: EditState, moment: int) -> dict[str, Any]:
    return {
        "wiki_id": wiki_id, "page_id": wanted.page_id, "kind": str(wanted.kind), "job": wanted.job,
        "moment": moment, "base_rev": wanted.base_rev, "state": int(state),
    }  # fmt: skip


def record_intended_edit(connection: Connection, wiki_id: int, wanted: IntendedEdit, *, moment: int) -> int:
    """Record an edit that is about to be sent; return its number."""
    row = _row(wiki_id, wanted, EditState.INTENDED, moment) | {"digest": wanted.digest}
    number: int = connection.execute(insert(edits).values(row).returning(edits.c.id)).scalar_one()
    its = {"edit_id": number, "page": number_of(wiki_id, wanted.page_id)}
    rows = [
        asdict(change)
        | {**its, "number": place, "before": change.before.replace("\0", ""), "after": change.after.replace("\0", "")}
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
    updated_edit = replace(edit, state=state, checked=moment, **facts)
    values = {f"new_{name}": getattr(updated_edit, name) for name in _MOVED}
    values |= {"new_state": int(state), "new_note": updated_edit.note[:2_000]}
    if not MOVE.run(connection, {**values, "of": edit.id, "was": int(edit.state)}):
        raise InputError(f"Edit {edit.id} was changed by another process meanwhile: reload it.")
    if undone is None:
        return updated_edit
    changes = []
    for place, change in enumerate(updated_edit.changes):
        now = place in undone
        if now != change.is_undone:
            SET_UNDONE.run(connection, {"of": edit.id, "place": place, "undone": now})
        changes.append(replace(change, is_undone=now))
    return replace(updated_edit, changes=tuple(changes))


def forget_edit(connection: Connection, edit_id: int) -> None:
    """Delete an edit that was certainly not made, such as one that met a conflict."""
    if FORGET.run(connection, {"of": edit_id, "was": int(EditState.INTENDED)}):
        FORGET_CHANGES.run(connection, {"of": edit_id})


def note_nothing_to_do(
    connection: Connection, wiki_id: int, wanted: IntendedEdit, basis: bytes, *, moment: int
) -> None:
    """Record that there was nothing to do on a page, for that revision and state of knowledge."""
    FORGET_NOTHING.run(connection, {"wiki": wiki_id, "page": wanted.page_id, "was": int(EditState.NOTHING)})
    connection.execute(insert(edits).values(_row(wiki_id, wanted, EditState.NOTHING, moment) | {"basis": basis}))


def set_checked(connection: Connection, edit_ids: Collection[int], *, moment: int) -> None:
    """Record that the edits were still in place at that time."""
    SET_CHECKED.run_each(connection, "ids", sorted(edit_ids), seen_at=moment)


def set_reported(connection: Connection, edit_id: int) -> None:
    """Record that the revert of the edit was counted as a report."""
    SET_REPORTED.run(connection, {"of": edit_id})


def make_urls_due(connection: Connection, url_ids: Collection[int], *, day: int) -> int:
    """Schedule the links for a check today (B14); return how many were due later."""
    return LOOK_AGAIN.run_each(connection, "ids", sorted(url_ids), day_now=day)


def take_edit_lock(connection: Connection, wiki_id: int, who: str, *, now: int, length_s: int) -> None:
    """Lock a wiki for the run of that unique name, or renew the lock; BotBusyError when another has it."""
    insert_missing(connection, edit_turns, [{"wiki_id": wiki_id, "holder": who, "until": 0}])
    if TAKE_TURN.run(connection, {"wiki": wiki_id, "who": who, "now": now, "end": now + length_s}):
        return
    holder, until = TURN.rows(connection, {"wiki": wiki_id})[0]
    raise BotBusyError(
        f"Another run ({holder}) edits this wiki: wait until it ends. If it was killed, its lease expires "
        f"in {max(until - now, 0)} s."
    )


def release_edit_lock(connection: Connection, wiki_id: int, who: str) -> None:
    """Release the lock of a wiki, unless another run holds it."""
    END_TURN.run(connection, {"wiki": wiki_id, "who": who})


def edits_by_id(reader: Reader, ids: Iterable[int]) -> dict[int, BotEdit]:
    """Return the existing edits with these numbers."""
    return {edit.id: edit for edit in _whole(reader, list(BY_ID.each(reader, "ids", dict.fromkeys(ids))))}


def called_dead(changes: Iterable[tuple[_Link, str]]) -> frozenset[_Link]:
    """Return the links that are tagged dead after these changes: (link, kind), the oldest first."""
    dead_links: set[_Link] = set()
    for link, kind in changes:
        if kind == REVIVED_KIND:
            dead_links.discard(link)
        elif kind in DEAD_KINDS:
            dead_links.add(link)
    return frozenset(dead_links)


def called_dead_by_us(reader: Reader, links: Iterable[LinkRef]) -> frozenset[LinkRef]:
    """Return those of the links that the bot's own edits, if still in place, tag as dead."""
    wanted = sorted(set(links))
    states = list(map(int, (EditState.INTENDED, *STANDING, *PARTLY)))
    changes: list[tuple[LinkRef, str]] = []
    for batch in batches(wanted):
        pages, ids = ({link[place] for link in batch} for place in (0, 1))
        parameters = {"pages": sorted(pages), "urls": sorted(ids), "states": states}
        rows = OF_LINKS.rows(reader, {**parameters, "kind": str(EditKind.PAGE)})
        changes += [(LinkRef(page, url_id), kind) for page, url_id, kind in rows]
    return called_dead(changes) & frozenset(wanted)


def edits_of_page(reader: Reader, wiki_id: int, page_id: int) -> list[BotEdit]:
    """Return all edits of the page, the oldest first."""
    return _whole(reader, OF_PAGE.rows(reader, {"wiki": wiki_id, "page": page_id}))


def edits_in(reader: Reader, wiki_id: int, states: Sequence[EditState], *, limit: int = MOST) -> list[BotEdit]:
    """Return edits in these states, the oldest first."""
    parameters = {"states": list(map(int, states)), "most": limit}
    return _whole(reader, IN_STATES.rows(reader, {"wiki": wiki_id, **parameters}))


def newest_edits(
    reader: Reader, wiki_id: int, states: Sequence[EditState] = tuple(EditState), *, limit: int, before: int = 1 << 62
) -> list[BotEdit]:
    """Return edits in these states with numbers below `before`, the newest first."""
    parameters = {"states": list(map(int, states)), "most": limit, "before": before}
    return _whole(reader, NEWEST.rows(reader, {"wiki": wiki_id, **parameters}))


def edits_to_watch(
    reader: Reader, wiki_id: int, states: Sequence[EditState], *, since: int, before: int, limit: int
) -> list[BotEdit]:
    """Return edits made since `since` and last checked before `before`, the oldest first."""
    parameters = {"states": list(map(int, states)), "since": since, "before": before, "most": limit}
    return _whole(reader, TO_WATCH.rows(reader, {"wiki": wiki_id, **parameters}))


def last_made(reader: Reader, wiki_id: int) -> int:
    """Return when the bot last edited the wiki, or intended to; 0: never."""
    states = [int(each) for each in EditState if each is not EditState.NOTHING]
    return int(LAST_MADE.rows(reader, {"wiki": wiki_id, "states": states})[0][0] or 0)


def count_edits(reader: Reader, wiki_id: int, kind: EditKind) -> dict[EditState, int]:
    """Count the wiki's edits by state."""
    return {EditState(state): number for state, number in COUNTS.rows(reader, {"wiki": wiki_id, "kind": str(kind)})}


def held_links(reader: Reader, wiki_id: int, page_ids: Iterable[int]) -> dict[int, dict[int, int]]:
    """Return links that the bot must not touch, by page and link, with the edit that is the reason."""
    edits_by_page: dict[int, dict[int, int]] = {}
    states = list(map(int, HOLDING))
    numbers = {number_of(wiki_id, page_id) for page_id in page_ids}
    for page_id, url_id, edit_id in HELD.each(reader, "pages", numbers, states=states):
        edits_by_page.setdefault(page_id, {})[url_id] = edit_id
    return edits_by_page


def last_edits(reader: Reader, wiki_id: int, page_ids: Iterable[int]) -> dict[int, LastEdit]:
    """Return the last action on each of the pages."""
    edit_by_page: dict[int, LastEdit] = {}
    rows = LATELY.each(reader, "ids", dict.fromkeys(page_ids), wiki=wiki_id, kind=str(EditKind.PAGE))
    for page_id, state, base_rev, basis, moment in rows:
        edit_by_page[page_id] = LastEdit(EditState(state), base_rev, None if basis is None else bytes(basis), moment)
    return edit_by_page


def revived_links(reader: Reader, wiki_id: int, living: Sequence[int], *, after: int = 0) -> list[RevivedLink]:
    """Return links in one of the states `living` that the bot changed, by page, after page `after`."""
    parameters = {"states": list(map(int, STANDING)), "living": list(living)}
    rows = REVIVED.rows(reader, {"wiki": wiki_id, "after": after, "most": MOST, **parameters})
    return [RevivedLink(*row) for row in rows]


def _whole(reader: Reader, rows: Sequence[Any]) -> list[BotEdit]:
    changes: dict[int, list[EditChange]] = {}
    for number, *facts in CHANGES.each(reader, "ids", (row[0] for row in rows)):
        change = EditChange(*facts)
        changes.setdefault(number, []).append(replace(change, is_undone=bool(change.is_undone)))
    bot_edits = []
    for row in rows:
        facts = dict(zip(NAMES, row, strict=True))
        facts |= {"kind": EditKind(facts["kind"]), "state": EditState(facts["state"])}
        facts["is_reported"] = bool(facts["is_reported"])
        bot_edits.append(BotEdit(**facts, changes=tuple(changes.get(row[0], ()))))
    return bot_edits
