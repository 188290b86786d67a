"""Pages of each class as a real browser meets them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from render.visit import Visit
from tests.render.conftest import RenderSite, StrictProxy
from tests.support.labelled_pictures import (
    CHALLENGES,
    CONSENTS,
    EMPTIES,
    ERRORS,
    LOGINS,
    MISSINGS,
    ORDINARY,
    PARAGRAPH,
    PARKINGS,
    LabelledPage,
    article,
    page,
)  # fmt: skip

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

Look = Callable[..., Awaitable[Visit]]
LEAN = {"view": False, "full_page": False, "thumbnail": False, "settle_s": 0.1}
_COVER = "position:fixed;inset:0;background:white;z-index:9999"
_BANNER = "position:fixed;left:0;right:0;bottom:0;height:150px;background:white;z-index:9999"
_CMP = (
    "<h2>We value your privacy</h2><p>We and our 842 partners store and access cookies.</p>"
    "<button>Accept all</button><button>Manage options</button>"
)
SHADOW = (
    "<div id=host></div><script>const r=document.getElementById('host').attachShadow({mode:'closed'});"
    f"r.innerHTML='<main>'+{PARAGRAPH!r}.repeat(6)+'</main>';</script>"
)

_SPINNER = "<div class=spinner style='width:40px;height:40px;border:4px solid'></div>"

# Those in which it matters that a browser looked: what is hidden, floats, has a size or is scripted.
SEEN = (
    LabelledPage("a dialog over a headline", PageClass.CONSENT_WALL, page("Site", f"<h1>A headline</h1><div id=cmpbox style='{_COVER}'>{_CMP}</div>")),
    LabelledPage("a dialog in a shadow root", PageClass.CONSENT_WALL, page("Site", f"<div id=usercentrics-root></div><script>document.getElementById('usercentrics-root').attachShadow({{mode:'open'}}).innerHTML=`<div style='{_COVER}'>{_CMP}</div>`</script>")),
    LabelledPage("a dialog over an article", PageClass.OK, article("Bread", f"<div id=cmpbox style='{_COVER}'>{_CMP}</div>")),
    LabelledPage("a banner on a short page", PageClass.OK, page("Bread", f"<h1>Bread</h1><p>Baked daily.</p><div id=cmpbox style='{_BANNER}'>{_CMP}</div>")),
    LabelledPage("an article in a shadow root", PageClass.OK, page("Bread", SHADOW)),
    LabelledPage("a background and nothing else", PageClass.OK, page("", "<div style='height:300px;background:url(/b.png)'></div>")),
    LabelledPage("what is hidden", PageClass.NEAR_EMPTY, page("App", f"<div style='display:none'>{PARAGRAPH}</div><img src=/p.png width=1 height=1>")),
    LabelledPage("a spinner", PageClass.NEAR_EMPTY, page("App", f"<p>One moment</p>{_SPINNER}")),
    LabelledPage("placeholders below a menu", PageClass.NEAR_EMPTY, page("App", "<nav><a href=/a>News</a> <a href=/b>Sport</a></nav>" + "<div class=skeleton-line style='height:70px;margin:9px;background:#ddd'></div>" * 8)),
    LabelledPage("a canvas of one colour", PageClass.NEAR_EMPTY, page("Scene", "<h1>Globe</h1><canvas width=900 height=600></canvas>")),
    LabelledPage("a drawn canvas", PageClass.OK, page("Scene", "<h1>Globe</h1><canvas width=900 height=600></canvas><script>document.querySelector('canvas').getContext('2d').fillRect(9,9,90,90)</script>")),
    LabelledPage("an article beside a spinner", PageClass.OK, article("Bread", _SPINNER)),
    LabelledPage("a spinner that has gone", PageClass.OK, page("Bread", f"<h1>Bread</h1><p>Baked daily by the two of us.</p><div style='opacity:0'>{_SPINNER}</div>")),
    LabelledPage("a hidden login", PageClass.OK, page("Bread", "<h1>Bread</h1><p>Baked daily by the two of us.</p><form style='display:none'><input type=password></form>")),
    LabelledPage("a script's soft 404", PageClass.SOFT_404, page("Example", "<div id=a></div><script>document.title='Page not found';document.getElementById('a').innerHTML='<h1>Page not found</h1><p>The page you requested does not exist.</p>'</script>")),
)  # fmt: skip


def chosen(labelled: tuple[LabelledPage, ...], *names: str) -> tuple[LabelledPage, ...]:
    pages = tuple(each for each in labelled if each.name in names)
    assert len(pages) == len(names)
    return pages


VISITED = (
    *SEEN,
    *chosen(CHALLENGES, "cloudflare managed", "akamai", "datadome", "anubis", "aws waf challenge"),
    *chosen(CONSENTS, "google asks first"),
    *chosen(LOGINS, "redirect to a login", "members only in place"),
    *chosen(PARKINGS, "parkingcrew", "frame only", "nginx"),
    *chosen(MISSINGS, "english", "japanese", "to the home page"),
    *chosen(EMPTIES, "nothing at all"),
    *chosen(ERRORS, "404 with rich content", "missing file"),
    *chosen(ORDINARY, "article about cloudflare", "article called 404 not found", "three lines",
            "short article with a login box", "plain text"),
)  # fmt: skip


def http(url: str) -> str:
    """Return the URL without TLS: the proxy answers for every host."""
    return url.replace("https://", "http://", 1)


def web_of(labelled: LabelledPage, site: RenderSite) -> Callable[[Any, asyncio.StreamWriter], Awaitable[None]]:
    """Return a handler that serves the page at its final URL, redirects there, and answers the rest with a script."""
    final = http(labelled.final_url or labelled.url)
    loads = "".join(f"<script src='{http(each)}'></script>" for each in labelled.requests)

    async def serve(request: Any, writer: asyncio.StreamWriter) -> None:
        url = f"http://{request.host}{request.path}"
        parts, headers = urlsplit(final), {"Content-Type": f"{labelled.mime}; charset=utf-8"}
        if url == f"http://{parts.netloc}{parts.path or '/'}" + (f"?{parts.query}" if parts.query else ""):
            status, body = labelled.status, (labelled.html + loads).encode()
            headers |= labelled.headers
        elif url == http(labelled.url):
            status, headers, body = 302, {"Location": final}, b""
        else:
            status, body = 200, b"/**/"
            headers = {"Content-Type": "text/javascript"}
        lines = [f"HTTP/1.1 {status} Because", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()

    return serve


@pytest.mark.parametrize("labelled", VISITED, ids=lambda each: f"{each.kind}: {each.name}")
async def test_a_visit_says_what_sort_of_page_it_was(
    labelled: LabelledPage, look: Look, site: RenderSite, proxy: StrictProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class is the same that its facts have on paper, and the visit is none the worse for it."""
    monkeypatch.setattr(site, "serve", web_of(labelled, site))
    seen = await look(http(labelled.url), proxy.endpoint(), **LEAN)

    classification = seen.classification
    assert (classification.kind, classification.evidence) == (labelled.kind, classification.evidence)
    assert seen.outcome is VisitOutcome.COMPLETE
    assert "classify" in seen.timings


