"""The status byte: what a look found, as the registry keeps it (W58), and what is told of it (W55).

`TABLE` is the table; docs/link-states.md shows it. It is W58's, with its defects settled (W59):

- 431 is 37 alone; 308 is 14 beside the other redirects, and 307 is called what it is, temporary.
- 507 is 42, "insufficient storage"; loops (508) and 506 stand with the servers' other errors, 46.
- 421 is 20. 511 is 77, since it comes from a gate of our own network. 520-530, which no RFC has, are the
  edge servers' (45); 599 and its like are gateways' (39).
- 68 to 76 tell apart what 64 to 67 lumped together: refused and broken connections, time-outs, TLS.
- 80 to 86 are what a page says of itself; they never come from a status alone.

A number is never given another meaning: the registry is full of them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from links.findings import Verdict


class Code(IntEnum):
    """The status byte, by the numbers that the registry keeps; `TABLE` says what each means."""

    NONE = 0
    FINE = 1
    ON_REQUEST = 2
    CORRECTED = 7
    MOVED = 8
    FOUND = 9
    SEE_OTHER = 10
    USE_PROXY = 11
    SWITCH_PROXY = 12
    TEMPORARY = 13
    PERMANENT = 14
    BAD_REQUEST = 16
    NO_ACCESS = 17
    NOT_FOUND = 18
    NOT_ACCEPTABLE = 19
    STRANGE = 20
    GONE = 21
    BAD_TYPE = 22
    BAD_RANGE = 23
    LOCKED = 24
    NOT_EXTENDED = 25
    UNKNOWN = 26
    BAD_METHOD = 32
    REQUEST_TIMEOUT = 33
    TOO_LARGE = 34
    UPGRADE = 35
    TOO_MANY = 36
    HEADERS_TOO_LARGE = 37
    NOT_IMPLEMENTED = 38
    BAD_GATEWAY = 39
    UNAVAILABLE = 40
    BAD_VERSION = 41
    STORAGE = 42
    BANDWIDTH = 43
    EDGE = 45
    SERVER_ERROR = 46
    OTHER_SCHEME = 63
    NETWORK = 64
    DNS_REFUSED = 65
    DNS_UNKNOWN = 66
    NO_ROUTE = 67
    REFUSED = 68
    BROKEN_OFF = 69
    TIMEOUT = 70
    TLS = 71
    CERTIFICATE = 72
    NO_HTTP = 73
    REDIRECTS = 74
    DNS_EMPTY = 75
    DNS_FAULT = 76
    OUR_NETWORK = 77
    NOT_ALLOWED = 78
    SOFT_404 = 80
    CHALLENGE = 81
    LOGIN = 82
    PARKED = 83
    OTHER_CONTENT = 84
    TO_THE_ROOT = 85
    NOT_RENDERED = 86
    INVALID = 128


# Answers that are to be looked at again by other means whenever they come (W53).
REEXAMINED = frozenset({Code.NOT_ACCEPTABLE, Code.STRANGE})


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the table.

    Attributes:
        code: the byte.
        statuses: the HTTP statuses that it stands for; empty when it comes from none.
        verdict: what it says, unless a look knows better.
        outward: the HTTP status that others are told (W55); 0 when there is none to tell.
        words: a sentence for people, English, and a key of the translations.
    """

    code: Code
    statuses: str
    verdict: Verdict
    outward: int
    words: str


