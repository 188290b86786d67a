"""Real prose for the wiki: pages of Debian's handbook, turned from HTML into wikitext.

Each article keeps the handbook's headings, paragraphs, lists and external links, gets the table
and the citations that an article has, and shows the handbook's pictures.
"""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from tests.support.sites import hosts

ARTICLES = 16
LENGTH = 14_000  # characters an article is cut at, at a paragraph's end

INFOBOX = """\
<includeonly>{| class="wikitable" style="float: right; width: 22em"
! colspan="2" | {{{title}}}
|-
| Source || [{{{source}}} the handbook]
|-
| Sections || {{{sections}}}
|-
| Paragraphs || {{{paragraphs}}}
|}[[Category:Articles]]</includeonly><noinclude>The box at the top of every article.</noinclude>
"""
WEBCITE = """\
<includeonly>[{{{url}}} {{{title}}}]{{#if:{{{publisher|}}}|. ''{{{publisher}}}''}}.</includeonly>\
<noinclude>A citation of a page on the web.</noinclude>
"""


@dataclass(frozen=True, slots=True)
class WikiArticle:
    """One page of the wiki, and the pictures it shows."""

    title: str
    text: str
    pictures: tuple[Path, ...] = ()


@dataclass(slots=True)
class _PageDraft:
    """Contents read from one HTML page."""

    title: str = ""
    blocks: list[str] = field(default_factory=list)
    sections: int = 0
    pictures: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)


def articles(shelf: Path) -> list[WikiArticle]:
    """Return articles from the pages of one manual, those with pictures first, and a front page."""
    drafts = [(path, _read(path)) for path in sorted(shelf.glob("*.html"))]
    rich = sorted(drafts, key=lambda each: (-len(each[1].pictures), -len(each[1].blocks)))
    chosen: dict[str, WikiArticle] = {}
    for path, draft in rich:
        if draft.title and len(draft.blocks) > 3 and draft.title not in chosen:
            chosen[draft.title] = _article(path, draft, shelf)
        if len(chosen) == ARTICLES:
            break
    front = "\n".join(f"* [[{title}]]" for title in chosen)
    return [
        WikiArticle("Main Page", f"__NOTOC__\n== Articles ==\n{front}\n\n[[:Category:Articles]]"),
        WikiArticle("Template:Article", INFOBOX),
        WikiArticle("Template:Cite page", WEBCITE),
        WikiArticle("Category:Articles", "Everything from the handbook."),
        *chosen.values(),
    ]


def _article(path: Path, draft: _PageDraft, shelf: Path) -> WikiArticle:
    source = f"https://{hosts.DOCS}/{shelf.name}/{path.name}"
    box = (
        f"{{{{Article|title={draft.title}|source={source}|sections={draft.sections}|paragraphs={len(draft.blocks)}}}}}"
    )
    pictures = tuple(shelf / name for name in dict.fromkeys(draft.pictures) if (shelf / name).is_file())
    shown = [f"[[File:{picture.name}|thumb|240px|{draft.title}]]" for picture in pictures]
    text = "\n\n".join(draft.blocks)
    if len(text) > LENGTH:
        text = text[:LENGTH].rpartition("\n\n")[0]
    cited = [f"<ref>{{{{Cite page|url={url}|title={title}}}}}</ref>" for url, title in draft.links[:12]]
    own = (
        f"<ref>{{{{Cite page|url={source}|title={draft.title}|publisher=The handbook}}}}</ref>"
        f"<ref>{{{{Cite page|url=http://{hosts.RULES}/page/{path.stem}|title=A second source}}}}</ref>"
    )
    end = f"The whole story is told elsewhere.{own}{''.join(cited)}\n\n== References ==\n<references />"
    return WikiArticle(draft.title, "\n\n".join([box, *shown, text, end]), pictures)


def _read(path: Path) -> _PageDraft:
    parser = _HandbookParser()
    parser.feed(path.read_text(encoding="utf-8"))
    parser.close()
    return parser.draft


class _HandbookParser(HTMLParser):
    """Reads the handbook's HTML into blocks of wikitext."""

    _HEADINGS = ("h1", "h2", "h3", "h4", "h5")

    def __init__(self) -> None:
        super().__init__()
        self.draft = _PageDraft()
        self._text: list[str] | None = None  # the open block; None outside of one
        self._link: tuple[str, int] | None = None  # an open link, and where in the block it began

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a block at a heading, paragraph or preformatted text; note links and pictures."""
        if tag in {"p", "pre", *self._HEADINGS}:
            self._text = []
        values = {name: value or "" for name, value in attrs}
        if tag == "img" and values.get("src", "").startswith("images/"):
            self.draft.pictures.append(values["src"])
        href = values.get("href", "")
        if tag == "a" and self._text is not None and re.match(r"https?://[^\s\[\]<>\"|{}]+$", href):
            self._link = (href, len(self._text))

    def handle_data(self, data: str) -> None:
        """Keep text that stands in a block."""
        if self._text is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        """Close a link or a block."""
        if tag == "a" and self._link is not None and self._text is not None:
            href, start = self._link
            title = _plain("".join(self._text[start:])) or href
            self._text[start:] = [f"\0{href}\1{title}\2"]
            self.draft.links.append((href, title.replace("=", " ")))
            self._link = None
        if tag in {"p", "pre", *self._HEADINGS} and self._text is not None:
            self._close(tag, "".join(self._text))
            self._text = None

    def _close(self, tag: str, text: str) -> None:
        if tag == "pre":
            self.draft.blocks.append(f"<pre>{text.strip().replace('</', '&lt;/')}</pre>")
            return
        words = _linked(_plain(text))
        if not words:
            return
        if tag in self._HEADINGS:
            heading = re.sub(r"^[\dA-Z]*[\d.]+\s*", "", words).strip()
            if not self.draft.title:
                self.draft.title = _title(heading)
            else:
                self.draft.sections += 1
                self.draft.blocks.append(f"== {heading} ==")
        else:
            self.draft.blocks.append(words)


def _plain(text: str) -> str:
    """Return the text on one line, without what wikitext would read as markup."""
    return re.sub(r"[\s\[\]{}|<>']+", " ", text).strip(" *#:;")


def _linked(text: str) -> str:
    return text.replace("\0", "[").replace("\1", " ").replace("\2", "]")


def _title(heading: str) -> str:
    words = re.sub(r"[^\w ,()-]", " ", heading)
    return re.sub(r" +", " ", words).strip()[:80]
