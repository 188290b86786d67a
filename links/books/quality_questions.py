"""The questions that the book of checks asks (`links.books.quality`).

A list begins with one column, then the verdict, and is in the order of the score: each of `WORST` has an
index that is in this order, so that a page of it costs the same wherever it stands. What else is wanted
of a row is looked at as it comes. Counting needs no rows: an index has all that is asked for, and of a
host there are few. The conditions of the faults stand in the text, or no index of the rows that have
the fault could be used.
"""

from functools import cache
from typing import Any

from sqlalchemy import (
    Double,
    Integer,
    Select,
    SmallInteger,
    Text,
    case,
    delete,
    false,
    func,
    literal_column,
    or_,
    select,
    text,
    tuple_,
    update,
)

from core.quality import Fault
from links.store.schema import has_fault, quality
from links.store.statements import Statement, many, one

_OPEN = text("repair IN (1, 2)")
_ROW = select(*quality.c)
_IS_BEHIND = tuple_(one("page", Text()), one("level", Text())) < tuple_(
    quality.c.page_id, quality.c.level
)
_PLACE = (quality.c.score, quality.c.page_id, quality.c.level)


def _if_given(name: str, column: Any) -> Any:
    """The condition that the column has the value, when one is given."""
    return or_(one(name, Text()).is_(None), column == one(name, Text()))


_IS_BELOW = quality.c.score < one("below", Double())
# The plus keeps SQLite from the index by the score, which lacks what else is asked for.
_COUNTED_BELOW = literal_column("+link_quality.score", Double()) < one("below", Double())
_REST = (
    _if_given("page_class", quality.c.page_class),
    _if_given("level", quality.c.level),
    quality.c.faults.bitwise_and(one("faults", Integer())) == one("faults", Integer()),
    or_(one("with_reviewed", Integer()) == 1, quality.c.review.is_(None)),
)
# What may be asked for where rows are counted.
COUNTED = {
    "host": quality.c.host == one("host"),
    "page_class": quality.c.page_class == one("page_class"),
    "level": quality.c.level == one("level"),
    "faults": quality.c.faults.bitwise_and(one("faults", Integer())) == one("faults", Integer()),
    "below": _COUNTED_BELOW,
    "unreviewed": quality.c.review.is_(None),
}
# By what a list begins with; the first of these that is asked for is the one that is used.
_LEADS = {
    "host": (quality.c.host == one("host"),),
    **{str(fault): (text(has_fault(fault)),) for fault in Fault},
    "page_class": (quality.c.page_class == one("page_class"),),
    "level": (quality.c.level == one("level"),),
    "": (),
}


def _worst(*lead: Any) -> Statement:
    """A page of the rows with one verdict, from behind a place."""
    behind = tuple_(*_PLACE) > tuple_(
        one("after_score", Double()), one("after_page", Text()), one("after_level", Text())
    )
    listed = _ROW.where(*lead, quality.c.standing == one("standing"), behind, _IS_BELOW, *_REST)
    return Statement(listed.order_by(*_PLACE).limit(one("most")))


def _ahead(*lead: Any) -> Statement:
    """A page of the rows with one verdict that stand before a place, the nearest first."""
    before = tuple_(*_PLACE) < tuple_(
        one("before_score", Double()), one("before_page", Text()), one("before_level", Text())
    )
    listed = _ROW.where(*lead, quality.c.standing == one("standing"), before, _IS_BELOW, *_REST)
    nearest = (column.desc() for column in _PLACE)
    return Statement(listed.order_by(*nearest).limit(one("most")))


@cache
def counting(*asked: str) -> Statement:
    """How many rows with one verdict; no more than the limit are counted.

    Only what is asked for stands in it: over a million rows conditions that say nothing take longest.

    Args:
        asked: names of values, in the order of `COUNTED`.
    """
    is_of = (COUNTED[name] for name in asked)
    some: Select[Any] = select(literal_column("1")).where(
        quality.c.standing == one("standing"), *is_of
    )
    return Statement(select(func.count()).select_from(some.limit(one("most")).subquery()))


