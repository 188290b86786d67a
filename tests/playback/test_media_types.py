"""Media types that playback shows or offers."""

import pytest

from playback.media_types import (
    DOWNLOAD_TYPES,
    HTML_TYPES,
    READ_TYPES,
    SHOWN_TYPES,
    charset_of,
)


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
