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

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from links.findings import Verdict


class Code(IntEnum):
    """The status byte, by the numbers that the registry keeps."""

    NONE = 0
    FINE = 1
    ON_REQUEST = 2
    CORRECTED = 7
    MOVED = 8  # 301
    FOUND = 9  # 302
    SEE_OTHER = 10  # 303
    USE_PROXY = 11  # 305
    SWITCH_PROXY = 12  # 306
    TEMPORARY = 13  # 307
    PERMANENT = 14  # 308
    BAD_REQUEST = 16
    NO_ACCESS = 17
    NOT_FOUND = 18
    NOT_ACCEPTABLE = 19
    STRANGE = 20
    GONE = 21
    BAD_TYPE = 22  # 415
    BAD_RANGE = 23  # 416
    LOCKED = 24  # 423
    NOT_EXTENDED = 25  # 510
    UNKNOWN = 26
    BAD_METHOD = 32  # 405
    REQUEST_TIMEOUT = 33  # 408
    TOO_LARGE = 34  # 413
    UPGRADE = 35  # 426
    TOO_MANY = 36  # 429
    HEADERS_TOO_LARGE = 37  # 431
    NOT_IMPLEMENTED = 38  # 501
    BAD_GATEWAY = 39  # 502, 504
    UNAVAILABLE = 40  # 503
    BAD_VERSION = 41  # 505
    STORAGE = 42  # 507
    BANDWIDTH = 43  # 509
    EDGE = 45  # 520-530
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
        statuses: the HTTP statuses that it stands for, for people; empty when it stands for none.
        verdict: what it says, unless a look knows better.
        outward: the HTTP status that others are told (W55); 0 when there is none to tell.
        words: a sentence for people, English, to be translated.
    """

    code: Code
    statuses: str
    verdict: Verdict
    outward: int
    words: str


TABLE: Mapping[Code, Entry] = {}


def of_http(status: int) -> Code:
    """The code of an HTTP status; any number has one."""
    raise NotImplementedError


def verdict_of(code: int) -> Verdict:
    """What the code says, unless a look knows better; of a number that nobody gave, UNDECIDED."""
    raise NotImplementedError


def outward(code: int) -> int:
    """The HTTP status that others are told for the code (W55); 0 when there is none to tell."""
    raise NotImplementedError


def words_of(code: int) -> str:
    """What the code means, a sentence for people: English, and a key of the translations."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer is, its status held against its body.

    Attributes:
        code: the status byte, `Code.CORRECTED` when the status cannot be true.
        verdict: what that says.
        note: why it was corrected, a constant first; empty when it was not.
    """

    code: Code
    verdict: Verdict
    note: str = ""


def read(status: int, mime: str, length: int | None, body: bytes) -> Reading:
    """What an answer to GET is: its status, unless the body gives that the lie (W53).

    Args:
        status: the HTTP status.
        mime: the bare media type that it declares; empty when it declares none.
        length: bytes of the whole body; None when nobody knows.
        body: how the body begins; empty when it was not read.
    """
    raise NotImplementedError
