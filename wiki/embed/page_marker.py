"""Links to archived copies next to a page's links, inserted into its bytes (docs/how-to/embedding.md).

Marking is idempotent; call `remove_marks` first when the answers have changed. Insertions are ASCII, without
script and style, and do not change how a browser parses the rest. A page whose encoding does not contain
ASCII stays unchanged. Pure; time and memory are linear.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape

import webencodings  # type: ignore[import-untyped]

from wiki.embed import html_tags
from wiki.embed.link_lookup import (
    CitedAddress,
    CopyDisplay,
    LinkAnswer,
    PageLocation,
    attribute_text,
    with_escaped_query,
)

# Larger encodings than Python's of the same name, as the WHATWG Encoding Standard has them.
_LARGER = {"gbk": "gb18030", "shift_jis": "cp932", "euc-kr": "cp949", "big5": "big5hkscs"}
_WITHOUT_ASCII = re.compile(r"utf-?(?:16|32|7)|ucs-|iso-2022-|hz-gb|csiso2022|unicode", re.ASCII)
_META = re.compile(rb"<meta\b[^>]{0,500}?charset\s{0,9}=\s{0,9}[\"']?([\w:.-]{1,40})", re.IGNORECASE)
_PRESCAN_BYTES = 1_024  # how far a browser looks for it (WHATWG HTML, 13.2.3.2)


def detect_codec(data: bytes, declared: str = "") -> str | None:
    r"""Return the codec of a page's bytes; None when it does not contain ASCII or is unknown.

    >>> detect_codec(b"<meta charset=latin1>"), detect_codec(b"\xff\xfe<\0")
    ('cp1252', None)
    """
    if data.startswith(b"\xef\xbb\xbf"):
        return "utf-8"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    known = _codec_of_label(declared)
    if known == "" and (meta := _META.search(data, 0, _PRESCAN_BYTES)) is not None:
        label = meta[1].decode("ascii", "replace").lower()
        # It was read as ASCII, so that is not true (WHATWG HTML, 13.2.3.2).
        known = "utf-8" if label.startswith("utf-16") else _codec_of_label(label)
    if known != "":
        return known
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _codec_of_label(label: str) -> str | None:
    """Return the codec of a label; None for one without ASCII, empty for an unknown label."""
    label = label.strip("\t\n\f\r \"'").lower()
    if _WITHOUT_ASCII.match(label):
        return None
    encoding = webencodings.lookup(label)
    codec = "" if encoding is None else _LARGER.get(encoding.name, encoding.codec_info.name)
    try:
        "a".encode(codec)
    except LookupError:
        return ""
    return codec


_NAME_END = len(b"<a")
_NEARBY_LINKS = 3  # links between a citation's address and its archived copy, at most
_NAMED = 200  # characters of an address that a link's name for screen readers has
_MARKS = frozenset((b"data-originalurl", b"data-versionurl", b"data-versiondate"))
_SPACE_AND_SUP = re.compile(rb"\s*<sup\b[^>]*?\bweboid-cached\b", re.IGNORECASE)
# Never marked: excluded by the page's author, editable content (marks would be saved), our own marks.
_ALWAYS_SKIPPED = [html_tags.parse_selector(each) for each in (".weboid-ignore", ".weboid-cached", "[contenteditable]")]
# Content areas of engines named in the page's generator; around them are menus and notices.
_CONTENT = {
    b"mediawiki": (html_tags.parse_selector("#mw-content-text"),),
    b"dokuwiki": (html_tags.parse_selector("#dokuwiki__content"),),
}
_GENERATOR = re.compile(rb"<meta name=[\"']?generator[\"']? content=[\"']?(mediawiki|dokuwiki)\b")
_HEAD = 16_384  # how far its name is looked for


# Labels of links to copies, by language and answer; empty: of other languages, and of other answers.
_COPY_LABELS = {
    "": {"copy": "cached", "queued": "queued", "": "not archived"},
    "de": {"copy": "archiviert", "queued": "vorgemerkt", "": "nicht archiviert"},
}


@dataclass(frozen=True)
class MarkRules:
    """Selection of links to mark."""

    # elements that are or contain the links; empty: the content area of a known wiki engine, else the whole page
    only: tuple[html_tags.ElementSelector, ...] = ()
    skip: tuple[html_tags.ElementSelector, ...] = ()  # elements whose links are never marked


@dataclass(slots=True)
class MarkableLink:
    """Link of a page that can be marked."""

    url: str  # the cited address, absolute
    start: int  # offset of its tag
    classes: html_tags.HtmlAttribute | None  # its attribute `class`, relative to `start`
    page: str  # identity of the cited page
    is_copy: bool  # it leads to an archive
    end: int = -1  # end of its end tag; -1 without one, or when closed implicitly


@dataclass(frozen=True)
class MarkablePage:
    """Parsed page."""

    data: bytes
    links: tuple[MarkableLink, ...] = ()  # that can be marked, in order

    def urls(self, limit: int | None = None) -> tuple[str, ...]:
        """Return the distinct addresses that its links cite, or the first `limit` of them."""
        return tuple(dict.fromkeys(link.url for link in self.links))[:limit]


def read_page(data: bytes, around: PageLocation, *, rules: MarkRules | None = None, charset: str = "") -> MarkablePage:
    """Find the links of a page that the rules select."""
    codec = detect_codec(data, charset)
    if codec is None:
        return MarkablePage(data)
    return MarkablePage(data, tuple(_LinkReader(data, around, rules or MarkRules(), codec).links()))


class _LinkReader:
    def __init__(self, data: bytes, around: PageLocation, rules: MarkRules, codec: str) -> None:
        self._data = data
        self._around = around
        self._codec = codec
        self._base = ""
        self._has_base = False
        self._cited: dict[str, CitedAddress | None] = {}
        lowered = data.lower()
        only = rules.only
        generator = None if only else _GENERATOR.search(lowered, 0, _HEAD)
        if generator is not None:
            content = _CONTENT[generator[1]]
            only = content if any(each.value in data for each in content) else ()
        skip = [each for each in (*_ALWAYS_SKIPPED, *rules.skip) if each.needle in lowered]
        self._only = html_tags.SelectedRegion(only)
        self._skip = html_tags.SelectedRegion(skip)
        self._has_only, self._has_regions = bool(only), bool(only or skip)
        self._watch = html_tags.TagFilter(html_tags.selector_positions((*only, *skip), lowered))
        self._none = bool(only) and not any(each.needle in lowered for each in only)

    def links(self) -> Iterator[MarkableLink]:
        """Yield each link once it is closed or can no longer be."""
        if self._none:
            return
        markable_links: list[MarkableLink] = []
        current: MarkableLink | None = None
        self._want()
        for tag in html_tags.iter_tags(self._data, self._watch):
            if self._has_regions:
                is_turned = self._only.enter(self._data, tag)
                if self._skip.enter(self._data, tag) or is_turned:
                    self._want()
            if tag.name == b"a":
                if current is not None and tag.is_end:
                    current.end = tag.end
                current = None
                if not (tag.is_end or self._skip or (self._has_only and not self._only)):
                    current = self._link(tag)
                if current is not None:
                    markable_links.append(current)
                self._watch.only_citing = current is None and self._may_pass
            elif tag.name == b"base" and not tag.is_end:
                for each in html_tags.tag_attributes(self._data, tag):
                    if each.name == b"href" and not self._has_base:
                        self._has_base = True
                        self._base = attribute_text(self._data[each.start : each.end], self._codec).strip()
                        self._cited.clear()  # relative links after it mean something else
                        self._want()
        has_copy = _beside_copies(markable_links)
        for place, link in enumerate(markable_links):
            is_marked = link.end >= 0 and _SPACE_AND_SUP.match(self._data, link.end)
            if not (link.is_copy or place in has_copy or is_marked):
                yield link

    def _want(self) -> None:
        self._watch.names = self._only.wanted | self._skip.wanted
        self._may_pass = not self._base and b"a" not in self._watch.names
        self._watch.only_citing = False  # until the next link shows that none is open

    def _link(self, tag: html_tags.HtmlTag) -> MarkableLink | None:
        parsed = _parse_link(self._data[tag.start : tag.end], self._codec)
        if parsed is None:
            return None
        href, classes = parsed
        if href not in self._cited:
            self._cited[href] = self._around.cited(href, self._base)
        cited = self._cited[href]
        if cited is None:
            return None
        return MarkableLink(cited.url, tag.start, classes, cited.page, is_copy=cited.is_copy)


@lru_cache(maxsize=8_192)  # a page's links are the same at its next view
def _parse_link(raw: bytes, codec: str) -> tuple[str, html_tags.HtmlAttribute | None] | None:
    """Return a link's address and its class attribute, relative to the tag; None when excluded."""
    tag = html_tags.HtmlTag(0, len(raw), b"a", is_end=False)
    named = {each.name: each for each in html_tags.tag_attributes(raw, tag)}
    href, classes = named.get(b"href"), named.get(b"class")
    is_marked = classes is not None and b"weboid-link" in raw[classes.start : classes.end].split()
    if href is None or is_marked or not _MARKS.isdisjoint(named):
        return None
    return with_escaped_query(attribute_text(raw[href.start : href.end], codec), codec), classes


