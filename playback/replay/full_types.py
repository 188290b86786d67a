"""Which media type a part of a full copy is answered with; pure.

Browsers are told not to guess (nosniff), and are here told no type that was not foreseen. Nearly every
type of the web may run or show something; what it may do then is the content policy's affair.
"""

import re

from playback.replay.archive import Payload
from playback.replay.full_rewriting import SCRIPT_MODIFIERS, SCRIPT_TYPES

# What a browser makes a document of that may hold scripts.
ACTIVE_TYPES = frozenset(
    {"text/html", "application/xhtml+xml", "application/xml", "text/xml", "image/svg+xml"}
)
_BINARY = "application/octet-stream"
_KNOWN = frozenset(
    {
        *ACTIVE_TYPES,
        "text/css",
        "text/plain",
        "text/vtt",
        "text/javascript",
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/avif",
        "image/x-icon",
        "image/bmp",
        "font/woff",
        "font/woff2",
        "font/ttf",
        "font/otf",
        "application/json",
        "application/ld+json",
        "application/manifest+json",
        "application/wasm",
        "application/pdf",
        "application/dash+xml",
        "application/vnd.apple.mpegurl",
        "application/x-mpegURL",
    }
)
_ALIASES = {
    "image/vnd.microsoft.icon": "image/x-icon",
    "image/jpg": "image/jpeg",
    "application/font-woff": "font/woff",
    "application/font-woff2": "font/woff2",
    "application/x-font-ttf": "font/ttf",
    "application/x-font-woff": "font/woff",
    "application/x-font-opentype": "font/otf",
    "application/rss+xml": "application/xml",
    "application/atom+xml": "application/xml",
    "application/x-mpegurl": "application/x-mpegURL",
    **dict.fromkeys(SCRIPT_TYPES, "text/javascript"),
}
_MEDIA = re.compile(r"(?:audio|video)/[a-z0-9.+-]{1,40}")
_MARKUP = re.compile(
    rb"^(?:\xef\xbb\xbf)?\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype|html|head|body|[a-z])",
    re.IGNORECASE | re.DOTALL,
)
_USES = {"js_": "text/javascript", "cs_": "text/css"}
_GUESSED = frozenset({"", "text/plain", _BINARY, "text/html", "binary/octet-stream"})


def media_type_of(payload: Payload, modifier: str) -> str:
    """The type of what was archived, by what it says, how it is asked for, and how it begins."""
    said = payload.content_type.partition(";")[0].strip().lower()
    if modifier in SCRIPT_MODIFIERS - {"js_"}:
        return "text/javascript"
    is_markup = _MARKUP.match(payload.body[:1024]) is not None
    if said in _GUESSED and not is_markup and modifier in _USES:
        # Sites that name no type, or a wrong one, meant what their page uses it for.
        return _USES[modifier]
    said = said or ("text/html" if is_markup else "text/plain")
    said = _ALIASES.get(said, said)
    if said in _KNOWN or _MEDIA.fullmatch(said):
        return said
    return _like(said)


def _like(media_type: str) -> str:
    """A harmless type in place of one that was not foreseen."""
    if media_type.endswith("+json"):
        return "application/json"
    return "text/plain" if media_type.startswith("text/") else _BINARY
