"""Tests of `core.media_types`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.media_types import (
    BINARY,
    DOWNLOAD_TYPES,
    HTML_TYPES,
    OLE,
    READ_TYPES,
    SHOWN_TYPES,
    TEXT,
    ZIP,
    charset_of,
    effective_type,
    format_name,
    identified_type,
    types_agree,
)

OPENXML = "application/vnd.openxmlformats-officedocument."


@pytest.mark.parametrize(
    ("sniffed", "declared", "true"),
    [
        ("application/pdf", "text/html", "application/pdf"),
        ("application/pdf", "application/x-pdf", "application/x-pdf"),
        ("text/html", "application/octet-stream", "text/html"),
        ("text/html", "image/png", "text/html"),
        (TEXT, "text/css", "text/css"),
        (TEXT, "image/png", TEXT),
        (TEXT, "", TEXT),
        (BINARY, "text/html", BINARY),
        (BINARY, "application/x-unheard-of", "application/x-unheard-of"),
        (ZIP, OPENXML + "spreadsheetml.sheet", OPENXML + "spreadsheetml.sheet"),
        (ZIP, "text/plain", ZIP),
        (OLE, "application/vnd.ms-excel", "application/vnd.ms-excel"),
        ("application/xml", "application/rss+xml", "application/rss+xml"),
        ("image/svg+xml", "image/png", "image/svg+xml"),
        ("video/mp4", "audio/mp4", "audio/mp4"),
        ("application/json", "application/ld+json", "application/ld+json"),
        ("", "text/html", "text/html"),
    ],
)
def test_bytes_are_believed_where_they_say_otherwise(sniffed: str, declared: str, true: str) -> None:
    """A declared name stands only when the payload may be what it names."""
    assert effective_type(sniffed, declared) == true


@given(st.text(max_size=60), st.sampled_from([TEXT, BINARY, ZIP, OLE, "text/html", ""]))
def test_any_declared_type_is_borne(declared: str, sniffed: str) -> None:
    """It is from the web."""
    assert effective_type(sniffed, declared) in (sniffed, declared)
    assert not (types_agree(sniffed, declared) and not declared)


def test_a_declared_type_is_never_promoted() -> None:
    """WARC/1.1: the header is what an analysis found, or it does not exist."""
    assert identified_type("application/pdf", "text/html") == "application/pdf"
    assert identified_type("video/mp4", "audio/mp4") == "video/mp4"
    assert identified_type(TEXT, "text/css") == ""
    assert identified_type(TEXT, "image/png") == TEXT
    assert identified_type("", "text/html") == ""


ROWS = {
    "mpeg": "audio/mpeg",
    "ogg": "audio/ogg application/ogg",
    "mpeg4": "audio/mpeg4-generic application/mp4 application/mpg4",
    "rtf": "application/rtf text/rtf",
    "tiff": "image/tiff",
    "djvu": "image/vnd-djvu image/vnd.djvu",
    "css": "text/css",
    "csv": "text/csv",
    "zip": "application/zip application/x-zip application/x-zip-compressed",
    "gzip": "application/gzip application/x-gzip",
    "flash": "application/vnd.adobe.flash-movie application/flash application/x-flash"
    " application/x-shockwave-flash video/flash video/x-flash",
    "pdf": "application/pdf application/x-pdf application/xpdf application/PDF application/acrobat"
    " application/vnd.adobe.pdf",
    "postscript": "application/postscript",
    "msexcel": "application/vnd.microsoft.excel application/vnd.msexcel application/vnd.ms-excel"
    " application/x-msexcel application/msexcel application/ms-excel",
    "mspowerpoint": "application/vnd.microsoft.mspowerpoint application/vnd.microsoft.powerpoint"
    " application/vnd.ms-powerpoint application/mspowerpoint application/ms-powerpoint",
    "msword": "application/vnd.microsoft.msword application/vnd.microsoft.word"
    " application/vnd.msword application/vnd.ms-word application/msword application/ms-word"
    " text/msword text/ms-word",
    "binary": "application/octet-stream application/epub+zip font/woff nonsense",
    "": "text/html image/png image/svg+xml image/gif image/jpeg text/plain",
}


@pytest.mark.parametrize(("mime", "name"), [(mime, name) for name, mimes in ROWS.items() for mime in mimes.split()])
def test_unusual_types_have_the_names_that_citations_use(mime: str, name: str) -> None:
    """W66, row by row; parameters and case do not matter."""
    assert format_name(mime) == name
    assert format_name(f" {mime.upper()} ; q=1") == name


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [
        ("text/html; charset=UTF-8", "UTF-8"),
        ('text/html; Charset = "windows-1252"', "windows-1252"),
        ("text/html;charset='koi8-r'; x=1", "koi8-r"),
        ("text/html", ""),
        ("text/html; charset=", ""),
    ],
)
def test_the_charset_is_read_with_and_without_quotes(content_type: str, charset: str) -> None:
    """Servers quote it in every way."""
    assert charset_of(content_type) == charset


def test_a_type_is_read_or_offered_and_pdf_is_both() -> None:
    """A PDF is shown page by page, and its file is a download."""
    assert {"application/pdf"} == READ_TYPES & DOWNLOAD_TYPES
    assert set(SHOWN_TYPES) == READ_TYPES | DOWNLOAD_TYPES


def test_scripts_and_styles_are_neither_shown_nor_offered() -> None:
    """Only their pages use them."""
    assert not {"text/javascript", "application/javascript", "text/css"} & set(SHOWN_TYPES)
    assert "text/html" in HTML_TYPES
