"""The document that shows a PDF page by page: pictures of ours, and its text, escaped."""

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from playback.replay.html import NO_IMAGES, skeleton

_STYLE = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;margin:0 auto;"
    "max-width:60rem;padding:1rem}figure{margin:0 0 .5rem}img{display:block;width:100%;height:auto;"
    "background:#fff;border:1px solid #8888}h2{font-size:1rem;margin:1.5rem 0 .5rem}"
    "pre{font:inherit;white-space:pre-wrap;overflow-wrap:anywhere}"
)
_ERRORS = {
    "encrypted": "This PDF is encrypted, so it is not shown here.",
    "broken": "This PDF is damaged, so it is not shown here.",
    "too-large": "This PDF is too large to be shown here.",
}


def pdf_document(facts: Mapping[str, Any], title: str, picture: Callable[[int], str] | None) -> str:
    """Return the document.

    Args:
        facts: what `playback.replay.pdf.read_pdf` says of the file.
        title: of the document.
        picture: gives the address of a page's picture; None: only text is shown.
    """
    error = _ERRORS.get(facts["error"])
    if error is not None:
        parts = [f"<p>{escape(error)} The file itself is kept as it was served.</p>"]
    else:
        parts = [f"<p>{_summary(facts, has_pictures=picture is not None)}</p>"]
        for number, page in enumerate(facts["pages"], 1):
            parts.append(_page(number, page, picture))
    head = f"<style>{_STYLE}</style>" if picture else f"{NO_IMAGES}<style>{_STYLE}</style>"
    return skeleton(title, head, "".join(parts), has_viewport=True)


def _summary(facts: Mapping[str, Any], *, has_pictures: bool) -> str:
    count, shown = facts["count"], len(facts["pages"])
    pages = "1 page" if count == 1 else f"{count:,} pages"
    how = "as pictures with their text" if has_pictures else "as text"
    rest = "" if shown == count else f" The first {shown:,} are shown; the others are in the file."
    return f"PDF, {pages}, shown {how}.{rest}"


def _page(number: int, page: Mapping[str, Any], picture: Callable[[int], str] | None) -> str:
    text = page["text"]
    words = f"<pre>{escape(text)}</pre>" if text else "<p>This page holds no text.</p>"
    if picture is None:
        return f'<section id="page-{number}"><h2>Page {number}</h2>{words}</section>'
    width, height = max(1, round(page["width"])), max(1, round(page["height"]))
    return (
        f'<section id="page-{number}"><h2>Page {number}</h2>'
        f'<figure><img src="{escape(picture(number))}" width="{width}" height="{height}"'
        f' loading="lazy" alt="Page {number}"></figure>'
        f"<details><summary>Text of page {number}</summary>{words}</details></section>"
    )
