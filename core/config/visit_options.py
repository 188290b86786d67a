"""Values of `[visit]` with rules of their own: stored levels, and added request headers.

The proxy applies both to each request of a visit, so they hold for frames, workers and scripts alike, and the browser
sends no CORS preflight because of the headers. These go to every host of a page, so none may carry a secret: use
logins for that. Levels that are shown are in `playback.access.levels`.
"""

import re
from collections.abc import Mapping
from enum import StrEnum

from core.errors import ConfigError


class StoredLevel(StrEnum):
    """Stored level, from the least to the most."""

    TEXT = "text"  # documents, style sheets, scripts and data; no images, fonts, audio or video
    NO_MEDIA = "no-media"  # everything but audio and video
    EVERYTHING = "everything"

    @property
    def rank(self) -> int:
        """Return the level's rank; 0 for the least."""
        return _RANKS[self]

    @property
    def keeps_images(self) -> bool:
        """Return True when images, fonts and screenshots are recorded."""
        return self is not StoredLevel.TEXT

    @property
    def keeps_media(self) -> bool:
        """Return True when audio and video are recorded."""
        return self is StoredLevel.EVERYTHING

    def excludes_destination(self, destination: str) -> bool:
        """Return True when nothing is recorded for that ``Sec-Fetch-Dest`` (Fetch, 3.2.7)."""
        return (destination in _MEDIA_DESTINATIONS and not self.keeps_media) or (
            destination in _IMAGE_DESTINATIONS and not self.keeps_images
        )

    def excludes_type(self, mime: str) -> bool:
        """Return True when nothing of that bare media type is recorded.

        >>> StoredLevel.NO_MEDIA.excludes_type("video/mp4"), StoredLevel.NO_MEDIA.excludes_type("image/png")
        (True, False)
        """
        mime = mime.lower()
        is_media = mime.startswith(("audio/", "video/")) or mime in _MEDIA_TYPES
        is_image = mime.startswith(("image/", "font/")) or mime in _FONT_TYPES
        return (is_media and not self.keeps_media) or (is_image and not self.keeps_images)


DEFAULT_STORED_LEVEL = StoredLevel.EVERYTHING
_RANKS = {level: rank for rank, level in enumerate(StoredLevel)}
_MEDIA_DESTINATIONS = frozenset({"audio", "video", "track"})
_IMAGE_DESTINATIONS = frozenset({"image", "font"})
_MEDIA_TYPES = frozenset({
    "application/dash+xml", "application/mp4", "application/ogg", "application/vnd.apple.mpegurl",
    "application/vnd.ms-sstr+xml", "application/vnd.rn-realmedia", "application/vnd.yt-ump",
    "application/x-mpegurl", "application/x-shockwave-flash",
})  # fmt: skip
_FONT_TYPES = frozenset({
    "application/font-sfnt", "application/font-woff", "application/font-woff2",
    "application/vnd.ms-fontobject", "application/vnd.ms-opentype", "application/x-font-opentype",
    "application/x-font-otf", "application/x-font-ttf", "application/x-font-truetype",
    "application/x-font-woff",
})  # fmt: skip


MAX_HEADERS = 32
MAX_HEADER_BYTES = 16_384  # names and values together
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # a token (RFC 9110, 5.6.2)
_VALUE = re.compile(r"[!-~](?:[\t -~]*[!-~])?")  # no CR, no LF, no white space around (RFC 9110, 5.5)

_HOP = "it is between two hops, and the proxy's own"
_FRAMING = "it says where a message ends or goes, and the proxy says that"
_PRIVATE = "it carries a secret to every host; make a login instead: weboid login URL"
_CONDITION = "the answer would no longer be the whole of what a visitor gets"
_BROWSER = "it says what the browser does, and would lie"
_REFUSED = {
    **dict.fromkeys(("connection", "keep-alive", "te", "trailer", "upgrade", "http2-settings"), _HOP),
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
    """Check that a header may be added to requests; the text of a ConfigError gives the reason."""
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
        raise ConfigError(f"the value of {name} must be printable ASCII on one line, without blanks around it.")


def check_headers(headers: Mapping[str, str]) -> None:
    """Check that the headers may be added to requests, once each and not too many, or ConfigError."""
    for name, value in headers.items():
        check_header(name, value)
    if len({name.lower() for name in headers}) != len(headers):
        raise ConfigError("one of the names is there twice; upper and lower case are the same.")
    size = sum(len(name) + len(value) for name, value in headers.items())
    if len(headers) > MAX_HEADERS or size > MAX_HEADER_BYTES:
        raise ConfigError(f"at most {MAX_HEADERS} headers of {MAX_HEADER_BYTES} bytes in all.")