async def test_a_page_that_shadows_everything_is_judged_all_the_same(
    look: Look, site: RenderSite, proxy: StrictProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forms that hide properties, and prototypes that lie, are outside of our world."""
    hostile = (
        "<h1>Page not found</h1><p>The page you requested does not exist.</p>"
        "<form><input name=querySelectorAll><input name=attributes><input name=parentNode></form>"
        "<script>Element.prototype.getBoundingClientRect=()=>{throw 1};"
        "document.querySelectorAll=()=>[];document.elementFromPoint=()=>{throw 1};"
        "String.prototype.slice=()=>{throw 1}</script>"
    )
    labelled = LabelledPage("hostile", PageClass.SOFT_404, page("Page not found", hostile))
    monkeypatch.setattr(site, "serve", web_of(labelled, site))
    seen = await look(http(labelled.url), proxy.endpoint(), **LEAN)

    assert seen.classification.kind is PageClass.SOFT_404


async def test_a_page_whose_text_is_not_kept_is_judged_by_it(
    look: Look, site: RenderSite, proxy: StrictProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages are classified by their text, even if the profile does not store it."""
    (gone,) = chosen(MISSINGS, "english")
    monkeypatch.setattr(site, "serve", web_of(gone, site))
    seen = await look(http(gone.url), proxy.endpoint(), text=False, dom=False, **LEAN)

    assert seen.artifacts == ()
    assert seen.classification.kind is PageClass.SOFT_404
    assert len(seen.classification.evidence) == 3


async def test_what_stands_in_frames_of_the_site_is_read(
    look: Look, site: RenderSite, proxy: StrictProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of frames is neither empty nor parked."""
    (frames,) = chosen(ORDINARY, "frames")
    monkeypatch.setattr(site, "serve", web_of(frames, site))
    seen = await look(http(frames.url), proxy.endpoint(), **LEAN)

    assert seen.classification.kind is PageClass.OK