def _beside_copies(links: Sequence[MarkableLink]) -> set[int]:
    """Return indexes of links with a nearby archive copy of the same page, as in citations (B13)."""
    places = set()
    for place, link in enumerate(links):
        if link.is_copy and link.page:
            near = range(max(0, place - _NEARBY_LINKS), min(len(links), place + _NEARBY_LINKS + 1))
            places |= {each for each in near if links[each].page == link.page}
    return places


def insert_marks(
    page: MarkablePage, answers: Mapping[str, LinkAnswer], show: CopyDisplay = CopyDisplay.ALWAYS, language: str = ""
) -> bytes:
    """Insert marks for the answers (by URL), with labels in the language; links without an answer stay unchanged."""
    insertions: list[tuple[int, bytes]] = []
    for link in page.links:
        answer = answers.get(link.url)
        if answer is not None and (answer.answer != "none" or answer.group != "unknown"):
            classes = link.classes
            insertions.append((link.start + _NAME_END, _link_attributes(answer, with_class=classes is None)))
            if classes is not None:
                own = _class_insertions(page.data[link.start : link.start + classes.end], classes, answer.group)
                insertions += ((link.start + to, text) for to, text in own)
            is_shown = show is CopyDisplay.ALWAYS or (show is CopyDisplay.DEAD and answer.is_dead)
            if is_shown and answer.href and link.end >= 0:
                insertions.append((link.end, _copy_link(answer, language)))
    if not insertions:
        return page.data
    insertions.sort(key=lambda each: each[0])  # stable: of one place in the order they were made
    parts, place = list[bytes](), 0
    for at, text in insertions:
        parts += (page.data[place:at], text)
        place = at
    return b"".join((*parts, page.data[place:]))


