"""A look at a page that has come to rest, for its traits: one call."""

from dataclasses import fields, replace
from typing import Any

from core.records import ArtifactKind
from render.classing.evidence import TEXT_LIMIT_CHARS, Traits
from render.classing.marks import MARKS, NEEDLES
from render.gathering import Gathered
from render.page import Page
from render.steps import Steps

_LIMIT_S = 3.0
_NAMES = {each.name for each in fields(Traits)}


async def look(page: Page, mime: str, found: Gathered, steps: Steps) -> Traits | None:
    """The page's traits; None when it has none, or does not answer in time.

    Args:
        page: at rest.
        mime: its document's bare media type.
        found: what was made of the page; its text is not read a second time.
        steps: time. A page that cannot be looked at is not judged, and nothing is missing.

    Raises:
        PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    if mime not in ("text/html", "application/xhtml+xml"):
        return None
    text = next((a.data for a in found.artifacts if a.kind is ArtifactKind.TEXT), None)
    call = page.call("traits", MARKS, list(NEEDLES), text is None)
    answer = await steps.attempt(call, steps.share_s(_LIMIT_S))
    if answer is None:
        return None
    traits = read_answer(answer)
    if text is None:
        return traits
    # Of UTF-8 a character has at most four bytes.
    said = text[: 4 * TEXT_LIMIT_CHARS].decode("utf-8", "replace")[:TEXT_LIMIT_CHARS]
    return replace(traits, text=said)


def read_answer(answer: dict[str, Any]) -> Traits:
    """What ``traits.js`` returned."""
    given = {name: value for name, value in answer.items() if name in _NAMES}
    for name in ("headings", "frames"):
        given[name] = tuple(given[name])
    for name in ("marks", "needles"):
        given[name] = frozenset(given[name])
    return Traits(**given)
