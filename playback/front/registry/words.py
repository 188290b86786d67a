"""What is said of a link: its state, its time, its likely cause and its hints, in the reader's language.

Times are rough on purpose (W60): a day number stands for a day on which somebody looked, not for the
moment something happened.
"""

from typing import NamedTuple

from links.states import State
from playback.front.languages import noop, number, translate
from playback.front.languages import translate_count as ngettext
from playback.front.registry.answers import Group, Hint, Link, Note

_STATES = {
    State.UNKNOWN: noop("Not looked at yet"),
    State.ALIVE: noop("Works"),
    State.DYING: noop("Fails lately"),
    State.DEAD: noop("Dead"),
    State.BLOCKED: noop("Answers, but not to us"),
    State.USURPED: noop("Domain has another owner"),
    State.DEVIATED: noop("Shows something else"),
    State.PERMALIVE: noop("Declared working"),
    State.PERMADEAD: noop("Declared dead"),
    State.INVALID: noop("No valid address"),
    State.EXCLUDED: noop("Not looked at"),
}
_GROUPS = {
    Group.WORKING: noop("Working"),
    Group.UNREACHABLE: noop("Unreachable"),
    Group.DOUBTFUL: noop("Doubtful"),
    Group.UNKNOWN: noop("Unknown"),
}
_HINTS = {
    Hint.MOVED: noop("It has moved for good."),
    Hint.CERTIFICATE: noop("Its certificate does not verify; browsers warn of it."),
    Hint.RATE_LIMIT: noop("The site limits how often it is asked."),
    Hint.HTTPS_NEEDED: noop("The site wants https instead of http."),
    Hint.HTTP_NEEDED: noop("The site answers with http only."),
    Hint.DNS_ERROR: noop("The name of the site cannot be found at the moment."),
    Hint.SERVER_ERROR: noop("The whole site has been failing."),
    Hint.UNVERIFIABLE: noop("Programs are refused there; only a person can tell."),
    Hint.PRESUMED_REACHABLE: noop("Readers reach most of what is cited from this site."),
    Hint.BIDI: noop("It holds characters that turn the direction of writing."),
}
# By the names of the causes in `links.status`, or by their outward HTTP status.
_CAUSES = {
    400: noop(
        "The server does not understand the address. A character may be missing or too much."
    ),
    401: noop("The page wants a login."),
    402: noop("The page must be paid for."),
    403: noop("The server refuses access. It may refuse programs only, or whole countries."),
    404: noop("The server has no such page. It may have moved within the site, or been deleted."),
    405: noop("The server does not answer this kind of question."),
    406: noop("The server has the page in no form that was asked for."),
    407: noop("A proxy in between wants a login."),
    408: noop("The server gave up waiting."),
    410: noop("The server says that the page was removed for good."),
    414: noop("The address is longer than the server accepts."),
    429: noop("The server was asked too often. That says nothing about the page."),
    451: noop("The page is withheld for legal reasons."),
    500: noop("The server has a fault of its own, which may pass."),
    501: noop("The server does not answer this kind of question."),
    502: noop("A server behind the site does not answer, which may pass."),
    503: noop("The server is overloaded or under repair, which may pass."),
    504: noop("A server behind the site does not answer, which may pass."),
    507: noop("The server is out of space, which may pass."),
    509: noop("The site has used up its traffic, which may pass."),
}
_CODES = {
    64: noop("The site could not be reached over the network."),
    65: noop("The name of the site was not told, which may pass."),
    66: noop("The name of the site does not exist any more. The domain may have been given up."),
    67: noop("Nothing answers at the address of the site."),
    128: noop("No browser can follow this address. Look for a typing error."),
}
_BY_STATE = {
    State.USURPED: noop(
        "The domain is for sale, or somebody else uses it. Do not follow the link."
    ),
    State.DEVIATED: noop("The address works, but shows something else than it did."),
    State.BLOCKED: noop("The site answers, but refuses us: a login, a robot check or a block."),
    State.INVALID: noop("No browser can follow this address. Look for a typing error."),
}


def name_of(state: State) -> str:
    """The state in a word or two."""
    return translate(_STATES[state])


def group_name(group: Group) -> str:
    """What people filter by."""
    return translate(_GROUPS[group])


def cause_of(link: Link) -> str:
    """The typical reason for what was seen, in a sentence; empty when there is none to be told (W06)."""
    if link.spam:
        return translate("A spam list of the wiki names it, so it is not looked at.")
    if link.group in (Group.WORKING, Group.UNKNOWN):
        return ""
    text = _CODES.get(link.code) or _CAUSES.get(link.http or 0) or _BY_STATE.get(link.state, "")
    if link.state in (State.USURPED, State.DEVIATED, State.INVALID):
        text = _BY_STATE[link.state]
    return translate(text) if text else ""


def hint_of(note: Note) -> str:
    """A hint in a sentence."""
    return translate(_HINTS[note.hint])


def ago(day: int, today: int) -> str:
    """How long ago the day was, roughly: ``two weeks ago``, ``more than two years ago`` (W60)."""
    unit, count, is_more = _rough(today - day)
    if unit == "day" and count <= 1:
        return translate("yesterday") if count else translate("today")
    if is_more:
        return translate("more than %(time)s ago", time=_dative(unit, count))
    return translate("%(time)s ago", time=_dative(unit, count))


def lasting(day: int, today: int) -> str:
    """For how long it has been so since the day, roughly: ``for six months`` (W60)."""
    unit, count, is_more = _rough(today - day)
    if unit == "day" and count <= 1:
        return translate("since yesterday") if count else translate("since today")
    if is_more:
        return translate("for more than %(time)s", time=_dative(unit, count))
    return translate("for %(time)s", time=_dative(unit, count))


def standing_of(link: Link, today: int) -> str:
    """State and time in one: ``Dead for six months``."""
    if link.since_day is None or link.group is Group.UNKNOWN or link.state is State.INVALID:
        return name_of(link.state)
    time = lasting(link.since_day, today)
    return translate("%(state)s %(time)s", state=name_of(link.state), time=time)


class _Rough(NamedTuple):
    unit: str
    units: int
    is_more: bool = False


def _rough(days: int) -> _Rough:
    """The days in a unit that people would use.

    >>> [tuple(_rough(days)) for days in (1, 13, 14, 61, 183, 500, 800)]
    [('day', 1, False), ('day', 13, False), ('week', 2, False), ('month', 2, False), ('month', 6, False), ('year', 1, True), ('year', 2, True)]
    """
    days = max(days, 0)
    if days < 14:
        return _Rough("day", days)
    if days < 60:
        return _Rough("week", days // 7)
    if days < 365:
        return _Rough("month", min(round(days / 30.44), 11))
    return _Rough("year", days // 365, is_more=True)


def _dative(unit: str, count: int) -> str:
    """A stretch of time as it stands after “for” and before “ago”, numbers up to twelve in words."""
    said = spelled(count)
    if unit == "day":
        return ngettext("one day", "%(number)s days", count, number=said)
    if unit == "week":
        return ngettext("one week", "%(number)s weeks", count, number=said)
    if unit == "month":
        return ngettext("one month", "%(number)s months", count, number=said)
    return ngettext("one year", "%(number)s years", count, number=said)


_NUMBERS = (
    noop("two"), noop("three"), noop("four"), noop("five"), noop("six"), noop("seven"),
    noop("eight"), noop("nine"), noop("ten"), noop("eleven"), noop("twelve"),
)  # fmt: skip


def spelled(count: int) -> str:
    """A number as texts have it: small ones in words."""
    return translate(_NUMBERS[count - 2]) if 2 <= count <= 12 else number(count)
