"""Messages about links in the reader's language: state, rounded duration, cause, hints (W60)."""

from core.urls import UrlFault
from links.archives.archive_urls import SERVICES
from links.check_history import date_of
from links.check_result import StatusCode
from links.feedback.reports import RequestState
from links.states import LinkState
from playback.web.i18n import day as day_words
from playback.web.i18n import noop, number, translate
from playback.web.i18n import translate_count as ngettext
from playback.web.registry.registry_values import Group, HintNote, LinkHint, LinkRecord

_STATES = {
    LinkState.UNKNOWN: noop("Not checked yet"),
    LinkState.ALIVE: noop("Working"),
    LinkState.DYING: noop("Failing"),
    LinkState.DEAD: noop("Dead"),
    LinkState.BLOCKED: noop("Checks blocked"),
    LinkState.USURPED: noop("New domain owner"),
    LinkState.DEVIATED: noop("Content changed"),
    LinkState.PERMALIVE: noop("Marked as working"),
    LinkState.PERMADEAD: noop("Marked as dead"),
    LinkState.INVALID: noop("Invalid address"),
    LinkState.EXCLUDED: noop("Excluded from checks"),
}
_GROUPS = {
    Group.WORKING: noop("Working"),
    Group.UNREACHABLE: noop("Unreachable"),
    Group.DOUBTFUL: noop("Doubtful"),
    Group.UNKNOWN: noop("Unknown"),
}
_HINTS = {
    LinkHint.MOVED: noop("The page has moved permanently."),
    LinkHint.CERTIFICATE: noop("Its certificate is invalid; browsers show a warning."),
    LinkHint.RATE_LIMIT: noop("The site limits the rate of requests."),
    LinkHint.HTTPS_NEEDED: noop("The site requires https."),
    LinkHint.HTTP_NEEDED: noop("The site supports http only."),
    LinkHint.DNS_ERROR: noop("The host name cannot be resolved at the moment."),
    LinkHint.SERVER_ERROR: noop("The whole site is failing."),
    LinkHint.UNVERIFIABLE: noop("The site blocks automated checks; please check the link yourself."),
    LinkHint.PRESUMED_REACHABLE: noop("Readers report that most cited pages of this site are reachable."),
    LinkHint.MISSING_TARGET: noop("The link leads to a wiki of the same farm that has no such page."),
    LinkHint.FTP: noop(
        "FTP links are not checked, and browsers no longer support them. An FTP client may find the file."
    ),
    LinkHint.BIDI: noop("The address contains characters that reverse the text direction."),
    LinkHint.HIDDEN: noop("The address contains invisible characters."),
    LinkHint.MIXED: noop("The host name mixes scripts; letters may look like others."),
}
_REQUESTS = {
    RequestState.QUEUED: noop("This page is not watched. It has been queued for reading; please try again later."),
    RequestState.DONE: noop(
        "This page is not watched. It was read on request; results come from other pages with the same links."
    ),
    RequestState.REFUSED: noop(
        "This page is not watched, and the queue of pages to read is full. Please try again tomorrow."
    ),
}
_SERVER_FAULT = noop("The server reported an internal error; this may be temporary.")
_NO_ANSWER_BEHIND = noop("A server behind the site does not respond; this may be temporary.")
_NOT_SO = noop("The server does not support this kind of request, so the state of the page is unknown.")
_NAME_FAULT = noop("The host name could not be resolved; this may be temporary.")
_TYPO = noop("The address is not valid and cannot be opened. Check it for typing errors.")
# The typical reason of a result, by the status byte (W06, W55).
_CAUSES = {
    StatusCode.ON_REQUEST: noop("The server responds, but refuses this kind of request."),
    StatusCode.MOVED: noop("It redirects permanently."),
    StatusCode.FOUND: noop("It redirects."),
    StatusCode.SEE_OTHER: noop("It redirects."),
    StatusCode.USE_PROXY: noop("The site requires a proxy server, which is not supported."),
    StatusCode.SWITCH_PROXY: noop("The site requires a proxy server, which is not supported."),
    StatusCode.TEMPORARY: noop("It redirects temporarily."),
    StatusCode.PERMANENT: noop("It redirects permanently."),
    StatusCode.BAD_REQUEST: noop(
        "The server rejects the address as malformed. A character may be missing or superfluous."
    ),
    StatusCode.NO_ACCESS: noop("The server denies access: it requires a login, or blocks bots or whole countries."),
    StatusCode.NOT_FOUND: noop("The server has no such page. It may have moved within the site, or been deleted."),
    StatusCode.NOT_ACCEPTABLE: noop("The server does not offer the page in an accepted format."),
    StatusCode.STRANGE: noop("The server sent an invalid response."),
    StatusCode.GONE: noop("The server reports that the page was removed permanently."),
    StatusCode.BAD_TYPE: _NOT_SO,
    StatusCode.BAD_RANGE: _NOT_SO,
    StatusCode.LOCKED: noop("The page is locked at the moment."),
    StatusCode.NOT_EXTENDED: _NOT_SO,
    StatusCode.UNKNOWN: noop("The server sent an invalid response."),
    StatusCode.BAD_METHOD: _NOT_SO,
    StatusCode.REQUEST_TIMEOUT: noop("The server reported a timeout."),
    StatusCode.TOO_LARGE: _NOT_SO,
    StatusCode.UPGRADE: _NOT_SO,
    StatusCode.TOO_MANY: noop("The server limits the number of requests. This is no evidence about the page."),
    StatusCode.HEADERS_TOO_LARGE: _NOT_SO,
    StatusCode.NOT_IMPLEMENTED: _NOT_SO,
    StatusCode.BAD_GATEWAY: _NO_ANSWER_BEHIND,
    StatusCode.UNAVAILABLE: noop("The server is overloaded or under maintenance; this may be temporary."),
    StatusCode.BAD_VERSION: _SERVER_FAULT,
    StatusCode.STORAGE: _SERVER_FAULT,
    StatusCode.BANDWIDTH: noop("The site has exceeded its traffic quota; this may be temporary."),
    StatusCode.EDGE: _NO_ANSWER_BEHIND,
    StatusCode.SERVER_ERROR: _SERVER_FAULT,
    StatusCode.NETWORK: noop("The site could not be reached over the network."),
    StatusCode.DNS_REFUSED: _NAME_FAULT,
    StatusCode.DNS_UNKNOWN: noop("The host name no longer exists. The domain may have expired."),
    StatusCode.NO_ROUTE: noop("The server at this address does not respond."),
    StatusCode.REFUSED: noop("The server refuses connections. It may be switched off."),
    StatusCode.BROKEN_OFF: noop("The server closed the connection."),
    StatusCode.TIMEOUT: noop("The server did not respond in time."),
    StatusCode.TLS: noop("A secure connection to the server could not be established."),
    StatusCode.CERTIFICATE: noop(
        "The site’s certificate is invalid; browsers show a warning."  # noqa: RUF001
    ),
    StatusCode.NO_HTTP: noop("The server at this address is not a web server."),
    StatusCode.REDIRECTS: noop("It redirects in a loop."),
    StatusCode.DNS_EMPTY: noop("The host name has no IP address."),
    StatusCode.DNS_FAULT: _NAME_FAULT,
    StatusCode.SOFT_404: noop("The page states that it does not exist (soft 404)."),
    StatusCode.CHALLENGE: noop("The site shows a bot check. Readers may be able to open the page."),
    StatusCode.LOGIN: noop("It redirects to a login page."),
    StatusCode.PARKED: noop("The domain is for sale or has a new owner. Do not follow the link."),
    StatusCode.OTHER_CONTENT: noop("The address works, but its content has changed substantially."),
    StatusCode.TO_THE_ROOT: noop(
        "It redirects to the site’s home page; the page itself may be gone."  # noqa: RUF001
    ),
    StatusCode.NOT_RENDERED: noop("A browser shows an empty page."),
    StatusCode.INVALID: _TYPO,
}
_BY_STATE = {
    LinkState.USURPED: noop("The domain is for sale or has a new owner. Do not follow the link."),
    LinkState.DEVIATED: noop("The address works, but its content has changed substantially."),
    LinkState.BLOCKED: noop("The site responds, but does not let checks through (login, bot check or block)."),
}

