"""What a document says, without its look: paragraphs, or lines that end where its blocks did; pure.

Both read markup that nh3 wrote: well-formed, its text and attribute values escaped, so that every
``<`` begins a tag (HTML, 13.3).
"""

import re
from collections.abc import Collection

from playback.replay.allowed import BLOCKS

_TAG = re.compile(r"<(/?)([a-z][a-z0-9]*)([^<>]*)>")
_SPACE = re.compile(r"[ \t\n\r\f]+")  # what HTML collapses; a no-break space is none of them
_LINE = re.compile(r"\r?\n")
_CELLS = frozenset({"td", "th"})
_BREAKS = re.compile(r"^(?:<br>| )+|(?:<br>| )+$")


def write_paragraphs(markup: str) -> str:
    """The text as ``<p>`` elements with ``<br>`` in them, one for each block that says something."""
    paragraphs: list[str] = []
    line: list[str] = []
    is_kept = 0  # how many ``pre`` are open, in which line ends count

    def end() -> None:
        text = _BREAKS.sub("", _SPACE.sub(" ", "".join(line)).replace(" <br>", "<br>"))
        line.clear()
        if text:
            paragraphs.append(f"<p>{text.replace('<br> ', '<br>')}</p>")

    at = 0
    for tag in _TAG.finditer(markup):
        text = markup[at : tag.start()]
        line.append(_LINE.sub("<br>", text) if is_kept else text)
        at = tag.end()
        name = tag[2]
        if name == "br":
            line.append("<br>")
        elif name in _CELLS:
            line.append(" ")
        else:
            end()
        if name == "pre":
            is_kept = max(0, is_kept + (-1 if tag[1] else 1))
    line.append(markup[at:])
    end()
    return "".join(paragraphs)


def break_lines(markup: str, tags: Collection[str]) -> str:
    """The markup with only `tags` in it; where another block begins or ends, so does a line."""
    parts: list[str] = []
    at = 0
    is_fresh = True  # nothing stands on the line
    is_due = False  # what comes next belongs on another line

    def write(text: str) -> None:
        nonlocal is_fresh, is_due
        if is_due and not is_fresh:
            parts.append("<br>")
        parts.append(text)
        is_fresh = is_due = False

    for tag in _TAG.finditer(markup):
        text = markup[at : tag.start()]
        at = tag.end()
        if _SPACE.fullmatch(text):
            parts.append(text)
        elif text:
            write(text)
        name = tag[2]
        if name in tags and name not in BLOCKS:
            if is_due and not is_fresh and not tag[1]:
                write("")
            parts.append(tag[0])
        elif name in tags:
            parts.append(tag[0])
            is_fresh, is_due = True, False
        else:
            is_due = True
    rest = markup[at:]
    if rest.strip():
        write(rest)
    return "".join(parts)
