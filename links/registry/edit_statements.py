"""SQL statements of the bot edit log."""

from sqlalchemy import Boolean, delete, false, func, or_, select, true, update

from links.registry.schema import edit_changes, edit_turns, edits, urls
from links.registry.statements import SqlStatement, many, one

NAMES = (
    *("id", "wiki_id", "page_id", "kind", "job", "moment", "base_rev", "rev", "digest", "state"),
    *("undone_rev", "undone_by", "note", "checked", "is_reported", "reviewed", "reviewed_by"),
)
MOVED = ("state", "rev", "note", "undone_rev", "undone_by", "checked", "reviewed", "reviewed_by")
_COLUMNS = tuple(edits.c[name] for name in NAMES)
_EDIT = select(*_COLUMNS)
_OF_WIKI = edits.c.wiki_id == one("wiki")
_IN_STATES = (_OF_WIKI, edits.c.state.in_(many("states")))
_IS = edits.c.id == one("of")
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
    select(
        *(edit_changes.c.edit_id, edit_changes.c.url_id, edit_changes.c.kind),
        *(edit_changes.c.before, edit_changes.c.after, edit_changes.c.is_undone),
    )
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
MOVE = SqlStatement(
    update(edits).where(_IS, edits.c.state == one("was")).values({name: one(f"new_{name}") for name in MOVED})
)
SET_CHECKED = SqlStatement(update(edits).where(edits.c.id.in_(many("ids"))).values(checked=one("seen_at")), "ids")
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
LOOK_AGAIN = SqlStatement(
    update(urls).where(urls.c.id.in_(many("ids")), urls.c.due_day > one("day_now")).values(due_day=one("day_now")),
    "ids",
)
TURN = SqlStatement(select(edit_turns.c.holder, edit_turns.c.until).where(edit_turns.c.wiki_id == one("wiki")))
TAKE_TURN = SqlStatement(
    update(edit_turns)
    .where(
        edit_turns.c.wiki_id == one("wiki"), or_(edit_turns.c.holder == one("who"), edit_turns.c.until <= one("now"))
    )
    .values(holder=one("who"), until=one("end"))
)
END_TURN = SqlStatement(
    delete(edit_turns).where(edit_turns.c.wiki_id == one("wiki"), edit_turns.c.holder == one("who"))
)