# Reasons why a text is not a URL that can be checked (W48).
FAULTS = {
    UrlFault.EMPTY: noop("The address is empty."),
    UrlFault.TOO_LONG: noop("The address is too long."),
    UrlFault.INVISIBLE: noop("The address contains invisible characters."),
    UrlFault.SCHEME: noop("Only http and https addresses are supported."),
    UrlFault.NO_HOST: noop("The address has no host name."),
    UrlFault.DOUBLED_SCHEME: noop("The address begins with http:// twice."),
    UrlFault.SINGLE_LABEL: noop("The host name contains no dot."),
    UrlFault.TLD: noop("The host name ends in a single letter."),
    UrlFault.LABEL: noop("The host name is not valid."),
    UrlFault.PORT: noop("The port is not a number from 1 to 65535."),
    UrlFault.UNPARSABLE: noop("The address cannot be parsed."),
}


def request_words(state: RequestState | None) -> str:
    """Return the state of a request to read an unobserved page; empty for an observed one."""
    return translate(_REQUESTS[state]) if state is not None else ""


def state_name(state: LinkState) -> str:
    """Return the name of the state in a word or two."""
    return translate(_STATES[state])


def group_name(group: Group) -> str:
    """Return the name of a filter group."""
    return translate(_GROUPS[group])


