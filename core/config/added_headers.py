"""Request headers of a profile, ``[visit] headers``, and those that are refused.

The proxy adds them, so the browser sends no CORS preflight because of them. They go to every host of a page, so none
may carry a secret: use logins for that.
"""

import re
from collections.abc import Mapping

from core.errors import ConfigError

MAX_HEADERS = 32
MAX_HEADER_BYTES = 16_384  # names and values together
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # a token (RFC 9110, 5.6.2)
_VALUE = re.compile(r"[!-~](?:[\t -~]*[!-~])?")  # no CR, no LF, no white space around (RFC 9110, 5.5)

_HOP = "it is hop-by-hop and set by the proxy"
_FRAMING = "it frames or routes the message, which the proxy does"
_PRIVATE = "it would send a secret to every host; create a login instead: weboid login URL"
_CONDITION = "the answer would no longer be the complete response"
_BROWSER = "it describes the browser, and would be false"
_REFUSED = {
    **dict.fromkeys(("connection", "keep-alive", "te", "trailer", "upgrade", "http2-settings"), _HOP),
    **dict.fromkeys(("host", "transfer-encoding", "expect", "max-forwards"), _FRAMING),
    **dict.fromkeys(("cookie", "cookie2", "authorization"), _PRIVATE),
    **dict.fromkeys(("range", "accept-encoding"), _CONDITION),
    "origin": _BROWSER,
    "user-agent": "set [visit] user_agent or contact instead",
    "accept-language": "set [visit] language instead",
}
_REFUSED_PREFIXES = {
    "proxy-": _HOP,
    "content-": _FRAMING,
    "if-": _CONDITION,
    "sec-fetch-": _BROWSER,
    "sec-websocket-": _BROWSER,
    "sec-ch-": "set [visit] mobile instead; client hints follow it",
    "access-control-": _BROWSER,
}


def check_headers(headers: Mapping[str, str]) -> None:
    """Check that the headers may be added to requests, once each and not too many, or ConfigError with the reason."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{name[:100]!r} is not a header name: write letters and hyphens.")
        key = name.lower()
        prefixed = (reason for prefix, reason in _REFUSED_PREFIXES.items() if key.startswith(prefix))
        if why := _REFUSED.get(key) or next(prefixed, ""):
            raise ConfigError(f"{name} cannot be added: {why}.")
        if not _VALUE.fullmatch(value):
            raise ConfigError(f"the value of {name} must be printable ASCII on one line, without blanks around it.")
    if len({name.lower() for name in headers}) != len(headers):
        raise ConfigError("a name is repeated; case does not matter.")
    size = sum(len(name) + len(value) for name, value in headers.items())
    if len(headers) > MAX_HEADERS or size > MAX_HEADER_BYTES:
        raise ConfigError(f"at most {MAX_HEADERS} headers of {MAX_HEADER_BYTES} bytes in all.")