WORST = {lead: _worst(*conditions) for lead, conditions in _LEADS.items()}
AHEAD = {lead: _ahead(*conditions) for lead, conditions in _LEADS.items()}
OF_PAGES = Statement(
    _ROW.where(quality.c.page_id.in_(many("ids"))).order_by(quality.c.page_id, quality.c.level),
    "ids",
)
OF_URLS = Statement(
    _ROW.where(quality.c.url_key.in_(many("keys"))).order_by(
        quality.c.captured_ms.desc(), quality.c.page_id, quality.c.level
    ),
    "keys",
)
BY_ENGINE = Statement(
    select(quality.c.page_id).where(
        quality.c.page_id.in_(many("ids")),
        quality.c.level == one("level"),
        quality.c.engine == one("engine"),
    ),
    "ids",
)
UNRECORDED = Statement(
    _ROW.where(~quality.c.is_recorded, _IS_BEHIND)
    .order_by(quality.c.page_id, quality.c.level)
    .limit(one("most"))
)
_SOME_UNRECORDED: Select[Any] = (
    select(literal_column("1")).where(~quality.c.is_recorded, _IS_BEHIND).limit(one("most"))
)
COUNT_UNRECORDED = Statement(select(func.count()).select_from(_SOME_UNRECORDED.subquery()))
CHECKED_SINCE = Statement(
    select(quality.c.verdict, func.count())
    .where(quality.c.checked_ms >= one("since"))
    .group_by(quality.c.verdict)
)
# A page that is broken at several levels has a row of each.
REPAIRS_SINCE = Statement(
    select(func.count(quality.c.page_id.distinct())).where(
        text("repair <> 0"), quality.c.repair == one("is_now"), quality.c.repair_ms >= one("since")
    )
)
RECORDED = Statement(
    update(quality)
    .where(
        quality.c.page_id == one("of"),
        quality.c.level == one("at"),
        quality.c.changed_ms == one("as_of"),
    )
    .values(is_recorded=True)
)
FORGET = Statement(delete(quality).where(quality.c.page_id.in_(many("ids"))), "ids")
# What is said anew is never earlier than what was said before: of two records the newer counts.
_CHANGED = case(
    (quality.c.changed_ms >= one("now_ms"), quality.c.changed_ms + literal_column("1")),
    else_=one("now_ms"),
)
_SAID = {"changed_ms": _CHANGED, "is_recorded": False}
REVIEW = Statement(
    update(quality)
    .where(quality.c.page_id == one("of"), quality.c.level == one("at"))
    .values(
        review=one("word"),
        standing=func.coalesce(one("word", SmallInteger()), quality.c.verdict),
        reviewed_by=one("who"),
        reviewed_ms=one("now_ms"),
        note=one("why"),
        **_SAID,
    )
)
# A capture that was made to repair another is not repaired in its turn.
_repairs = quality.alias("repairs")
_IS_REPAIR = (
    select(_repairs.c.page_id)
    .where(_repairs.c.repair_page_id == quality.c.page_id, text("repairs.repair_page_id <> ''"))
    .limit(literal_column("1"))
    .scalar_subquery()
)
WANT_REPAIRS = Statement(
    update(quality)
    .where(
        quality.c.page_id.in_(many("ids")),
        quality.c.standing == one("broken"),
        quality.c.repair == one("was"),
        _IS_REPAIR.is_(None),
    )
    .values(repair=one("becomes"), repair_ms=one("now_ms")),
    "ids",
)
WANT_NO_REPAIRS = Statement(
    update(quality)
    .where(
        quality.c.page_id.in_(many("ids")),
        quality.c.standing != one("broken"),
        quality.c.repair == one("was"),
    )
    .values(repair=one("becomes"), repair_ms=one("now_ms")),
    "ids",
)
WANT_REPAIR = Statement(
    update(quality)
    .where(quality.c.page_id == one("of"), quality.c.level == one("at"))
    .values(repair=one("becomes"), repair_ms=one("now_ms"), repair_page_id="")
)
IN_REPAIR = Statement(
    _ROW.where(_OPEN, quality.c.repair == one("is_now"))
    .order_by(quality.c.repair_ms, quality.c.page_id)
    .limit(one("most"))
)
BEGIN_REPAIR = Statement(
    update(quality)
    .where(quality.c.page_id == one("of"), quality.c.repair == one("was"))
    .values(repair=one("becomes"), repair_ms=one("now_ms"), repair_page_id=one("new_page"))
)
_NEW_PAGE = case(
    (one("new_page", Text()) != "", one("new_page", Text())), else_=quality.c.repair_page_id
)
_IS_BETTER = one("is_better", Integer()) == 1
END_REPAIR = Statement(
    update(quality)
    .where(quality.c.page_id == one("of"), _OPEN)
    .values(
        repair=one("becomes"),
        repair_ms=one("now_ms"),
        repair_page_id=_NEW_PAGE,
        better=case((_IS_BETTER, _NEW_PAGE), else_=quality.c.better),
        changed_ms=case((_IS_BETTER, _CHANGED), else_=quality.c.changed_ms),
        is_recorded=case((_IS_BETTER, false()), else_=quality.c.is_recorded),
    )
)
