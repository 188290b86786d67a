"""Parts of a page in which links are marked, or are not: by element, class or id.

A selector is a small part of CSS: ``nav``, ``.weboid-ignore``, ``#content``, ``div.box``, ``[attribute]``.
A region ends where its element does: with its end tag, or, where HTML lets that be left out, where a
browser closes it. Where the end is missed, the region is too large: links in it are left as they are.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import ConfigError
from wiki.embedding.tokens import Tag, attributes

_SELECTOR = re.compile(
    r"(?P<name>[a-zA-Z][a-zA-Z0-9-]*)?(?:(?P<sign>[.#])(?P<value>[^\s.#,>+~\[\]:]+)|\[(?P<has>[\w-]+)\])?"
)


@dataclass(frozen=True, slots=True)
class Selector:
    """Which elements are meant: by name, and by class, id or attribute; what is empty says nothing."""

    name: bytes = b""
    sign: str = ""  # ".", "#", or "[" for an attribute
    value: bytes = b""

    @property
    def needle(self) -> bytes:
        """What such an element's tag contains, in any case of letters."""
        return (self.value or self.name).lower()

    def fits(self, data: bytes, tag: Tag) -> bool:
        """Whether a start tag makes such an element."""
        if self.name and self.name != tag.name:
            return False
        if not self.sign:
            return True
        for each in attributes(data, tag):
            value = data[each.start : each.end]
            if self.sign == "[" and each.name == self.value:
                return value.lower() != b"false"
            if self.sign == "#" and each.name == b"id":
                return value == self.value
            if self.sign == "." and each.name == b"class":
                return self.value in value.split()
        return False


def parse_selector(text: str) -> Selector:
    """The selector that a text is.

    Raises:
        ConfigError: it is none.

    >>> parse_selector("div.box")
    Selector(name=b'div', sign='.', value=b'box')
    """
    found = _SELECTOR.fullmatch(text.strip())
    if found is None or not text.strip():
        raise ConfigError(
            f"{text[:80]!r} is no selector: write an element's name, .class, #id, name.class, or [attribute]."
        )
    name = (found["name"] or "").lower().encode()
    if found["has"]:
        return Selector(name, "[", found["has"].lower().encode())
    return Selector(name, found["sign"] or "", (found["value"] or "").encode("utf-8"))


# Elements whose end tag may be left out: who may stand beside them, and what encloses them.
_CELLS = frozenset((b"td", b"th", b"tr", b"tbody", b"thead", b"tfoot"))
_ROWS = _CELLS - {b"td", b"th"}
_BLOCKS = frozenset(
    b"address article aside blockquote body center details dialog dir div dl dd dt fieldset figcaption "
    b"figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html li main menu nav ol p pre section "
    b"summary table td th tr ul".split()
)
_ENDED_BY: dict[bytes, tuple[frozenset[bytes], frozenset[bytes]]] = {
    b"a": (frozenset((b"a",)), frozenset()),
    b"p": (_BLOCKS, _BLOCKS - {b"p"}),
    b"li": (frozenset((b"li",)), frozenset((b"ul", b"ol", b"menu"))),
    b"dt": (frozenset((b"dt", b"dd")), frozenset((b"dl",))),
    b"dd": (frozenset((b"dt", b"dd")), frozenset((b"dl",))),
    b"td": (_CELLS, frozenset((b"table",))),
    b"th": (_CELLS, frozenset((b"table",))),
    b"tr": (_ROWS, frozenset((b"table",))),
    b"tbody": (_ROWS - {b"tr"}, frozenset((b"table",))),
}
_VOID = frozenset(b"area base br col embed hr img input link meta source track wbr param".split())


def places_of(selectors: Sequence[Selector], lowered: bytes) -> list[int]:
    """Where a page, in lower case, may have an element that a selector without a name means, in order."""
    needles = sorted({each.needle for each in selectors if not each.name})
    if not needles:
        return []
    return [found.start() for found in re.finditer(b"|".join(map(re.escape, needles)), lowered)]


class Region:
    """Whether we are within an element that one of the selectors means. Shown every tag, in order."""

    def __init__(self, selectors: Sequence[Selector]) -> None:
        self._selectors = selectors
        self._named = frozenset(each.name for each in selectors if each.name)
        self._name = b""
        self._depth = 0
        self._around = 0

    @property
    def wanted(self) -> frozenset[bytes]:
        """Names of the elements whose tags must be shown; others may be left out."""
        if not self._name:
            return self._named
        beside, around = _ENDED_BY.get(self._name, (frozenset(), frozenset()))
        return frozenset((self._name, *beside, *around))

    def enter(self, data: bytes, tag: Tag) -> bool:
        """Take the next tag; whether what is wanted has changed."""
        before = self._name
        if before:
            self._look(tag)
        # Regions within regions change nothing, so only the outermost is known.
        is_outside = not self._name and not tag.is_end and tag.name not in _VOID
        if is_outside and any(each.fits(data, tag) for each in self._selectors):
            self._name, self._depth, self._around = tag.name, 1, 0
        return self._name != before

    def __bool__(self) -> bool:
        """Whether we are within."""
        return bool(self._name)

    def _look(self, tag: Tag) -> None:
        """Leave the region when the tag ends it."""
        rule = _ENDED_BY.get(self._name)
        if rule is None:
            self._depth += (-1 if tag.is_end else 1) * (tag.name == self._name)
            if not self._depth:
                self._name = b""
            return
        beside, around = rule
        if tag.name in around and not (self._name == b"p" and not tag.is_end):
            self._around += -1 if tag.is_end else 1
        ends = tag.name == self._name if tag.is_end else tag.name in beside
        if self._around < 0 or (self._around == 0 and ends):
            self._name = b""
