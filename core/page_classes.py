"""Page classes, judgements with score and evidence, and their rank: which of several captures is offered first."""

from enum import StrEnum

DEFAULT_REPLAY_LEVEL = "images"


GONE_STATUSES = (404, 410)  # RFC 9110, 15.5.5 and 15.5.11
REFUSAL_STATUSES = (429, 503)  # RFC 6585, 4; RFC 9110, 15.6.4


class PageClass(StrEnum):
    """Class of a captured page."""

    UNJUDGED = ""  # there was no page, or another version captured it
    OK = "ok"
    NEAR_EMPTY = "near-empty"  # neither text nor visible content
    CONSENT_WALL = "consent-wall"  # a question about cookies in the place of the page
    LOGIN_WALL = "login-wall"  # shown to subscribers or members only
    SOFT_404 = "soft-404"  # an error page with a success status
    HTTP_ERROR = "http-error"  # a status of 400 or more
    PARKED = "parked"  # the domain's seller, its registrar or an empty server speaks
    CHALLENGE = "challenge"  # a check for robots, or a firewall's refusal


# A class that was not determined counts as good: an unexamined capture is not withheld.
GOOD = frozenset({PageClass.UNJUDGED, PageClass.OK})
# No copy of these is offered, unless it is requested explicitly.
WITHHELD = frozenset({PageClass.CHALLENGE})
# Captures of these show something else than the page: no archived copy of it (`is_usable`).
UNUSABLE = frozenset({PageClass.SOFT_404, PageClass.HTTP_ERROR, PageClass.PARKED, PageClass.CHALLENGE})
# Whose words are another's than the page's: the site may show the page again tomorrow.
NOT_THE_PAGE = frozenset(PageClass) - GOOD - {PageClass.HTTP_ERROR}
# Whose links lead nowhere that the page led to.
WITHOUT_OWN_LINKS = frozenset({PageClass.CHALLENGE, PageClass.PARKED})
# Where a seed that was redirected here did not arrive at its site.
WALLS = WITHOUT_OWN_LINKS | {PageClass.CONSENT_WALL, PageClass.LOGIN_WALL}

RANKS = {
    PageClass.UNJUDGED: 0,
    PageClass.OK: 0,
    PageClass.NEAR_EMPTY: 1,
    PageClass.CONSENT_WALL: 1,
    PageClass.LOGIN_WALL: 2,
    PageClass.SOFT_404: 3,
    PageClass.HTTP_ERROR: 3,
    PageClass.PARKED: 4,
    PageClass.CHALLENGE: 5,
}
WORST_RANK = max(RANKS.values())


def class_rank(page_class: str, status: int | None = None) -> int:
    """Return the rank of a capture, an unjudged one's by status: 0 is good, each greater number worse."""
    if page_class == PageClass.UNJUDGED and (status or 0) >= 400:
        return RANKS[PageClass.HTTP_ERROR]
    return RANKS[PageClass(page_class)] if page_class in RANKS else WORST_RANK


def is_usable(page_class: str, status: int | None, *, is_shown: bool) -> bool:
    """Return True when a capture is a copy of its page: of a class known as good, with a status, and `is_shown`."""
    is_page = page_class in RANKS and page_class not in UNUSABLE
    return is_shown and is_page and status is not None and status < 400


def parse_page_class(text: str) -> PageClass:
    """Return the class of that name; UNJUDGED when this version does not know it."""
    return PageClass(text) if text in RANKS else PageClass.UNJUDGED