# (code, HTTP statuses: numbers, ranges, or a whole class for what no other line names, verdict,
# outward, words). Why a verdict is what it is:
# - What answered, but not to us, is REFUSED, and can never make a link dead: 403 and its like, 405, 406,
#   426 and every 4xx that means nothing for a plain GET, since firewalls choose among these.
# - 400, 408, 413-416, 422 and 431 are FAILING: the request was plain, so the server is out of order.
# - 429 and 509 say that too much was asked, of whomever: UNDECIDED.
_LINES: tuple[tuple[Code, str, Verdict, int, str], ...] = (
    (Code.NONE, "", Verdict.UNDECIDED, 0, "It was never looked at."),
    (Code.FINE, "200 304", Verdict.OK, 200, "It works."),
    (Code.ON_REQUEST, "201-299 300", Verdict.OK, 200, "It works; the content comes on request."),
    (Code.CORRECTED, "", Verdict.OK, 200, "It works, although the server reports an error."),
    (Code.MOVED, "301", Verdict.OK, 301, "It works at another address, for good."),
    (Code.FOUND, "302", Verdict.OK, 302, "It works at another address, for now."),
    (Code.SEE_OTHER, "303", Verdict.OK, 303, "Another page is shown in its place."),
    (Code.USE_PROXY, "305", Verdict.FAILING, 305, "It is to be asked for through a proxy."),
    (
        Code.SWITCH_PROXY,
        "306",
        Verdict.FAILING,
        306,
        "The server answers with a status that is no longer in use.",
    ),
    (Code.TEMPORARY, "307", Verdict.OK, 307, "It works at another address, for now."),
    (Code.PERMANENT, "308", Verdict.OK, 308, "It works at another address, for good."),
    (
        Code.BAD_REQUEST,
        "400 414 422 500",
        Verdict.FAILING,
        500,
        "The server could not handle the request.",
    ),
    (
        Code.NO_ACCESS,
        "401 402 403 407 451 999",
        Verdict.REFUSED,
        403,
        "The public has no access, or our checker has none.",
    ),
    (Code.NOT_FOUND, "404", Verdict.GONE, 404, "There is no such page."),
    (
        Code.NOT_ACCEPTABLE,
        "406",
        Verdict.REFUSED,
        406,
        "The server does not want to answer our checker.",
    ),
    (
        Code.STRANGE,
        "409 411 412 417-421 424 425 428 444 449 4xx",
        Verdict.REFUSED,
        400,
        "The server gave a strange answer.",
    ),
    (Code.GONE, "410", Verdict.GONE, 410, "The page was removed for good."),
    (Code.BAD_TYPE, "415", Verdict.FAILING, 415, "The server refuses the type of the request."),
    (
        Code.BAD_RANGE,
        "416",
        Verdict.FAILING,
        416,
        "The server cannot deliver the part that was asked for.",
    ),
    (Code.LOCKED, "423", Verdict.REFUSED, 423, "The page is locked."),
    (
        Code.NOT_EXTENDED,
        "510",
        Verdict.FAILING,
        510,
        "The server asks for an extension that is unknown.",
    ),
    (Code.UNKNOWN, "", Verdict.FAILING, 502, "The server gave a status that does not exist."),
    (Code.BAD_METHOD, "405", Verdict.REFUSED, 405, "The server forbids this way of asking."),
    (
        Code.REQUEST_TIMEOUT,
        "408",
        Verdict.FAILING,
        408,
        "The server gave up waiting for the request.",
    ),
    (Code.TOO_LARGE, "413", Verdict.FAILING, 413, "The server found the request too large."),
    (Code.UPGRADE, "426", Verdict.REFUSED, 426, "The server asks for another protocol."),
    (
        Code.TOO_MANY,
        "429",
        Verdict.UNDECIDED,
        429,
        "The server was asked too often; nothing can be said now.",
    ),
    (
        Code.HEADERS_TOO_LARGE,
        "431",
        Verdict.FAILING,
        431,
        "The server found the headers of the request too large.",
    ),
    (
        Code.NOT_IMPLEMENTED,
        "501",
        Verdict.FAILING,
        501,
        "The server does not know this way of asking.",
    ),
    (
        Code.BAD_GATEWAY,
        "502 504 598 599",
        Verdict.FAILING,
        502,
        "The server behind the gateway does not answer.",
    ),
    (
        Code.UNAVAILABLE,
        "503",
        Verdict.FAILING,
        503,
        "The server is overloaded, or being maintained.",
    ),
    (
        Code.BAD_VERSION,
        "505",
        Verdict.FAILING,
        505,
        "The server does not know this version of HTTP.",
    ),
    (Code.STORAGE, "507", Verdict.FAILING, 507, "The server has no storage left."),
    (
        Code.BANDWIDTH,
        "509",
        Verdict.UNDECIDED,
        509,
        "The server has used up its traffic; nothing can be said now.",
    ),
    (
        Code.EDGE,
        "520-530",
        Verdict.FAILING,
        502,
        "The network that delivers the site cannot reach its server.",
    ),
    (
        Code.SERVER_ERROR,
        "506 508 5xx",
        Verdict.FAILING,
        500,
        "The server reports an error of its own.",
    ),
    (Code.OTHER_SCHEME, "", Verdict.OK, 200, "It works when http and https are exchanged."),
    (Code.NETWORK, "", Verdict.FAILING, 502, "The network failed on the way."),
    (
        Code.DNS_REFUSED,
        "",
        Verdict.FAILING,
        502,
        "The name servers refuse to say where the host is.",
    ),
    (Code.DNS_UNKNOWN, "", Verdict.GONE, 502, "There is no host of that name."),
    (Code.NO_ROUTE, "", Verdict.FAILING, 504, "The host cannot be reached."),
    (Code.REFUSED, "", Verdict.FAILING, 502, "The host does not take the connection."),
    (Code.BROKEN_OFF, "", Verdict.FAILING, 502, "The host broke the connection off."),
    (Code.TIMEOUT, "", Verdict.FAILING, 504, "The host did not answer in time."),
    (Code.TLS, "", Verdict.FAILING, 502, "No secure connection came about."),
    (Code.CERTIFICATE, "", Verdict.OK, 200, "It works, but its certificate is not valid."),
    (Code.NO_HTTP, "", Verdict.FAILING, 502, "The answer was not HTTP."),
    (
        Code.REDIRECTS,
        "",
        Verdict.FAILING,
        502,
        "It leads from one address to the next without end, or nowhere.",
    ),
    (Code.DNS_EMPTY, "", Verdict.FAILING, 502, "The host's name has no address."),
    (
        Code.DNS_FAULT,
        "",
        Verdict.FAILING,
        504,
        "The name servers do not answer, or report an error.",
    ),
    (
        Code.OUR_NETWORK,
        "511",
        Verdict.UNDECIDED,
        0,
        "Our own network was in the way; nothing can be said now.",
    ),
    (Code.NOT_ALLOWED, "", Verdict.UNDECIDED, 0, "Our own rules forbid asking that address."),
    (Code.SOFT_404, "", Verdict.SUSPECT, 404, "The page says that there is no such page."),
    (Code.CHALLENGE, "", Verdict.REFUSED, 403, "The site lets no automatic checker in."),
    (Code.LOGIN, "", Verdict.REFUSED, 401, "The site asks for a login or an agreement first."),
    (
        Code.PARKED,
        "",
        Verdict.USURPED,
        410,
        "The domain belongs to somebody else now, or is for sale.",
    ),
    (Code.OTHER_CONTENT, "", Verdict.DEVIATED, 200, "It shows something else than it did."),
    (
        Code.TO_THE_ROOT,
        "",
        Verdict.SUSPECT,
        302,
        "It leads to the site's first page; the page itself may be gone.",
    ),
    (Code.NOT_RENDERED, "", Verdict.FAILING, 502, "A browser could not load the page."),
    (Code.INVALID, "", Verdict.INVALID, 400, "This is not an address that can be asked for."),
)
TABLE: Mapping[Code, Entry] = {line[0]: Entry(*line) for line in _LINES}


