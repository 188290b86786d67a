"""Acid cells about what a page shows by markup and style alone: images, styles, fonts, frames."""

from tests.support.sites import hosts
from tests.support.sites.acid_cell import AcidCell, at, cell, css, document, html
from tests.support.sites.encodings import brotli_stored, deflated, gzipped
from tests.support.sites.http1 import Answer, PacedWriter, chunked_head, response

_INNER = "<!doctype html><style>body,iframe,img{margin:0;border:0;display:block}</style>"
_APART = f"https://{hosts.APART}"
_SPRITE = (
    "<svg xmlns='http://www.w3.org/2000/svg'><symbol id='s' viewBox='0 0 10 10'>"
    "<rect width='10' height='10' fill='#008000'/></symbol></svg>"
)


def _coded(n: int, coding: str, body: bytes) -> Answer:
    return response(body=body, content_type="text/css", headers=(("Content-Encoding", coding),))


def _rule(n: int) -> bytes:
    return f"#m{n}{{background:#008000}}".encode()


async def _chunked(out: PacedWriter) -> None:
    await out.write(chunked_head("text/css"))
    for at_ in range(0, len(_rule(3)), 5):
        await out.chunk(_rule(3)[at_ : at_ + 5])
    await out.chunk(b"")


_BACKGROUNDS = """<style>
#m0{background:url("class.png")}
#m2::before{content:"";position:absolute;inset:0;background:url(before.png)}
#m3::after{content:url(after.png)}
:root{--picture:url(variable.png)}#m4{background:var(--picture)}
#m5{background:url(first.png) 0 0/50px 100px no-repeat,url(second.png) 50px 0/50px 100px no-repeat}
#m6{box-sizing:border-box;border:50px solid;border-image:url(border.png) 30 fill}
#m7{background:#008000;-webkit-mask-image:url(mask.png);mask-image:url(mask.png)}
#m8{background-image:image-set(url(set-1.png) 1x,url(set-2.png) 2x)}
:root{--mask:url(mask.svg)}#m9{background:#008000;mask:var(--mask)}
</style>"""

_MODERN = """<style>
#m0{container-type:inline-size}@container (min-width:50px){#m0>i{background:#008000}}
i{display:block;width:100px;height:100px}
#m1:has(b){background:url(has.png)}
#m2{& i{background:#008000}}
@supports (display:grid){#m3{background:url(supports.png)}}
@layer low,high;@layer high{#m4 i{background:#008000}}@layer low{#m4 i{background:red}}
@media screen and (min-width:100px){#m5{background:url(screen.png)}}
@media print{#m5{background:red}}
#m6{background:linear-gradient(#008000,#008000)}
@property --c{syntax:'<color>';inherits:false;initial-value:#008000}#m7{background:var(--c)}
@scope (#m8){i{background:#008000}}
</style>"""