def cause_of(link: LinkRecord) -> str:
    """Return the typical cause of a finding in a sentence; empty when there is none to report (W06)."""
    if link.spam:
        return translate("The address is on a spam list of the wiki and is not checked.")
    if link.state is LinkState.INVALID:
        fault = FAULTS.get(link.evidence, "")  # type: ignore[call-overload]
        return " ".join(filter(None, (translate(_TYPO), fault and translate(fault))))
    if link.group in (Group.WORKING, Group.UNKNOWN):
        return ""
    if link.state in (LinkState.USURPED, LinkState.DEVIATED):
        return translate(_BY_STATE[link.state])
    text = _CAUSES.get(link.code) or _BY_STATE.get(link.state, "")  # type: ignore[call-overload]
    return translate(text) if text else ""


def service_name(service: str) -> str:
    """Return the name of an archive."""
    return SERVICES[service].title if service in SERVICES else service


def hint_of(note: HintNote) -> str:
    """Return a hint as a sentence."""
    return translate(_HINTS[note.hint])


_AGO = (
    noop("today"), noop("yesterday"), noop("more than %(time)s ago"), noop("%(time)s ago"),
)  # fmt: skip
_FOR = (
    noop("since today"), noop("since yesterday"), noop("for more than %(time)s"), noop("for %(time)s"),
)  # fmt: skip


def ago(day: int, today: int) -> str:
    """Format the time since a day, rounded: ``two weeks ago``, ``more than two years ago`` (W60)."""
    return _rounded(_AGO, today - day)


def for_duration(day: int, today: int) -> str:
    """Format the duration since a day, rounded: ``for six months`` (W60)."""
    return _rounded(_FOR, today - day)


def _rounded(texts: tuple[str, str, str, str], days: int) -> str:
    unit, count, is_more = rough_duration(days)
    if unit == "day" and count <= 1:
        return translate(texts[count])
    # As used after “for” and before “ago”, with numbers up to twelve in words.
    spelled = translate(_NUMBERS[count - 2]) if 2 <= count <= 12 else number(count)
    if unit == "day":
        time = ngettext("one day", "%(number)s days", count, number=spelled)
    elif unit == "week":
        time = ngettext("one week", "%(number)s weeks", count, number=spelled)
    elif unit == "month":
        time = ngettext("one month", "%(number)s months", count, number=spelled)
    else:
        time = ngettext("one year", "%(number)s years", count, number=spelled)
    return translate(texts[2 if is_more else 3], time=time)


def standing_of(link: LinkRecord) -> str:
    """Format the state and its first day: ``Dead since 21 May 2026``."""
    if link.since_day is None or link.group is Group.UNKNOWN or link.state is LinkState.INVALID:
        return state_name(link.state)
    since = day_words(date_of(link.since_day))
    return translate("%(state)s since %(day)s", state=state_name(link.state), day=since)


def rough_duration(days: int) -> tuple[str, int, bool]:
    """Round a number of days to a suitable unit; the last value is True when it is somewhat longer.

    >>> [rough_duration(days) for days in (1, 13, 14, 61, 183, 500, 800)]
    [('day', 1, False), ('day', 13, False), ('week', 2, False), ('month', 2, False), ('month', 6, False), ('year', 1, True), ('year', 2, True)]
    """
    days = max(days, 0)
    if days < 14:
        return "day", days, False
    if days < 60:
        return "week", days // 7, False
    if days < 365:
        return "month", min(round(days / 30.44), 11), False
    return "year", days // 365, True


_NUMBERS = (
    noop("two"), noop("three"), noop("four"), noop("five"), noop("six"), noop("seven"),
    noop("eight"), noop("nine"), noop("ten"), noop("eleven"), noop("twelve"),
)  # fmt: skip
