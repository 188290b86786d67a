"""Which headers a profile may add to every request: none that decides where a message goes or ends.

They are added by the proxy, on the way to the origin, so the browser does not know of them and asks
for no CORS preflight because of them. They go to every host that a page asks, so none of them may
carry a secret: that is what logins are for.
"""

import re
from collections.abc import Mapping

from core.errors import ConfigError

MAX_HEADERS = 32
MAX_BYTES = 16_384  # names and values together
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # a token (RFC 9110, 5.6.2)
_VALUE = re.compile(
    r"[!-~](?:[\t -~]*[!-~])?"
)  # no CR, no LF, no white space around (RFC 9110, 5.5)

_HOP = "it is between two hops, and the proxy's own"
_FRAMING = "it says where a message ends or goes, and the proxy says that"
_PRIVATE = "it carries a secret to every host; make a login instead: weboid login URL"
_CONDITION = "the answer would no longer be the whole of what a visitor gets"
_BROWSER = "it says what the browser does, and would lie"
_REFUSED = {
    **dict.fromkeys(
        ("connection", "keep-alive", "te", "trailer", "upgrade", "http2-settings"), _HOP
    ),
    **dict.fromkeys(("host", "transfer-encoding", "expect", "max-forwards"), _FRAMING),
    **dict.fromkeys(("cookie", "cookie2", "authorization"), _PRIVATE),
    **dict.fromkeys(("range", "accept-encoding"), _CONDITION),
    "origin": _BROWSER,
    "user-agent": "say [visit] user_agent or contact instead",
    "accept-language": "say [visit] language instead",
}
_REFUSED_PREFIXES = {
    "proxy-": _HOP,
    "content-": _FRAMING,
    "if-": _CONDITION,
    "sec-fetch-": _BROWSER,
    "sec-websocket-": _BROWSER,
    "sec-ch-": "say [visit] mobile instead; client hints follow it",
    "access-control-": _BROWSER,
}


def check_header(name: str, value: str) -> None:
    """Refuse a header that may not be added.

    Raises:
        ConfigError: it is no header, or one that is not for a profile to say; the text says why.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name[:100]!r} is no name of a header: write letters and hyphens.")
    key = name.lower()
    why = _REFUSED.get(key)
    for prefix, reason in _REFUSED_PREFIXES.items():
        if key.startswith(prefix):
            why = reason
    if why is not None:
        raise ConfigError(f"{name} cannot be added: {why}.")
    if not _VALUE.fullmatch(value):
        raise ConfigError(
            f"the value of {name} must be printable ASCII on one line, without blanks around it."
        )


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse headers that may not be added.

    Raises:
        ConfigError: as `check_header`; or one is there twice, or they are too many or too long.
    """
    for name, value in headers.items():
        check_header(name, value)
    if len({name.lower() for name in headers}) != len(headers):
        raise ConfigError("one of the names is there twice; upper and lower case are the same.")
    size = sum(len(name) + len(value) for name, value in headers.items())
    if len(headers) > MAX_HEADERS or size > MAX_BYTES:
        raise ConfigError(f"at most {MAX_HEADERS} headers of {MAX_BYTES} bytes in all.")
