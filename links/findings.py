"""What one look at a URL found: the words that checker, browser, rules and registry share."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Verdict(StrEnum):
    """What a single look says of the URL. Never a state: a state is a history's (`links.states`)."""

    OK = "ok"  # the page, or another good answer
    GONE = "gone"  # 404, 410, a name that does not exist, a page that says that there is none
    FAILING = "failing"  # no answer, or an error that may pass: 5xx, time-outs, broken TLS
    REFUSED = "refused"  # it answered, but refused us: 401, 403, 407, 451, a challenge, a login
    UNDECIDED = "undecided"  # nothing can be said now: 429, 503 with Retry-After, a fault of ours
    SUSPECT = "suspect"  # it looks well, but may be no page: led to the site's root, a soft 404
    DEVIATED = "deviated"  # a page, but with another content than the copy's
    USURPED = "usurped"  # the domain is somebody else's: parked, for sale, gambling
    INVALID = "invalid"  # no URL that can be asked


class How(IntEnum):
    """How it was looked at, by the numbers that the registry keeps."""

    HEAD = 1
    GET = 2  # with the headers of a browser
    BROWSER = 3  # rendered
    INFERRED = 4  # from another URL of the host in the same pass: nothing was asked (W46)
    PERSON = 5  # somebody said so


@dataclass(frozen=True, slots=True)
class Hop:
    """A redirect on the way: its status, and where it leads."""

    status: int
    url: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found.

    Attributes:
        code: the status byte (`links.status`).
        verdict: what that says.
        how: how it was looked at.
        http: the HTTP status of the last answer; None when none came.
        final_url: where redirects led; empty when there were none.
        hops: the redirects on the way, oldest first.
        note: the evidence in a few words, a constant first, e.g. ``dns: NXDOMAIN``.
        mime: the bare media type; empty when none was told.
        length: bytes of the body; None when it was not told.
        tls_fault: why the certificate does not verify; empty when it does, or there is none.
        retry_after_s: how long the host asked to be left alone; None when it did not.
        whole_host: it holds for all URLs of the host: its name does not resolve, nobody listens.
        head_fails: HEAD was answered otherwise than GET: this host needs GET (W42).
        similarity: how much of the copy's text is still there, in percent; None when nobody compared.
        seconds: how long it took.
    """

    code: int
    verdict: Verdict
    how: How
    http: int | None = None
    final_url: str = ""
    hops: tuple[Hop, ...] = ()
    note: str = ""
    mime: str = ""
    length: int | None = None
    tls_fault: str = ""
    retry_after_s: float | None = None
    whole_host: bool = False
    head_fails: bool = False
    similarity: int | None = None
    seconds: float = 0.0
