"""Media types: declared against sniffed, what playback shows, and short format names for citations.

Where the bytes agree with the declared type it is better, as some formats are containers; else the sniffed type (C-13).
"""

import re
import tomllib
from pathlib import Path

# Results of sniffing without a specific type (`core.mime_sniffer`).
TEXT = "text/plain"
BINARY = "application/octet-stream"
ZIP = "application/zip"
OLE = "application/x-ole-storage"
XML = "application/xml"
DOCUMENT_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/pdf"})  # of captures that may be pages

_TEXTUAL = re.compile(
    r"text/.*|application/(?:(?:x-)?(?:java|ecma)script|json|(?:x-)?yaml|xml|xml-dtd|x-sh|x-tex|sql"
    r"|x-www-form-urlencoded|x-subrip|vnd\.apple\.mpegurl|x-mpegurl|csv|graphql|manifest|toml|x-bibtex"
    r"|x-research-info-systems|x-httpd-php|javascript-module|importmap|speculationrules|n-triples"
    r"|(?:x-)?latex|pgp-.*|pem-.*|x-pem-file|x-perl|x-python|mbox)|audio/(?:x-)?mpegurl"
    r"|message/.*|multipart/.*|model/.*|.*\+(?:json|xml|yaml|json-seq)|image/svg\+xml|image/x-xpixmap"
)
_XML_LIKE = re.compile(r"text/xml|application/xml|.*\+xml|text/html|text/x-opml|text/vnd\.wap\.wml")
_JSON_LIKE = re.compile(
    r"text/(?:x-)?json|application/(?:x-)?json|.*\+json(?:-seq)?|text/javascript|.*/(?:x-)?javascript"
)
_ZIP_LIKE = re.compile(
    r".*\+zip|application/(?:vnd\..*|x-zip|x-zip-compressed|java-archive|x-java-archive|x-xpinstall"
    r"|x-chrome-extension|x-cbz|x-mobipocket-ebook|zip)|model/.*"
)
_OLE_LIKE = re.compile(
    r"application/(?:vnd\.(?:ms|microsoft|msword|msexcel|visio).*|x?-?ms.*|x-msi|x-hwp.*)|text/ms-?word"
)
# Types that may be declared for content that is sniffed as the key.
_MADE_OF = {
    ZIP: _ZIP_LIKE,
    OLE: _OLE_LIKE,
    XML: _XML_LIKE,
    "application/json": _JSON_LIKE,
    "application/feed+json": _JSON_LIKE,
    # A piece of a page begins as a page does.
    "text/html": re.compile(r"text/(?:x-component|template|x-handlebars.*)|multipart/related"),
}

# What playback shows, offers as downloads or treats as text: for replay, the front and the Memento lists.
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
READ_TYPES = HTML_TYPES | TEXT_TYPES | IMAGE_TYPES | {PDF}  # a PDF page by page, and the file besides
DOWNLOAD_TYPES = MEDIA_TYPES | {PDF}
SHOWN_TYPES = tuple(sorted(READ_TYPES | DOWNLOAD_TYPES))

TOO_LARGE = "This capture is too large to be shown."  # shown in place of captures above a limit
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TABLES = tomllib.loads(Path(__file__).with_name("media_types.toml").read_text("utf-8"))
_SAME = tuple(map(_names, _TABLES["same"]))
_USUAL = _names(_TABLES["usual"])
_NAMES: dict[str, str] = {name: key for key, names in _TABLES["formats"].items() for name in _names(names)}


def is_textual(mime: str) -> bool:
    """Return True for a type of text."""
    return _TEXTUAL.fullmatch(mime) is not None


def types_agree(sniffed: str, declared: str) -> bool:
    """Return True when a payload sniffed as `sniffed` may be of the declared type."""
    if not sniffed or not declared:
        return False
    if sniffed == declared or any(sniffed in names and declared in names for names in _SAME):
        return True
    if sniffed == TEXT:
        return is_textual(declared)
    if sniffed == BINARY:
        return not is_textual(declared)
    made_of = _MADE_OF.get(sniffed)
    return made_of is not None and made_of.fullmatch(declared) is not None


def effective_type(sniffed: str, declared: str) -> str:
    """Return the media type to use: the declared one where the bytes agree with it."""
    if not sniffed:
        return declared
    return declared if types_agree(sniffed, declared) else sniffed


def identified_type(sniffed: str, declared: str) -> str:
    """Return WARC-Identified-Payload-Type (WARC/1.1); empty for text and unknown types, if no other was declared."""
    if sniffed in (TEXT, BINARY) and types_agree(sniffed, declared):
        return ""
    return sniffed


def format_name(mime: str) -> str:
    """Return a citation's short format name for a type that is not a page (W66); empty for what every browser shows."""
    bare = mime.partition(";")[0].strip().lower()
    if bare in _USUAL:
        return ""
    return _NAMES.get(bare, "binary")


def charset_of(content_type: str) -> str:
    """Return the charset of a Content-Type, or an empty string."""
    match = _CHARSET.search(content_type)
    return match[1] if match else ""
