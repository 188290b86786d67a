"""Why no answer came: the reasons, what each says of the link, and whose fault it is.

The value of a `Trouble` is the constant that a finding's note begins with. `SAYS` holds for every
trouble what a single look with it is worth. Two kinds are never held against a link: what is our own
doing (`UNDECIDED`: an address that we refuse, a machine without a network), and what no browser could
ask for either (`INVALID`).
"""

import errno
from dataclasses import dataclass
from enum import StrEnum

from links.findings import Verdict
from links.status import Code

NO_FILES = frozenset((errno.EMFILE, errno.ENFILE))


class Trouble(StrEnum):
    """Why no answer came."""

    DNS_UNKNOWN = "dns: NXDOMAIN"
    DNS_NO_ADDRESS = "dns: no address"
    DNS_FAILS = "dns: SERVFAIL"
    DNS_REFUSED = "dns: REFUSED"
    DNS_SILENT = "dns: time-out"
    DNS_BROKEN = "dns: malformed"  # loops of aliases, messages that nobody can read
    DNS_LIES = "dns: a lie"  # the answer for names that do not exist
    DNS_OURS = "dns: ours"  # our own name server answers for no name at all
    DNS_UNFINISHED = "dns: unfinished"  # the look's time was over first
    ADDRESS = "address"  # refused by us: not public, our own, or refused by setting
    BLOCKED = "blocked"  # the host, by setting
    PORT = "port"  # no browser would ask there
    URL = "url"  # no URL that can be asked for
    NO_NETWORK = "network: ours"  # no route, no more ports: this machine
    NO_FILES = "files: ours"  # this process or machine may open no more (EMFILE, ENFILE)
    REFUSED = "connection: refused"
    UNREACHABLE = "connection: unreachable"
    NO_CONNECTION = "connection: time-out"
    TLS = "tls"
    TLS_SILENT = "tls: time-out"
    WANTS_CERTIFICATE = "tls: wants a certificate"  # of us, as of its own people
    OTHER_PROTOCOL = "tls: another protocol"  # no HTTP/1.1: a browser may know it
    RESET = "answer: reset"
    CLOSED = "answer: none"
    SILENT = "answer: time-out"
    NO_HTTP = "answer: not HTTP"
    LOOP = "redirect: loop"
    TOO_MANY = "redirect: too many"
    FAULT = "fault: ours"  # a mistake in this program


@dataclass(frozen=True, slots=True)
class Says:
    """What a trouble says.

    Attributes:
        verdict: of the look.
        code: the status byte (`links.status`).
        whole_host: all URLs of the host have it.
        settled: HEAD and GET have it alike, so that nothing is asked twice.
    """

    verdict: Verdict
    code: Code
    whole_host: bool = False
    settled: bool = True


SAYS = {
    Trouble.DNS_UNKNOWN: Says(Verdict.GONE, Code.DNS_UNKNOWN, whole_host=True),
    Trouble.DNS_NO_ADDRESS: Says(Verdict.FAILING, Code.DNS_EMPTY, whole_host=True),
    Trouble.DNS_FAILS: Says(Verdict.FAILING, Code.DNS_FAULT, whole_host=True),
    Trouble.DNS_REFUSED: Says(Verdict.FAILING, Code.DNS_REFUSED, whole_host=True),
    Trouble.DNS_SILENT: Says(Verdict.FAILING, Code.DNS_FAULT, whole_host=True),
    Trouble.DNS_BROKEN: Says(Verdict.FAILING, Code.DNS_FAULT, whole_host=True),
    Trouble.DNS_LIES: Says(Verdict.UNDECIDED, Code.OUR_NETWORK),
    Trouble.DNS_OURS: Says(Verdict.UNDECIDED, Code.OUR_NETWORK),
    Trouble.DNS_UNFINISHED: Says(Verdict.UNDECIDED, Code.OUR_NETWORK, settled=False),
    Trouble.ADDRESS: Says(Verdict.UNDECIDED, Code.NOT_ALLOWED),
    Trouble.BLOCKED: Says(Verdict.UNDECIDED, Code.NOT_ALLOWED),
    Trouble.PORT: Says(Verdict.INVALID, Code.INVALID),
    Trouble.URL: Says(Verdict.INVALID, Code.INVALID),
    Trouble.NO_FILES: Says(Verdict.UNDECIDED, Code.NONE),
    Trouble.NO_NETWORK: Says(Verdict.UNDECIDED, Code.OUR_NETWORK),
    Trouble.REFUSED: Says(Verdict.FAILING, Code.REFUSED, whole_host=True),
    Trouble.UNREACHABLE: Says(Verdict.FAILING, Code.NO_ROUTE, whole_host=True),
    Trouble.NO_CONNECTION: Says(Verdict.FAILING, Code.TIMEOUT, whole_host=True),
    Trouble.TLS: Says(Verdict.FAILING, Code.TLS),
    Trouble.TLS_SILENT: Says(Verdict.FAILING, Code.TIMEOUT),
    Trouble.WANTS_CERTIFICATE: Says(Verdict.REFUSED, Code.NO_ACCESS),
    Trouble.OTHER_PROTOCOL: Says(Verdict.SUSPECT, Code.NO_HTTP),
    Trouble.RESET: Says(Verdict.FAILING, Code.BROKEN_OFF, settled=False),
    Trouble.CLOSED: Says(Verdict.FAILING, Code.BROKEN_OFF, settled=False),
    Trouble.SILENT: Says(Verdict.FAILING, Code.TIMEOUT, settled=False),
    Trouble.NO_HTTP: Says(Verdict.FAILING, Code.NO_HTTP, settled=False),
    Trouble.LOOP: Says(Verdict.FAILING, Code.REDIRECTS, settled=False),
    Trouble.TOO_MANY: Says(Verdict.FAILING, Code.REDIRECTS, settled=False),
    Trouble.FAULT: Says(Verdict.UNDECIDED, Code.NONE),
}


class NoAnswerError(Exception):
    """Nothing came that could be judged. Caught by the prober; nobody else sees it."""

    def __init__(self, trouble: Trouble, detail: str = "") -> None:
        super().__init__(f"{trouble}: {detail}" if detail else str(trouble))
        self.trouble = trouble
        self.detail = detail