@lru_cache(maxsize=4_096)
def _link_attributes(answer: LinkAnswer, *, with_class: bool) -> bytes:
    known = {"data-originalurl": answer.url, "data-versionurl": answer.copy, "data-versiondate": answer.date}
    head = _attributes(known)
    return b' class="weboid-link weboid-%s"' % answer.group.encode("ascii") + head if with_class else head


def _class_insertions(raw: bytes, place: html_tags.HtmlAttribute, group: str) -> list[tuple[int, bytes]]:
    """Return insertions of classes; their order tells `remove_marks` that the value was unquoted."""
    own = b"weboid-" + group.encode("ascii")
    if place.quote is None:
        return [(place.name_end, b'="weboid-link %s"' % own)]
    if place.quote:
        return [(place.end, b" weboid-link " + own)]
    value = raw[place.start : place.end]
    quote = b"'" if b'"' in value else b'"'
    if quote in value:
        return []
    gap = b" " if value else b""
    return [(place.start, quote), (place.end, gap + own + b" weboid-link" + quote)]


@lru_cache(maxsize=4_096)
def _copy_link(answer: LinkAnswer, language: str) -> bytes:
    labels = _COPY_LABELS.get(language, _COPY_LABELS[""])
    label = answer.label or labels.get(answer.answer, labels[""])
    more = _attributes({"title": answer.words, "aria-label": f"{label}: {answer.url[:_NAMED]}"})
    parts = (answer.answer.encode("ascii"), _escaped(answer.href), more, _escaped(label))
    return b'<sup class="weboid-cached weboid-%s"><a href="%s"%s>%s</a></sup>' % parts


