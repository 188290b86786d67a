"""Media types that playback shows, offers as downloads or treats as text.

Shared by replay, the front and the Memento lists.
"""

import re

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
TEXT_TYPES = frozenset({"text/plain", "application/json", "text/csv", "text/markdown"})
# Images that browsers are handed as they are, and those that are drawn as PNG for them.
IMAGE_TYPES = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"}
    | {"image/svg+xml", "image/bmp", "image/x-icon", "image/vnd.microsoft.icon"}
)
PDF = "application/pdf"
FONT_TYPE = "font/sfnt"  # RFC 8081, 4.4.1: outlines of TrueType or of OpenType
# Offered as downloads, if their content matches (`playback.replay.resource_routes`).
MEDIA_TYPES = frozenset(
    {"audio/mpeg", "audio/mp3", "audio/mp4", "audio/ogg", "audio/webm", "audio/flac"}
    | {"audio/x-flac", "audio/wav", "audio/wave", "audio/x-wav", "application/ogg"}
    | {"video/mp4", "video/ogg", "video/webm", "video/quicktime", "video/x-matroska"}
)
# A PDF is shown page by page, and the file is handed out besides.
READ_TYPES = HTML_TYPES | TEXT_TYPES | IMAGE_TYPES | {PDF}
DOWNLOAD_TYPES = MEDIA_TYPES | {PDF}
SHOWN_TYPES = tuple(sorted(READ_TYPES | DOWNLOAD_TYPES))

TOO_LARGE = "This capture is too large to be shown."  # shown in place of captures above a limit
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)


def charset_of(content_type: str) -> str:
    """Return the charset of a Content-Type, or an empty string."""
    match = _CHARSET.search(content_type)
    return match[1] if match else ""