def _statuses() -> Mapping[int, Code]:
    """The code of each HTTP status that a line names; what names a class comes first, and yields."""
    found: dict[int, Code] = {}
    pieces = [(piece, entry.code) for entry in TABLE.values() for piece in entry.statuses.split()]
    for piece, code in sorted(pieces, key=lambda each: not each[0].endswith("xx")):
        first, _, last = piece.replace("xx", "00").partition("-")
        end = int(first) + 99 if piece.endswith("xx") else int(last or first)
        for status in range(int(first), end + 1):
            found[status] = code
    return found


_OF_HTTP = _statuses()


def of_http(status: int) -> Code:
    """The code of an HTTP status; any number has one, `Code.UNKNOWN` at the worst.

    >>> of_http(404), of_http(308), of_http(451), of_http(0)
    (<Code.NOT_FOUND: 18>, <Code.PERMANENT: 14>, <Code.NO_ACCESS: 17>, <Code.UNKNOWN: 26>)
    """
    return _OF_HTTP.get(status, Code.UNKNOWN)


def verdict_of(code: int) -> Verdict:
    """What the code says, unless a look knows better; of a number that nobody gave, UNDECIDED."""
    entry = _entry(code)
    return entry.verdict if entry else Verdict.UNDECIDED


def outward(code: int) -> int:
    """The HTTP status that others are told for the code (W55); 0 when there is none to tell.

    Where no server answered it is a gateway's: 502, or 504 when nobody answered in time.
    """
    entry = _entry(code)
    return entry.outward if entry else 0


def answered(code: int, evidence: str = "") -> int | None:
    """Return the HTTP status that the server gave; None when none answered, or nobody noted which.

    Args:
        code: the status byte.
        evidence: what was noted of that look, such as ``http: 404``.

    >>> [answered(code) for code in (Code.NOT_FOUND, Code.DNS_UNKNOWN, Code.BAD_REQUEST)]
    [404, None, None]
    >>> answered(Code.BAD_REQUEST, "http: 422")
    422
    """
    noted = re.match(r"http: ([1-5][0-9]{2})\b", evidence)
    if noted:
        return int(noted[1])
    entry = _entry(code)
    if entry is None:
        return None
    first, *others = entry.statuses.split() or [""]
    is_one = first.isdigit() and (not others or entry.code is Code.FINE)
    return int(first) if is_one else None


def reason_of(code: int) -> str:
    """Return the code's name for programs: ``dns-unknown``; empty for an unknown one."""
    return Code(code).name.lower().replace("_", "-") if code in _NUMBERS else ""


def words_of(code: int) -> str:
    """What the code means, a sentence for people: English, and a key of the translations."""
    entry = _entry(code)
    return entry.words if entry else "Nothing is known of it."


def _entry(code: int) -> Entry | None:
    return TABLE[Code(code)] if code in _NUMBERS else None


_NUMBERS = frozenset(map(int, Code))