def _attributes(values: Mapping[str, str]) -> bytes:
    return b"".join(b' %s="%s"' % (name.encode(), _escaped(text)) for name, text in values.items() if text)


def _escaped(text: str) -> bytes:
    """Escape an attribute's value as ASCII, valid in any encoding of the page."""
    return escape(text, quote=False).replace('"', "&quot;").encode("ascii", "xmlcharrefreplace")


_OWN_HEAD = re.compile(
    rb'( class="weboid-link weboid-[a-z0-9-]++")? data-originalurl="[^"<>]*+"'
    rb'(?: data-versionurl="[^"<>]*+")?(?: data-versiondate="[^"<>]*+")?'
)
_OWN_CLASSES = re.compile(rb" weboid-link weboid-[a-z][a-z0-9-]*+$|^weboid-link weboid-[a-z0-9-]++$")
_OWN_QUOTED = re.compile(rb" ?weboid-[a-z][a-z0-9-]*+ weboid-link$")
_OWN_SUP = re.compile(
    rb'<sup class="weboid-cached weboid-[a-z0-9-]++"><a href="[^"<>]*+"(?: title="[^"<>]*+")?'
    rb'(?: aria-label="[^"<>]*+")?>[^<>]{1,400}+</a></sup>'
)


def remove_marks(data: bytes) -> bytes:
    """Remove the markup of `insert_marks`: ``remove_marks(insert_marks(page)) == page``."""
    if b"weboid-" not in data:
        return data
    spans, parts = list[tuple[int, int]](), list[bytes]()
    for tag in html_tags.iter_tags(data, html_tags.TagFilter(only_citing=True)):
        if tag.name == b"sup" and (match := _OWN_SUP.match(data, tag.start)) is not None:
            spans.append(match.span())
        elif tag.name == b"a" and not tag.is_end:
            spans += _own_spans(data, tag)
    place = 0
    for start, end in spans:
        parts.append(data[place:start])
        place = max(place, end)
    return b"".join((*parts, data[place:]))


def _own_spans(data: bytes, tag: html_tags.HtmlTag) -> list[tuple[int, int]]:
    """Return spans inserted by `insert_marks` into a link's tag; empty for foreign marks."""
    head = _OWN_HEAD.match(data, tag.start + 2)
    if head is None:
        return []
    spans = [head.span()]
    place = next((each for each in html_tags.tag_attributes(data, tag) if each.name == b"class"), None)
    if head[1] or place is None:
        return spans
    value = data[place.start : place.end]
    quoted, own = _OWN_QUOTED.search(value), _OWN_CLASSES.search(value)
    if quoted is not None:
        spans += ((place.start - 1, place.start), (place.start + quoted.start(), place.end + 1))
    elif own is not None and own.start() == 0 and not value.startswith(b" "):
        spans.append((place.name_end, place.end + 1))
    elif own is not None:
        spans.append((place.start + own.start(), place.end))
    return spans
