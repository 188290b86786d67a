"""Held-out pages that are used: shops, dashboards, forums, search, code, films."""

from tests.support.heldout.saying import SeededText, advertisement, drawing, photo


def _slides(say: SeededText, base: int, width: int, height: int) -> str:
    """Return a carousel whose first slide is shown and whose second is hidden."""
    slides = "".join(
        f'<div class="slide" {"" if n == 0 else "hidden"}>{photo(base + 51 + n, width, height)}<h2>{say.head(3, 5)}</h2></div>'
        for n in range(2)
    )
    return f'<div class="carousel" data-is="carousel">{slides}</div>'


def bazaar(say: SeededText) -> str:
    """Return a product list of a shop."""
    base = say.number(0, 40) * 100
    goods = "".join(
        f"<article>{photo(base + n, 190, 190, 'loading=lazy alt=')}<b>{say.head(2, 4)}</b><p>€ {say.number(4, 99)}.{say.number(10, 99)}</p><i data-icon>★</i> {say.number(20, 50) / 10}</article>"
        for n in range(12)
    )
    return f"""<header class="bar"><span data-is="logo">{drawing(21, 150, 36)}</span><input placeholder="Search"><i data-icon>⚲</i><i data-icon>☗</i></header>
<div class="wrap">{_slides(say, base, 1100, 200)}<div class="cols"><aside data-is="side"><h4>{say.head(1, 2)}</h4><ul>{say.items(14, 1, 2)}</ul></aside>
<main data-is="matter"><h1>{say.head(2, 3)}</h1><div class="grid4">{goods}</div></main></div></div><footer><div class="wrap">{say.text(3)}</div></footer>"""


def gauges(say: SeededText) -> str:
    """Return a dashboard: figures, two drawn charts, a table."""
    cards = "".join(
        f"<div class=card><small>{say.head(1, 2)}</small><b data-is=clock>{say.number(100, 9999):,}</b></div>"
        for _ in range(4)
    )
    rows = "".join(
        f"<tr><td>{say.head(2, 3)}</td><td>{say.number(1, 999)}</td><td>{say.number(1, 99)} %</td><td>{say.name()}</td></tr>"
        for _ in range(9)
    )
    return f"""<div class="cols"><aside data-is="side"><b>◆ gauges</b><ul>{say.items(9, 1, 2)}</ul></aside><main data-is="matter"><h1>{say.head(1, 3)}</h1>
<div class="grid4">{cards}</div><div class="grid2"><div class=card><canvas width=440 height=240 data-seed={say.number(1, 999)} data-sort=bars></canvas></div>
<div class=card><canvas width=440 height=240 data-seed={say.number(1, 999)} data-sort=line></canvas></div></div>
<table data-is=rows><thead><tr><th>{say.head(1, 1)}<th>{say.head(1, 1)}<th>%<th>{say.head(1, 1)}</tr></thead><tbody>{rows}</tbody></table></main></div>"""


def board(say: SeededText) -> str:
    """Return a thread of a forum: a question and its answers."""
    answers = "".join(
        f"<div class=post><div>{drawing(say.number(0, 900), 64, 64)}<b>{say.words(1)}{say.number(1, 99)}</b><small>{say.number(3, 4000)} posts</small></div><div>{say.paragraphs(1, 4)}</div></div>"
        for _ in range(6)
    )
    question = f"<div class=post><div>{drawing(say.number(0, 900), 64, 64)}<b>{say.words(1)}</b></div><div>{say.paragraphs(2, 3)}</div></div>"
    return f"""<header class="bar"><div class="wrap"><b>{say.head(1, 2)}</b> <nav>{say.nav()}</nav></div></header><div class="wrap">{advertisement(5, 728, 90)}
<div data-is="matter"><h1>{say.head(5, 9)}?</h1><small data-is="clock">3,411 views</small>{question}<div data-is="comments">{answers}</div></div></div>"""


def thumbs(say: SeededText) -> str:
    """Return a photo gallery."""
    base = say.number(0, 40) * 100
    pictures = "".join(photo(base + n, 205, 150, "loading=lazy alt=") for n in range(30))
    return f"<header class=bar><b>{say.head(1, 2)}</b> <small>30 photos</small></header><div class=wrap><div class=tiles data-is=matter>{pictures}</div></div>"


def launch(say: SeededText) -> str:
    """Return a product's landing page: one screen with a large photo behind the words, three promises."""
    base = say.number(0, 90) * 5
    promises = "".join(
        f"<div class=card>{drawing(60 + n, 48, 48, 'data-is=icon')}<h3>{say.head(1, 3)}</h3><p>{say.text(2)}</p></div>"
        for n in range(3)
    )
    return f"""<div class="hero">{photo(base, 1280, 520, 'data-is="hero"')}<div class="over"><h1>{say.head(3, 5)}</h1><p>{say.sentence()}</p><a class="button">Start free</a></div></div>
<div class="wrap" data-is="matter"><div class="grid3">{promises}</div><h2>{say.head(2, 4)}</h2>{say.paragraphs(1, 4)}</div><footer><div class="wrap">{say.text(1)}</div></footer>"""


def theatre(say: SeededText) -> str:
    """Return a theatre's page: a large carousel on little more than one screen."""
    base = say.number(0, 40) * 100
    return f"""<header class="bar"><b>{say.name()}</b> <nav>{say.nav()}</nav></header><div class="wrap">{_slides(say, base, 1100, 430)}
<div class="grid3" data-is="matter"><div><h3>{say.head(2, 3)}</h3><p>{say.text(1)}</p></div><div><h3>{say.head(2, 3)}</h3><p>{say.text(1)}</p></div><div><h3>{say.head(2, 3)}</h3><p>{say.text(1)}</p></div></div></div>"""


