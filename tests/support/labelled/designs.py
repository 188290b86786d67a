"""The made sites: pages in as many designs as fit, each a function of its words.

Marks that the mutations know: ``class=ad`` (an advertisement), ``carousel``, ``film``, ``icon``,
``avatar``, ``hero`` (a picture or a background that is the page's first sight), ``date``, ``count``,
``others`` (recommendations), ``main`` (what the page is there for), ``layout`` (the style sheet that
places things; the other one colours them).
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.support.labelled.words import SeededWords

Make = Callable[[SeededWords, SeededWords, int], str]


@dataclass(frozen=True, slots=True)
class SiteDesign:
    """A made site.

    Attributes:
        name: also of its file of pairs.
        make: the page of some words, the site's own words, and a number from which its pictures are
            counted.
        layout: CSS that places things.
        colours: CSS that colours them.
        width: of the viewport.
        languages: its own, and the one that it is shown in by mistake.
    """

    name: str
    make: Make
    layout: str
    colours: str
    width: int = 1280
    languages: tuple[str, str] = ("en", "de")


def picture(number: int, width: int, height: int, mark: str = "") -> str:
    """Return an ``<img>`` of a photograph."""
    return f'<img class="photo {mark}" src="/photo/{number}/{width}x{height}" width={width} height={height} alt="">'


def ad(number: int, width: int, height: int) -> str:
    """Return an advertisement."""
    return f'<div class=ad><img src="/ad/{number}/{width}x{height}" width={width} height={height} alt=""></div>'


def icon(number: int, size: int = 24) -> str:
    """Return an ``<img>`` of a small icon."""
    return f'<img class=icon src="/icon/{number}/{size}x{size}" width={size} height={size} alt="">'


def links(names: list[str]) -> str:
    """Return the names as list items with links."""
    return "".join(f'<li><a href="#{number}">{name}</a></li>' for number, name in enumerate(names))


def others(words: SeededWords, count: int = 6) -> str:
    """Return recommendations, which differ at every visit of a real site."""
    titles = "".join(f"<li><a href=#>{words.title()}</a></li>" for _ in range(count))
    return f"<div class=others><h4>{words.text('more')}</h4><ul>{titles}</ul></div>"


def when(words: SeededWords) -> str:
    """Return a line with a date, a name and a comment count."""
    return (
        f"<p class=meta><span class=date>{words.date()}</span> · {words.name()} · "
        f"<span class=count>{words.number(2, 900)}</span> {words.text('comments')}</p>"
    )


def _news(words: SeededWords, site: SeededWords, n: int) -> str:
    cards = "".join(
        f"<article>{picture(n + i, 280, 158)}<h3>{words.title()}</h3><p>{words.sentence()}</p>"
        f"<p class=meta>{words.number(1, 59)} min</p></article>"
        for i in range(1, 10)
    )
    return (
        f"<header><h1>{site.words(2, 3)}</h1><ul>{links(site.nav)}</ul></header>{ad(n, 728, 90)}"
        f"<div class=main><section class=lead>{picture(n, 640, 380, 'hero')}<div><h2>{words.title()}</h2>"
        f"<p>{words.paragraph(2, 3)}</p>{when(words)}</div></section><div class=cards>{cards}</div></div>"
        f"<footer>{site.sentence()}</footer>"
    )


NEWS = SiteDesign(
    "news",
    _news,
    "body{margin:0;font:16px/1.4 'DejaVu Serif',serif} header{padding:12px 40px} header ul{display:flex;gap:24px;list-style:none;padding:0}"
    ".ad{text-align:center;padding:14px}.lead{display:flex;gap:28px;padding:10px 40px}.cards{display:grid;grid-template-columns:repeat(4,1fr);gap:18px;padding:10px 40px}"
    "article img{max-width:100%}footer{padding:30px 40px}",
    "header{border-bottom:3px solid #b00}h1{color:#b00;margin:0}a{color:#222;text-decoration:none}.meta{color:#777;font-size:13px}footer{background:#222;color:#ddd}",
)


def _article(words: SeededWords, site: SeededWords, n: int) -> str:
    body = "".join(f"<p>{words.paragraph()}</p>" + (picture(n + i, 660, 330) if i in (1, 4) else "") for i in range(8))
    return (
        f"<header><b>{site.words(2, 2)}</b><nav>{''.join(f'<a href=#>{each}</a>' for each in site.nav)}</nav></header>"
        f"<div class=page><div class=main><h1>{words.title()}</h1>{when(words)}{picture(n, 660, 300, 'hero')}{body}</div>"
        f"<aside>{ad(n, 300, 250)}{others(words)}{ad(n + 1, 300, 600)}</aside></div><footer>{site.sentence()}</footer>"
    )


ARTICLE = SiteDesign(
    "article",
    _article,
    "body{margin:0;font:17px/1.55 Georgia,'DejaVu Serif',serif}header{display:flex;gap:40px;padding:16px 60px}nav a{margin-right:18px}"
    ".page{display:flex;gap:50px;width:1060px;margin:20px auto}.main{width:680px}aside{width:300px;font-size:15px}.ad{margin-bottom:20px}footer{padding:40px 60px}",
    "header{background:#123a5c;color:#fff}nav a{color:#cde}a{color:#15598f}.meta{color:#888}footer{background:#eee}body{background:#fdfdfb}",
)


def _shop(words: SeededWords, site: SeededWords, n: int) -> str:
    goods = "".join(
        f"<div class=good>{picture(n + i, 220, 220)}<b>{words.words(2, 4)}</b><p>{words.words(4, 8)}</p>"
        f"<p class=price>€ {words.number(3, 90)}.{words.number(10, 99)}</p><button>{site.text('more')}</button></div>"
        for i in range(12)
    )
    facets = "".join(
        f"<h4>{site.words(1, 1)}</h4>"
        + "".join(f"<label><input type=checkbox> {site.words(1, 2)}</label><br>" for _ in range(6))
        for _ in range(4)
    )
    return (
        f"<header>{icon(n, 32)}<b>{site.words(1, 2)}</b><input value='' placeholder='…'><span>{icon(n + 1)} <i class=count>{n % 9}</i></span></header>"
        f"<div class=page><aside>{facets}</aside><div class='main goods'>{goods}</div></div><footer>{site.sentence()}</footer>"
    )


SHOP = SiteDesign(
    "shop",
    _shop,
    "body{margin:0;font:14px/1.4 'DejaVu Sans',sans-serif}header{display:flex;gap:30px;align-items:center;padding:14px 50px}header input{flex:1;height:30px}"
    ".page{display:flex;padding:20px 50px;gap:30px}aside{width:190px}.goods{display:grid;grid-template-columns:repeat(4,1fr);gap:16px}.good{padding:10px;min-height:330px}footer{padding:30px 50px}",
    "header{background:#f7b500}.good{border:1px solid #ddd;border-radius:6px}.price{color:#c00;font-weight:bold}button{background:#232f3e;color:#fff;border:0;padding:7px}footer{background:#232f3e;color:#fff}",
)


def _forum(words: SeededWords, site: SeededWords, n: int) -> str:
    posts = "".join(
        f"<div class=post><div class=who><img class=avatar src='/photo/{n + i}/64x64' width=64 height=64 alt=''><b>{words.name()}</b>"
        f"<br>{words.number(5, 4000)}</div><div><p class=meta><span class=date>{words.date()}</span></p>{words.paragraphs(words.number(1, 3))}</div></div>"
        for i in range(9)
    )
    return (
        f"<header><h2>{site.words(2, 3)}</h2></header><p class=path>{' / '.join(site.nav[:3])}</p>"
        f"<div class=main><h1>{words.title()}</h1>{posts}</div><footer>{site.sentence()}</footer>"
    )


FORUM = SiteDesign(
    "forum",
    _forum,
    "body{margin:0;font:13px/1.45 Verdana,'DejaVu Sans',sans-serif}header,.path,.main,footer{padding:8px 30px}.post{display:flex;margin-bottom:10px}.who{width:150px;padding:12px}.post>div+div{padding:4px 16px;flex:1}",
    "body{background:#dfe6ef}header{background:#36588c;color:#fff}.post{background:#fff;border:1px solid #9bb1d0}.who{background:#eef2f8}.meta{color:#888}h1{font-size:20px}",
)


def _table(words: SeededWords, site: SeededWords, n: int) -> str:
    rows = "".join(
        f"<tr><td>{i + 1}</td><td>{words.name()}</td>"
        + "".join(f"<td>{words.number(0, 99_999):,}</td>" for _ in range(7))
        + f"<td>{words.words(1, 2)}</td></tr>"
        for i in range(48)
    )
    heads = "".join(f"<th>{site.words(1, 1)}</th>" for _ in range(10))
    return (
        f"<h1>{words.title()}</h1><p>{words.paragraph(2, 3)}</p><div class=main><table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div><p>{site.sentence()} <span class=date>{words.date()}</span></p>"
    )


TABLE = SiteDesign(
    "table",
    _table,
    "body{margin:30px 60px;font:14px/1.3 'DejaVu Sans',sans-serif}table{border-collapse:collapse;width:100%}td,th{padding:5px 10px;text-align:right}td:nth-child(2),td:last-child{text-align:left}",
    "th{background:#2c5d3f;color:#fff}tr:nth-child(even){background:#eef5ef}td{border-bottom:1px solid #cdd}h1{color:#2c5d3f}",
)


def _dark(words: SeededWords, site: SeededWords, n: int) -> str:
    posts = "".join(
        f"<div class=entry><h2>{words.title()}</h2>{when(words)}<p>{words.paragraph(3, 5)}</p><pre>{code(words, 6)}</pre></div>"
        for _ in range(5)
    )
    return (
        f"<header><h1>{site.words(1, 2)}</h1><ul>{links(site.nav[:5])}</ul></header>"
        f"<div class=main>{posts}</div><footer>{site.sentence()}</footer>"
    )


def code(words: SeededWords, lines: int) -> str:
    """Return lines of a program that does nothing."""
    return "\n".join(
        "    " * words.number(0, 2) + words.words(1, 3).lower().replace(" ", "_") + f"({words.number(0, 999)})"
        for _ in range(lines)
    )


DARK = SiteDesign(
    "dark",
    _dark,
    "body{margin:0 auto;width:860px;font:15px/1.6 'DejaVu Sans',sans-serif}header{display:flex;justify-content:space-between;padding:20px 0}ul{display:flex;gap:20px;list-style:none}pre{padding:14px;font:13px/1.4 'DejaVu Sans Mono'}",
    "html{background:#14171c}body{color:#c8ccd4}h1,h2{color:#fff}a{color:#6cb6ff}pre{background:#1f242c;color:#a5d6a7}.meta{color:#7c8490;font-size:12px}",
)


def _landing(words: SeededWords, site: SeededWords, n: int) -> str:
    cards = "".join(
        f"<div>{icon(n + i, 48)}<h3>{words.words(2, 3)}</h3><p>{words.paragraph(1, 2)}</p></div>" for i in range(3)
    )
    return (
        f"<header><b>{site.words(1, 1)}</b><ul>{links(site.nav[:6])}</ul></header>"
        f"<div class=main><div class='hero stage' style='background-image:url(/photo/{n}/1280x520)'><h1>{words.title()}</h1><p>{words.sentence()}</p><a class=go>{site.text('more')}</a></div>"
        f"<div class=cards>{cards}</div><div class=split>{picture(n + 1, 560, 320)}<div><h2>{words.title()}</h2><p>{words.paragraph(4, 5)}</p></div></div></div><footer>{site.sentence()}</footer>"
    )


LANDING = SiteDesign(
    "landing",
    _landing,
    "body{margin:0;font:16px/1.5 'DejaVu Sans',sans-serif}header{display:flex;justify-content:space-between;padding:4px 50px;align-items:center}ul{display:flex;gap:20px;list-style:none}.stage{height:520px;padding:130px 80px 0;box-sizing:border-box;background-size:cover}.cards{display:flex;gap:30px;padding:40px 80px}.cards>div{flex:1}.split{display:flex;gap:40px;padding:20px 80px 60px}footer{padding:20px 80px}",
    ".stage{color:#fff;text-shadow:0 1px 4px #000}.go{background:#e4572e;color:#fff;padding:12px 26px;border-radius:4px}footer{background:#111;color:#aaa}a{color:#333}",
)


def _gallery(words: SeededWords, site: SeededWords, n: int) -> str:
    tiles = "".join(
        f"<figure>{picture(n + i, 280, 210)}<figcaption>{words.words(2, 5)}</figcaption></figure>" for i in range(16)
    )
    return f"<h1>{words.words(2, 4)}</h1><p>{words.sentence()}</p><div class='main tiles'>{tiles}</div><p>{site.sentence()}</p>"


GALLERY = SiteDesign(
    "pictures",
    _gallery,
    "body{margin:24px 50px;font:15px 'DejaVu Sans',sans-serif}.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:10px}figure{margin:0}figcaption{padding:6px 0 14px}",
    "body{background:#f4f4f2;color:#333}figcaption{color:#777;font-size:12px}h1{font-weight:normal}",
)


def _arabic(words: SeededWords, site: SeededWords, n: int) -> str:
    items = "".join(
        f"<article>{picture(n + i, 240, 150) if i % 2 == 0 else ''}<div><h2>{words.title()}</h2>{when(words)}<p>{words.paragraph(2, 4)}</p></div></article>"
        for i in range(6)
    )
    return f"<header><h1>{site.words(2, 2)}</h1><ul>{links(site.nav)}</ul></header><div class=main>{items}</div><footer>{site.sentence()}</footer>"


ARABIC = SiteDesign(
    "arabic",
    _arabic,
    "body{margin:0;font:17px/1.7 'DejaVu Sans',sans-serif}header{padding:10px 60px}ul{display:flex;gap:26px;list-style:none;padding:0}.main{padding:10px 60px}article{display:flex;gap:24px;margin-bottom:18px}footer{padding:20px 60px}",
    "header{background:#0b6e4f;color:#fff}header a{color:#dfe}.meta{color:#999;font-size:13px}article{border-bottom:1px solid #ddd}footer{background:#eee}",
    languages=("ar", "en"),
)


def _manual(words: SeededWords, site: SeededWords, n: int) -> str:
    sections = "".join(
        f"<h2>{words.words(2, 4)}</h2><p>{words.paragraph(2, 4)}</p><pre>{code(words, words.number(4, 9))}</pre><p>{words.paragraph(1, 2)}</p>"
        for _ in range(6)
    )
    tree = "".join(f"<li><a href=#>{site.words(1, 3)}</a></li>" for _ in range(30))
    return f"<nav><b>{site.words(2, 2)}</b><input placeholder='…'><ul>{tree}</ul></nav><div class=main><h1>{words.title()}</h1>{sections}</div>"


MANUAL = SiteDesign(
    "manual",
    _manual,
    "body{margin:0;display:flex;font:16px/1.6 'DejaVu Sans',sans-serif}nav{width:280px;padding:20px;flex:none;font-size:14px}.main{padding:20px 50px;width:720px}pre{padding:12px;font:13px/1.4 'DejaVu Sans Mono'}",
    "nav{background:#2b3e50;color:#fff}nav a{color:#b8c7d6}pre{background:#f3f6f8;border:1px solid #d5dde3}h1,h2{color:#2b3e50}",
)


def _map(words: SeededWords, site: SeededWords, n: int) -> str:
    places = "".join(f"<li><b>{words.name()}</b><br>{words.words(3, 6)}</li>" for _ in range(10))
    script = (
        "const c=document.querySelector('canvas').getContext('2d');let s=SEED;const r=()=>(s=(s*16807)%2147483647)/2147483647;"
        "c.fillStyle='#e8e4d8';c.fillRect(0,0,900,760);for(let i=0;i<46;i++){c.strokeStyle=['#fff','#f6d36b','#bbb'][i%3];c.lineWidth=2+i%6;"
        "c.beginPath();c.moveTo(r()*900,r()*760);c.lineTo(r()*900,r()*760);c.stroke()}for(let i=0;i<14;i++){c.fillStyle=['#a8d5a2','#9cc9e8'][i%2];"
        "c.fillRect(r()*880,r()*740,40+r()*120,30+r()*90)}c.fillStyle='#444';c.font='14px DejaVu Sans';for(let i=0;i<22;i++)c.fillText('Street '+i,r()*820,r()*740);"
    ).replace("SEED", str(n + 1))
    return (
        f"<header><b>{site.words(1, 2)}</b><input placeholder='…'></header><div class=page><aside><h2>{words.words(2, 3)}</h2><ul>{places}</ul></aside>"
        f"<div class=main><canvas width=900 height=760></canvas></div></div><script>{script}</script>"
    )


MAP = SiteDesign(
    "map",
    _map,
    "body{margin:0;font:14px/1.4 'DejaVu Sans',sans-serif}header{padding:10px 20px;display:flex;gap:20px}.page{display:flex}aside{width:340px;padding:10px 20px;box-sizing:border-box}li{margin-bottom:14px}",
    "header{background:#1a73e8;color:#fff}aside{background:#fff}ul{list-style:none;padding:0}",
)


def _form(words: SeededWords, site: SeededWords, n: int) -> str:
    fields = "".join(
        f"<label>{words.words(2, 4)}</label><input value='{words.name()}'><small>{words.sentence()}</small>"
        for _ in range(11)
    )
    return (
        f"<header>{icon(n, 40)} <b>{site.words(2, 4)}</b></header><div class=main><h1>{words.title()}</h1><p>{words.paragraph(2, 3)}</p>"
        f"<form>{fields}<label><input type=checkbox checked> {words.sentence()}</label><button>{site.text('more')}</button></form></div>"
    )


FORM = SiteDesign(
    "form",
    _form,
    "body{margin:0;font:18px/1.4 'DejaVu Sans',sans-serif}header{padding:10px 90px;font-size:22px}.main{width:660px;margin:20px 90px}label,small{display:block}input:not([type]){display:block;width:420px;height:34px;font-size:16px;margin-bottom:4px}small{margin-bottom:18px;font-size:14px}",
    "header{background:#0b0c0c;color:#fff}small{color:#505a5f}button{background:#00703c;color:#fff;padding:10px 20px;border:0}",
)


def _timeline(words: SeededWords, site: SeededWords, n: int) -> str:
    notes = "".join(
        f"<div class=note><img class=avatar src='/photo/{n + i}/48x48' width=48 height=48 alt=''><div><b>{words.name()}</b> <span class=date>{words.number(1, 59)} min</span>"
        f"<p>{words.paragraph(1, 2)}</p>{picture(n + i, 500, 260) if i % 4 == 1 else ''}<p class=acts>{icon(1)} <span class=count>{words.number(0, 999)}</span> {icon(2)} <span class=count>{words.number(0, 999)}</span></p></div></div>"
        for i in range(11)
    )
    return f"<div class=left><h2>{site.words(1, 1)}</h2><ul>{links(site.nav)}</ul></div><div class=main>{notes}</div><div class=right>{others(words, 8)}</div>"


TIMELINE = SiteDesign(
    "timeline",
    _timeline,
    "body{margin:0;display:flex;font:15px/1.4 'DejaVu Sans',sans-serif}.left{width:240px;padding:20px}.main{width:600px}.note{display:flex;gap:12px;padding:12px 16px}.right{padding:20px;width:300px}ul{list-style:none;padding:0}li{margin-bottom:12px}",
    ".main{border:solid #e6ecf0;border-width:0 1px}.note{border-bottom:1px solid #e6ecf0}.acts,.date{color:#657786;font-size:13px}.others{background:#f5f8fa;padding:12px;border-radius:12px}a{color:#1da1f2;text-decoration:none}",
)


def _paper(words: SeededWords, site: SeededWords, n: int) -> str:
    sheets = "".join(
        f"<div class=sheet><p class=no>{site.words(2, 4)} · {i + 1}</p><h2>{i + 1}. {words.words(2, 4)}</h2><div class=columns>{words.paragraphs(7)}</div></div>"
        for i in range(5)
    )
    return f"<div class=main>{sheets}</div>"


PAPER = SiteDesign(
    "paper",
    _paper,
    "body{margin:0;padding:20px 0;font:12.5px/1.35 'DejaVu Serif',serif}.sheet{width:780px;height:1080px;margin:0 auto 20px;padding:50px 60px;box-sizing:border-box;overflow:hidden}.columns{columns:2;column-gap:26px;text-align:justify}",
    "html{background:#525659}.sheet{background:#fff;box-shadow:0 2px 8px #000}.no{color:#666}",
)


def _blog(words: SeededWords, site: SeededWords, n: int) -> str:
    posts = "".join(
        f"<article><h2>{words.title()}</h2>{when(words)}{words.paragraphs(3)}<a href=#>{site.text('more')}</a></article>"
        for _ in range(5)
    )
    return (
        f"<header><h1>{site.words(2, 4)}</h1><p>{site.sentence()}</p></header><div class=main>{posts}</div>"
        f"<aside>{others(words, 9)}<p>{words.paragraph(2, 2)}</p>{ad(n, 160, 600)}</aside>"
    )


BLOG = SiteDesign(
    "blog",
    _blog,
    "body{margin:0;font:16px/1.6 'DejaVu Serif',serif;display:grid;grid-template-columns:1fr 300px;gap:0 40px;padding:0 10%}header{grid-column:1/3;padding:40px 0}",
    "header{text-align:center;border-bottom:1px solid #ccc}h2{color:#833}a{color:#833}.meta{font-style:italic;color:#999}aside{font-size:14px}",
    width=1024,
    languages=("de", "en"),
)


def _russian(words: SeededWords, site: SeededWords, n: int) -> str:
    items = "".join(
        f"<li><a href=#>{words.title()}</a> <span class=count>{words.number(3, 400)}</span><p>{words.paragraph(1, 2)}</p></li>"
        for _ in range(14)
    )
    return (
        f"<header><h1>{site.words(1, 2)}</h1>{links(site.nav)}</header><div class=page><div class=main>{picture(n, 560, 300, 'hero')}<ol>{items}</ol></div>"
        f"<aside><p class=date>{words.date()}</p>{ad(n, 300, 250)}{others(words)}</aside></div><footer>{site.sentence()}</footer>"
    )


RUSSIAN = SiteDesign(
    "russian",
    _russian,
    "body{margin:0;font:15px/1.45 'DejaVu Sans',sans-serif}header{padding:10px 40px;display:flex;gap:16px;align-items:center;list-style:none}.page{display:flex;gap:30px;padding:20px 40px}.main{flex:1}aside{width:300px}footer{padding:20px 40px}",
    "header{background:#fff;border-bottom:2px solid #fc0}h1{color:#c00}a{color:#04b}.count{color:#090}footer{background:#f5f5f5}",
    languages=("ru", "el"),
)


def _film(words: SeededWords, site: SeededWords, n: int) -> str:
    side = "".join(
        f"<div class=next>{picture(n + i, 168, 94)}<div><b>{words.title()}</b><p class=count>{words.number(1, 999)}</p></div></div>"
        for i in range(8)
    )
    return (
        f"<header>{icon(n, 32)}<input placeholder='…'></header><div class=page><div class=main><img class=film src='/frame/{n % 20}/800x450' width=800 height=450 alt=''>"
        f"<h1>{words.title()}</h1>{when(words)}<p>{words.paragraph(3, 5)}</p>{words.paragraphs(3)}</div><aside>{side}</aside></div>"
    )


FILM = SiteDesign(
    "film",
    _film,
    "body{margin:0;font:14px/1.45 'DejaVu Sans',sans-serif}header{display:flex;gap:40px;padding:10px 24px}header input{width:500px;height:28px}.page{display:flex;gap:24px;padding:16px 24px}.main{width:800px}.next{display:flex;gap:8px;margin-bottom:10px}h1{font-size:20px}",
    "body{background:#f9f9f9}.meta,.count{color:#606060}header{background:#fff;border-bottom:1px solid #ddd}",
)


def _phone(words: SeededWords, site: SeededWords, n: int) -> str:
    items = "".join(
        f"<article>{picture(n + i, 372, 200)}<h2>{words.title()}</h2><p>{words.paragraph(1, 2)}</p>{when(words)}</article>"
        for i in range(6)
    )
    return f"<header>☰ <b>{site.words(1, 2)}</b></header><div class=main>{items}{ad(n, 320, 50)}</div><footer>{site.sentence()}</footer>"


PHONE = SiteDesign(
    "phone",
    _phone,
    "body{margin:0;font:16px/1.4 'DejaVu Sans',sans-serif}header{padding:14px 20px;font-size:20px}.main{padding:0 20px}h2{font-size:19px;margin:6px 0}footer{padding:20px}",
    "header{background:#6a1b9a;color:#fff}article{border-bottom:1px solid #ddd;padding:10px 0}.meta{color:#888;font-size:12px}footer{background:#333;color:#ddd}",
    width=412,
)


def _carousel(words: SeededWords, site: SeededWords, n: int) -> str:
    news = "".join(f"<div><b>{words.title()}</b><p>{words.paragraph(2, 3)}</p></div>" for _ in range(9))
    return (
        f"<header><h1>{site.words(3, 5)}</h1><ul>{links(site.nav)}</ul></header><div class=carousel>{picture(n, 1160, 300)}<p><b>{words.title()}</b></p></div>"
        f"<div class='main grid'>{news}</div><footer><div class=columns>{links([site.words(1, 3) for _ in range(24)])}</div></footer>"
    )


CAROUSEL = SiteDesign(
    "university",
    _carousel,
    "body{margin:0;font:15px/1.5 'DejaVu Sans',sans-serif}header{padding:16px 60px}ul{display:flex;gap:22px;list-style:none;padding:0}.carousel{padding:0 60px}.grid{display:grid;grid-template-columns:repeat(3,1fr);gap:24px;padding:20px 60px}footer{padding:30px 60px}.columns{columns:4}",
    "header{border-top:8px solid #8c1515}h1{color:#8c1515;font-size:26px}a{color:#8c1515}.carousel p{background:#8c1515;color:#fff;margin:0;padding:12px}footer{background:#f4f4f4}",
    languages=("el", "en"),
)


def _plain(words: SeededWords, site: SeededWords, n: int) -> str:
    return (
        f"<h1>{words.title()}</h1><p><i>{words.name()}, <span class=date>{words.date()}</span></i></p><div class=main>{words.paragraphs(16)}</div>"
        f"<hr><p>{' | '.join(f'<a href=#>{each}</a>' for each in site.nav)}</p>"
    )


PLAIN = SiteDesign("plain", _plain, "", "", languages=("en", "ru"))


def _poster(words: SeededWords, site: SeededWords, n: int) -> str:
    return (
        f"<div class=main>{picture(n, 1100, 560, 'hero')}<p>{words.title()}. {words.sentence()}</p></div>"
        f"<footer>{site.words(2, 4)} · <span class=date>{words.date()}</span></footer>"
    )


POSTER = SiteDesign(
    "poster",
    _poster,
    "body{margin:40px 90px;font:16px 'DejaVu Serif',serif}footer{margin-top:30px}",
    "body{background:#fbf9f4}footer{color:#999}",
)


def _album(words: SeededWords, site: SeededWords, n: int) -> str:
    long = "".join(
        f"<h2>{words.words(2, 4)}</h2>{picture(n + i, 760, 400) if i % 2 else ''}{words.paragraphs(4)}"
        for i in range(12)
    )
    return f"<header><b>{site.words(2, 3)}</b></header><div class=main><h1>{words.title()}</h1>{long}</div><footer>{site.sentence()}</footer>"


ALBUM = SiteDesign(
    "travel",
    _album,
    "body{margin:0;font:18px/1.6 'DejaVu Serif',serif}header{padding:20px}.main{width:760px;margin:0 auto}footer{padding:40px}",
    "header{background:#20413c;color:#fff}h1,h2{color:#20413c}footer{background:#eee}",
)

SITES = (
    NEWS, ARTICLE, SHOP, FORUM, TABLE, DARK, LANDING, GALLERY, ARABIC, MANUAL, MAP, FORM, TIMELINE,
    PAPER, BLOG, RUSSIAN, FILM, PHONE, CAROUSEL, PLAIN, POSTER, ALBUM,
)  # fmt: skip


def page(site: SiteDesign, number: int, language: str) -> str:
    """Return the HTML of a page of the site."""
    words = SeededWords(language, f"{site.name}-{number}")
    own = SeededWords(language, site.name)
    body = site.make(words, own, sum(map(ord, site.name)) + 40 * number)
    return (
        f"<!doctype html><html lang={language} dir={words.direction}><head><meta charset=utf-8><title>{words.title()}</title>"
        f"<style class=layout>{site.layout}</style><style class=colours>{site.colours}</style></head><body>{body}</body></html>"
    )