SHOWING: tuple[AcidCell, ...] = (
    cell(
        "css-import",
        count=3,
        head="<link rel=stylesheet href=a.css><style>@import 'inline.css' screen;</style>",
        files={
            "a.css": css("@import url(b/b.css) layer(base); #m0{background:url(one.png)}"),
            "b/b.css": css("@import 'c/c.css' screen and (min-width: 10px);"),
            "b/c/c.css": css("@import url('../../d.css?deep=3'); #m1{background:url(two.png)}"),
            "d.css": css("#m2{background:url(b/c/three.png)}"),
            "inline.css": css("h1{background:url(inline.png)}"),
        },
        must="a.css b/b.css b/c/c.css d.css?deep=3 one.png b/c/two.png b/c/three.png inline.css inline.png",
    ),
    cell(
        "fonts",
        "".join(
            f"<div {at(n)}><span style='font:100px/100px f{n},serif;color:#008000'>X</span></div>" for n in range(4)
        ),
        head=(
            "<style>@font-face{font-family:f0;src:url(nought.woff2) format('woff2')}"
            "@font-face{font-family:f1;src:local('None'),url(one.ttf)}</style>"
        ),
        script=(
            "new FontFace('f2', 'url(two.woff2)').load().then((face) => document.fonts.add(face));"
            "fetch('three.ttf').then((answer) => answer.arrayBuffer()).then((bytes) =>"
            " document.fonts.add(new FontFace('f3', bytes)));"
        ),
        count=4,
        must="nought.woff2 one.ttf two.woff2 three.ttf",
    ),
    cell(
        "frames",
        f"<iframe {at(0)} src=one.html></iframe><iframe {at(1)} src={_APART}/frames/far.html></iframe>"
        f"<iframe {at(2)} src={_APART}/frames/mixed.html></iframe>",
        count=3,
        files={
            "one.html": html(_INNER + "<iframe src=two.html height=100></iframe>"),
            "two.html": html(_INNER + "<iframe src=three.html height=100></iframe>"),
            "three.html": html(_INNER + "<img src=innermost.png><p>in the third frame</p>"),
            "far.html": html(_INNER + "<iframe src=far2.html height=100></iframe>"),
            "far2.html": html(_INNER + "<iframe src=far3.html height=100></iframe>"),
            "far3.html": html(_INNER + "<img src=far.png>"),
            "mixed.html": html(_INNER + f"<iframe src=https://{hosts.ACID}/frames/back.html height=100></iframe>"),
            "back.html": html(_INNER + f"<iframe src={_APART}/frames/far3.html height=100></iframe>"),
        },
        must=f"one.html two.html three.html innermost.png back.html {_APART}/frames/far.html"
        f" {_APART}/frames/far2.html {_APART}/frames/far3.html {_APART}/frames/far.png"
        f" {_APART}/frames/mixed.html",
        text="in the third frame",
    ),
    cell(
        "srcdoc",
        f'<iframe {at(0)} srcdoc="<style>body{{margin:0}}</style><img src=said.png>"></iframe>',
        must="said.png",
    ),
    cell(
        "srcset",
        f'<img {at(0)} srcset="one-1x.png 1x, one-2x.png 2x">'
        f'<img {at(1)} sizes="100px" srcset="s-100.png 100w, s-200.png 200w, s-400.png 400w" src=s.png>'
        f'<picture><source media="(min-width: 99999px)" srcset=huge.png>'
        f'<source media="(min-width: 1px)" srcset=art.png><img {at(2)} src=plain.png></picture>'
        f'<picture><source type="image/none" srcset=none.png><source type="image/avif" srcset=t.avif>'
        f"<img {at(3)} src=t.jpg></picture>"
        f'<picture><source type="image/webp" srcset=w.webp><img {at(4)} src=w.gif></picture>'
        f"<img {at(5)} src=only.gif>",
        count=6,
        must="art.png t.avif w.webp only.gif",
    ),
    cell(
        "backgrounds",
        f"<div id=m0 {at(0)}></div><div {at(1, 'background:url(inline.png);')}>"
        "</div>" + "".join(f"<div id=m{n} {at(n)}></div>" for n in range(2, 10)),
        head=_BACKGROUNDS,
        count=10,
        must="class.png inline.png before.png after.png variable.png first.png second.png border.png"
        " mask.png mask.svg set-1.png",
    ),
    cell(
        "modern-css",
        "".join(f"<div id=m{n} {at(n)}>{'<b></b>' if n == 1 else '<i></i>'}</div>" for n in range(9)),
        head=_MODERN,
        count=9,
        must="has.png supports.png screen.png",
    ),
    cell(
        "old-images",
        f"<table {at(0)} background=table.png><tr><td></table>"
        f"<input type=image alt=x src=input.png {at(1)}>"
        f"<div {at(2)}><font color=#008000><table bgcolor=#008000 width=100 height=100><tr><td></table>"
        "</font></div>",
        count=3,
        must="table.png input.png",
    ),
    cell(
        "objects",
        f"<object {at(0)} data=object.png type=image/png></object><embed {at(1)} src=embed.png>"
        f"<object {at(2)} data=page.html type=text/html></object>"
        f"<object {at(3)} data=none.xyz type=application/x-none><img src=fallback.png></object>",
        count=4,
        files={"page.html": html(_INNER + "<img src=in-object.png>")},
        must="object.png embed.png page.html in-object.png fallback.png",
    ),
    cell(
        "svg",
        f"<img {at(0)} src=image.svg>"
        f"<svg {at(1)} viewBox='0 0 10 10'><rect width=10 height=10 fill=#008000 /></svg>"
        f"<svg {at(2)}><use href=sprite.svg#s width=100 height=100 /></svg>"
        f"<svg {at(3)}><image href=inner.png width=100 height=100 /></svg>"
        f"<div {at(4, 'background-image:url(back.svg);')}></div>"
        f"<svg {at(5)} viewBox='0 0 10 10'><style>.f{{fill:#008000}}</style>"
        "<g transform='scale(2)'><path class=f d='M0 0H5V5H0z'/></g></svg>"
        f"<svg {at(6)} viewBox='0 0 20 20'><g fill=#008000><use x=5 y=5 href=shapes.svg#p /></g></svg>"
        f"<svg {at(7)}><use href=sprite.svg#s width=100 height=100 /></svg>"
        f"<svg {at(8)} viewBox='0 0 10 10'><path class=brand d='M0 0H10V10H0z' fill=red /></svg>"
        f"<svg {at(9)} viewBox='0 0 10 10'><g class=held><rect class=wide /></g></svg>",
        head="<style>:root{--brand:#008000}.mark .brand{fill:var(--brand)}.held{color:#008000}"
        ".wide{width:100px;height:20px;fill:currentColor;transform:scale(.1,.5)}</style>",
        count=10,
        files={
            "sprite.svg": response(body=_SPRITE, content_type="image/svg+xml"),
            "shapes.svg": response(
                body="<svg xmlns='http://www.w3.org/2000/svg'><path id='p' d='M-5-5h20v20h-20z'/></svg>",
                content_type="image/svg+xml",
            ),
        },
        must="image.svg sprite.svg shapes.svg inner.png back.svg",
    ),
    cell(
        "mathml",
        f"<div {at(0)}><math style='background:#008000;color:#008000;width:100px;height:100px'>"
        "<mi>x</mi><mo>=</mo><mn>42</mn></math></div>",
        text="42",
    ),
    cell(
        "base-href",
        f"<img {at(0)} src=image.png><img {at(1)} src=/base-href/root.png>",
        head="<base href=/base-href/deep/er/>",
        count=2,
        must="deep/er/image.png root.png",
    ),
    cell(
        "codings",
        count=4,
        head="".join(f"<link rel=stylesheet href={n}.css>" for n in range(4)),
        files={
            "0.css": _coded(0, "gzip", gzipped(_rule(0))),
            "1.css": _coded(1, "br", brotli_stored(_rule(1))),
            "2.css": _coded(2, "deflate", deflated(_rule(2))),
            "3.css": _chunked,
        },
        must="0.css 1.css 2.css 3.css",
    ),
    cell(
        "moved-parts",
        "".join(
            f"<img {at(n)} src=/moved/{status}/moved-parts/{status}.png>"
            for n, status in enumerate((301, 302, 303, 307, 308))
        )
        + f"<div id=m5 {at(5)}></div><div id=m6 {at(6)}></div>"
        + f"<img {at(7)} src={_APART}/moved/302/moved-parts/apart.png>",
        head=(
            "<link rel=stylesheet href=/moved/301/moved-parts/style.css>"
            "<script defer src=/moved/302/moved-parts/script.js></script>"
        ),
        count=8,
        files={
            "style.css": css("#m5{background:url(/moved/307/moved-parts/back.png)}"),
            "script.js": response(body="green(6)", content_type="text/javascript"),
        },
        must=" ".join(f"{s}.png" for s in (301, 302, 303, 307, 308))
        + f" style.css script.js back.png {_APART}/moved-parts/apart.png"
        f" https://{hosts.ACID}/moved/301/moved-parts/301.png",
    ),
    AcidCell(
        "xslt",
        response(
            body=(
                "<?xml version='1.0'?><?xml-stylesheet type='text/xsl' href='page.xsl'?>"
                "<acid>shown by a style sheet</acid>"
            ),
            content_type="application/xml",
        ),
        files={
            "page.xsl": response(
                body=(
                    "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>"
                    "<xsl:output method='html'/><xsl:template match='/'>"
                    + document("xslt", "<MARK/>")
                    .replace("<!doctype html>", "")
                    .replace("<meta charset=utf-8>", "")
                    .replace("<html lang=en>", "<html>")
                    .replace(
                        "<meta name=viewport content='width=device-width,initial-scale=1'><link rel=icon href=data:,>",
                        "<meta name='viewport' content='width=device-width,initial-scale=1'/>",
                    )
                    .replace("<MARK/>", f"<img {at(0)} src='shown.png'/>")
                    + "</xsl:template></xsl:stylesheet>"
                ),
                content_type="application/xslt+xml",
            )
        },
        must=tuple(f"https://{hosts.ACID}/xslt/{name}" for name in ("page.xsl", "shown.png")),
    ),
)