def code(say: SeededText) -> str:
    """Return a code repository: its files, its read-me."""
    files = "".join(
        f"<tr><td><i data-icon>▤</i> {say.words(1)}.py</td><td>{say.head(3, 6)}</td><td data-is=clock>{say.number(1, 11)} months ago</td></tr>"
        for _ in range(13)
    )
    lines = "\n".join(f"$ {say.words(1)} --{say.words(1)} {say.words(1)}" for _ in range(4))
    return f"""<header class="bar"><i data-icon>◉</i> {say.words(1)} / <b>{say.words(1)}</b></header><div class="wrap"><div class="cols"><main data-is="matter">
<table data-is="rows"><tbody>{files}</tbody></table><div class="card"><h1>{say.words(1)}</h1>{say.paragraphs(2, 3)}<pre>{lines}</pre><h2>{say.head(1, 2)}</h2>{say.paragraphs(1, 4)}</div></main>
<aside data-is="side"><h4>About</h4><p>{say.text(1)}</p><p><i data-icon>★</i> <span data-is="clock">4.1k stars</span></p></aside></div></div>"""


def screen(say: SeededText) -> str:
    """Return a film's page."""
    others = "".join(
        f"<li>{photo(say.number(0, 999), 160, 90)}<div><b>{say.head(3, 5)}</b><small>{say.name()}</small></div></li>"
        for _ in range(8)
    )
    comments = "".join(f"<p><b>@{say.words(1)}</b> {say.text(2)}</p>" for _ in range(6))
    return f"""<header class="bar"><span data-is="logo">{drawing(31, 110, 30)}</span><input placeholder="Search"></header><div class="cols"><main>
<div data-is="matter"><iframe data-is="frame" src="/film/{say.number(0, 999)}" width="820" height="460"></iframe><h1>{say.head(5, 8)}</h1>
<small data-is="clock">1,204,331 views</small><p>{say.text(3)}</p></div><section data-is="comments"><h3>Comments</h3>{comments}</section></main>
<aside data-is="side"><ul class="list">{others}</ul></aside></div>"""


def talk(say: SeededText) -> str:
    """Return a public chat's log."""
    lines = "".join(
        f"<div class='line {'mine' if n % 4 == 3 else ''}'>{drawing(n % 5 + 70, 32, 32)}<div><b>{say.words(1)}</b><span>{say.text(say.number(1, 3))}</span></div></div>"
        for n in range(11)
    )
    return f"<div class=cols><aside data-is=side><b># {say.words(1)}</b><ul>{say.items(14, 1, 2)}</ul></aside><main data-is=matter><h3>{say.head(2, 3)}</h3>{lines}<input placeholder='Message'></main></div>"


def entry(say: SeededText) -> str:
    """Return a sign-in page."""
    return f"""<div class="card" data-is="matter"><div data-is="logo">{drawing(33, 56, 56)}</div><h1>{say.head(2, 3)}</h1><label>{say.head(1, 2)}</label><input>
<label>{say.head(1, 1)}</label><input type=password><button type=button>{say.head(1, 2)}</button><p><a href=#>{say.head(2, 4)}</a></p></div><footer>{say.head(2, 3)} · {say.head(1, 2)}</footer>"""


def results(say: SeededText) -> str:
    """Return a page of search results."""
    hits = "".join(
        f"<div class=hit><small>{say.words(1)}.example &rsaquo; {say.words(1)}</small><h3>{say.head(4, 8)}</h3><p>{say.text(2)}</p></div>"
        for _ in range(8)
    )
    return f"""<header class="bar"><span data-is="logo">{drawing(35, 92, 30)}</span><input value="{say.words(3)}"></header>
<div class="wrap cols"><main><small data-is="clock">About 81,300 results (0.41 s)</small><div data-is="matter">{hits}</div></main><aside data-is="side">{advertisement(41, 300, 250)}</aside></div>"""


def departures(say: SeededText) -> str:
    """Return a timetable: a table and little else."""
    rows = "".join(
        f"<tr><td>{say.number(10, 23)}:{say.number(10, 59)}</td><td>{say.head(1, 2)}</td><td>{say.words(1).upper()} {say.number(10, 999)}</td><td>{say.number(1, 22)}</td><td>{say.words(1)}</td></tr>"
        for _ in range(24)
    )
    return f"""<header class="bar"><b>{say.name()}</b></header><div class="wrap"><h1>{say.head(1, 3)}</h1><div data-is="matter"><table data-is="rows">
<thead><tr><th>{say.head(1, 1)}<th>{say.head(1, 1)}<th>{say.head(1, 1)}<th>{say.head(1, 1)}<th>{say.head(1, 1)}</tr></thead><tbody>{rows}</tbody></table></div></div>"""


def weather(say: SeededText) -> str:
    """Return a weather forecast: coloured cards with symbols."""
    days = "".join(
        f"<div class=card><small>{say.words(1)}</small><i data-icon class=large>{sign}</i><b data-is=clock>{say.number(-4, 31)}°</b><p>{say.head(2, 3)}</p></div>"
        for sign in "☀☁☂☃☀☁☂"
    )
    return f"""<header class="bar"><b>{say.head(1, 2)}</b></header><div class="wrap" data-is="matter"><h1>{say.name()}</h1><div class="row">{days}</div>
<div class=card><canvas width=1040 height=220 data-seed={say.number(1, 999)} data-sort=line></canvas></div>{say.paragraphs(2, 4)}</div>"""
