"""`AcidCell`: one page of the acid set, with what must come of it; and how its marks are written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from tests.support.sites import hosts
from tests.support.sites.http1 import Answer, SiteReply, response

ORIGIN = f"https://{hosts.ACID}"
PITCH = 120  # CSS pixels from mark to mark
SIZE = 100
COLUMNS = 3  # as many as a phone shows side by side
LEFT, TOP = 10, 90
VISITED = "visited=yes"  # cookie of every page


@dataclass(frozen=True, slots=True)
class AcidCell:
    """A page of the set.

    Attributes:
        name: of the page; it answers at ``/<name>/``.
        page: its answer.
        files: what else answers, by path; a path without a leading slash is below the page's.
        must: URLs that must be in the archive besides the page's own.
        never: URLs that must not be.
        marks: how many green squares show that everything worked.
        text: words that only stand on the page when it worked; empty: none do.
        dark: numbers of the marks that playback does not show as the visitor saw them.
        short: why it does not.
        end: the URL that the visit ends at.
    """

    name: str
    page: Answer
    files: Mapping[str, Answer] = field(default_factory=dict)
    must: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    marks: int = 1
    text: str = ""
    dark: tuple[int, ...] = ()
    short: str = ""
    end: str = ""

    @property
    def url(self) -> str:
        """Return the URL of the page."""
        return f"{ORIGIN}/{self.name}/"


def place(number: int) -> tuple[int, int]:
    """Return the upper left corner of a page's n-th mark, from 0, in CSS pixels."""
    return LEFT + number % COLUMNS * PITCH, TOP + number // COLUMNS * PITCH


def at(number: int, more: str = "") -> str:
    """Return the attributes that make an element the n-th mark; grey until something makes it green."""
    left, top = place(number)
    return f'class="mark" style="{more}left:{left}px;top:{top}px"'


def marks(count: int) -> str:
    """Return `count` empty marks, for scripts and styles; the n-th has the id ``m<n>``."""
    return "".join(f"<div id=m{number} {at(number)}></div>\n" for number in range(count))


_STYLE = (
    "body{margin:0}h1{font:20px sans-serif;margin:10px}.mark{position:absolute;width:100px;"
    "height:100px;background-color:#ddd;border:0;padding:0;margin:0;overflow:hidden;display:block}"
)
_SCRIPT = (
    "const mark=(n)=>document.getElementById('m'+n);"
    "const green=(n)=>{mark(n).style.backgroundColor='#008000'};"
    "const show=(n,url)=>{mark(n).style.backgroundImage='url('+JSON.stringify(url)+')'};"
)


def document(name: str, body: str, *, head: str = "", script: str = "", module: bool = False) -> str:
    """Return the page's HTML: title, style of the marks, and at the end a script.

    It may use ``green(n)``, which colours a mark, and ``show(n, url)``, which gives it a picture.
    """
    kind = ' type="module"' if module else ""
    end = f"<script{kind}>\n{script}\n</script>" if script else ""
    scripted = script or "<script" in body + head or "green(" in body
    tools = f"<script>{_SCRIPT}</script>" if scripted else ""
    return (
        f"<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>Acid: {escape(name)}</title>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<link rel=icon href=data:,><style>{_STYLE}</style>{tools}\n{head}</head>\n"
        f"<body><h1>Acid: {escape(name)}</h1>\n{body}\n{end}</body></html>\n"
    )


def html(text: str) -> SiteReply:
    return response(body=text)


def css(text: str) -> SiteReply:
    return response(body=text, content_type="text/css")


def js(text: str) -> SiteReply:
    """Return a script that every origin may read."""
    return response(body=text, content_type="text/javascript", headers=(("Access-Control-Allow-Origin", "*"),))


def cell(
    name: str,
    body: str = "",
    *,
    head: str = "",
    script: str = "",
    module: bool = False,
    files: Mapping[str, Answer] | None = None,
    must: str = "",
    never: str = "",
    count: int = 1,
    **more: object,
) -> AcidCell:
    """Return a cell whose page is `document`; `must` and `never` are URLs, or names below it, with blanks."""
    here = f"{ORIGIN}/{name}/"

    def urls(names: str) -> tuple[str, ...]:
        return tuple(each if "://" in each else here + each for each in names.split())

    text = document(name, body or marks(count), head=head, script=script, module=module)
    page = response(body=text, headers=(("Set-Cookie", VISITED + "; Path=/"),))  # sent to later pages of the context
    return AcidCell(
        name,
        page,
        files or {},
        must=urls(must),
        never=urls(never),
        marks=count,
        **more,  # type: ignore[arg-type]
    )
