"""Held-out pages that are read: news, stories, manuals, encyclopaedias, forms."""

from tests.support.heldout.saying import SeededText, advertisement, chart, drawing, photo


def courier(say: SeededText) -> str:
    """Return the front page of a newspaper."""
    base = say.number(0, 50) * 100
    stories = "".join(
        f"<article>{photo(base + n, 250, 150, 'loading=lazy alt=')}<h3>{say.head()}</h3><p>{say.sentence()}</p></article>"
        for n in range(1, 10)
    )
    return f"""<header><div class="wrap mast"><span data-is="logo">{drawing(1, 180, 40)}</span>
<small data-is="clock">Tuesday, 4 March 2025 · 07:41 · 11°C</small></div><nav>{say.nav()}</nav></header>
<div class="wrap cols"><main data-is="matter"><section class="lead">{photo(base, 500, 320, 'data-is="hero"')}
<div><h1>{say.head(6, 9)}</h1><p>{say.text(3)}</p><small data-is="clock">1,204 comments · 3 min ago</small></div></section>
<div class="grid3">{stories}</div></main><aside data-is="side">{advertisement(3, 300, 250)}
<h4>Most read</h4><ol>{say.items(8)}</ol></aside></div><footer><div class="wrap">{say.text(3)}</div></footer>"""


def gazette(say: SeededText) -> str:
    """Return a long magazine article with a large photo, an embedded post and comments."""
    base = say.number(0, 50) * 100 + 7
    comments = "".join(f"<li>{drawing(n + 40, 36, 36)}<b>{say.name()}</b><p>{say.text(2)}</p></li>" for n in range(4))
    return f"""<header class="wrap mast"><span data-is="logo">{drawing(2, 200, 48)}</span><nav>{say.nav()}</nav></header>
<article class="wrap" data-is="matter"><h1>{say.head(7, 10)}</h1><p class="stand">{say.text(2)}</p>
<small>By {say.name()} · <span data-is="clock">12 February 2024</span></small>
<figure>{photo(base, 760, 400, 'data-is="hero" alt="A view"')}<figcaption>{say.sentence()}</figcaption></figure>
{say.paragraphs(3)}<iframe data-is="frame" src="/embed/{base}" width="520" height="220"></iframe>{say.paragraphs(3)}</article>
<section class="wrap comments" data-is="comments"><h2>4 comments</h2><ul>{comments}</ul></section>"""


def handbook(say: SeededText) -> str:
    """Return a program's documentation: chapters at the left, code between the words."""
    chapters = "".join(f"<li>{say.head(1, 3)}</li>" for _ in range(26))
    parts = "".join(f"<h2>{say.head(2, 4)}</h2>{say.paragraphs(1, 4)}<pre>{_code(say, 6)}</pre>" for _ in range(4))
    return f"""<header class="bar"><span data-is="logo">{drawing(3, 28, 28)}</span> <b>Handbook 4.2</b>
<input placeholder="Search the docs"></header><div class="cols"><aside data-is="side"><ul>{chapters}</ul></aside>
<main data-is="matter"><h1>{say.head(2, 4)}</h1>{say.paragraphs(1, 3)}<div class="note">{say.text(2)}</div>{parts}</main></div>"""


def _code(say: SeededText, lines: int) -> str:
    return "\n".join(
        f"{say.words(1)} = {say.words(1)}({say.number(1, 99)}, &quot;{say.words(2)}&quot;)" for _ in range(lines)
    )


def nocturne(say: SeededText) -> str:
    """Return a dark blog."""
    posts = "".join(
        f"<article><h2>{say.head(4, 8)}</h2><small>{say.number(1, 28)} May · {say.number(2, 9)} min</small>{photo(say.number(0, 999), 640, 240) if n == 1 else ''}{say.paragraphs(2, 4)}</article>"
        for n in range(3)
    )
    return f"""<header class="wrap"><b class="brand">nocturne_</b><nav>{say.nav()}</nav></header>
<div class="wrap cols"><main data-is="matter">{posts}</main><aside data-is="side">
{drawing(7, 80, 80, 'data-is="icon"')}<p>{say.text(2)}</p><ul>{say.items(6)}</ul></aside></div>"""


def permit(say: SeededText) -> str:
    """Return a form of an authority."""
    fields = "".join(
        f"<div class=field><label>{say.head(2, 5)} <em>*</em></label><small>{say.sentence(4, 9)}</small><input value='{say.words(1) if n % 3 else ''}'></div>"
        for n in range(9)
    )
    return f"""<header class="bar"><div class="wrap"><span data-is="logo">{drawing(5, 36, 36)}</span> <b>Office of {say.name()}</b></div></header>
<div class="wrap"><nav>Home &rsaquo; Services &rsaquo; {say.head(1, 2)}</nav><main data-is="matter"><h1>{say.head(3, 6)}</h1>{say.paragraphs(1, 3)}
<div class="note"><b>!</b> {say.text(1)}</div><form>{fields}<label><input type=checkbox> {say.sentence()}</label><p><button type=button>Continue</button></p></form></main></div>
<footer><div class="wrap">{say.text(2)}</div></footer>"""


def kitchen(say: SeededText) -> str:
    """Return a recipe."""
    base = say.number(0, 50) * 5 + 4
    steps = "".join(f"<li>{say.text(2)}</li>" for _ in range(6))
    return f"""<header><div class="wrap mast"><i class="brand">Kitchen &amp; Table</i><nav>{say.nav()}</nav></div></header>
<div class="wrap"><main data-is="matter"><h1>{say.head(3, 5)}</h1><div class="meta"><i data-icon>★</i> 4.6 <i data-icon>⏱</i> 45 min
<i data-icon>☺</i> 4</div>{photo(base, 900, 460, 'data-is="hero"')}<p>{say.text(3)}</p>
<div class="cols"><div class="box"><h3>Ingredients</h3><ul>{say.items(10, 2, 4)}</ul></div><ol>{steps}</ol></div></main>
{advertisement(11, 728, 90)}<section data-is="comments"><h3>Comments</h3>{say.paragraphs(3, 2)}</section></div>"""


def lexicon(say: SeededText) -> str:
    """Return an encyclopaedia's article with an infobox."""
    facts = "".join(f"<tr><th>{say.head(1, 2)}</th><td>{say.head(1, 4)}</td></tr>" for _ in range(11))
    sections = "".join(f"<h2>{say.head(1, 3)}</h2>{say.paragraphs(2, 5)}" for _ in range(3))
    return f"""<div class="cols"><aside data-is="side"><div data-is="logo">{drawing(6, 120, 110)}</div><ul>{say.items(16, 1, 3)}</ul></aside>
<main><h1>{say.head(1, 3)}</h1><hr><div data-is="matter"><table class="box" data-is="infobox"><caption>{say.head(1, 3)}</caption>
<tr><td colspan=2>{photo(say.number(0, 200) * 5 + 3, 240, 280, 'data-is="hero"')}</td></tr>{facts}</table>
{say.paragraphs(2, 6)}<ol class="toc">{say.items(5, 1, 3)}</ol>{sections}</div></main></div>"""


def report(say: SeededText) -> str:
    """Return a paper, page after page, as a document viewer shows it."""
    leaves = "".join(
        f"<section><p class=no>{n + 1}</p><h2>{n + 1}. {say.head(2, 5)}</h2>{say.paragraphs(4, 5)}</section>"
        for n in range(2)
    )
    return f'<div class="bar">report.pdf — 1 / 14 <span>100 %</span></div><main data-is="matter">{leaves}</main>'


def diwan(say: SeededText) -> str:
    """Return a newspaper article that reads from right to left."""
    base = say.number(0, 90) * 5 + 1
    others = "".join(f"<li>{photo(base + n, 110, 74)}<b>{say.head(3, 6)}</b></li>" for n in range(1, 7))
    return f"""<div dir="rtl"><header><div class="wrap mast"><b class="brand">{say.head(1, 2)}</b><nav>{say.nav()}</nav></div></header>
<div class="wrap cols"><main data-is="matter"><h1>{say.head(6, 9)}</h1><small data-is="clock">٤ مارس ٢٠٢٥</small>
{photo(base, 640, 360, 'data-is="hero"')}{say.paragraphs(5)}</main><aside data-is="side"><ul class="list">{others}</ul>{advertisement(21, 300, 250)}</aside></div></div>"""


def agora(say: SeededText) -> str:
    """Return a museum's page."""
    base = say.number(0, 90) * 5 + 2
    rooms = "".join(
        f"<article>{photo(base + n, 320, 220, 'loading=lazy')}<h3>{say.head(2, 4)}</h3><p>{say.text(2)}</p></article>"
        for n in range(1, 4)
    )
    return f"""<header class="wrap mast"><span data-is="logo">{drawing(9, 60, 60)}</span><nav>{say.nav()}</nav></header>
<div class="wrap" data-is="matter"><h1>{say.head(2, 4)}</h1><p class="stand">{say.text(3)}</p><div class="grid3">{rooms}</div>
<h2>{say.head(2, 3)}</h2>{say.paragraphs(2, 5)}</div><footer><div class="wrap" data-is="clock">10:00 &ndash; 18:00</div></footer>"""


def chronicle(say: SeededText) -> str:
    """Return a very long page: a chronicle of years."""
    years = "".join(
        f"<h2>{1900 + n}</h2>{photo(n * 5, 420, 200) if n % 3 == 0 else ''}{say.paragraphs(2, 6)}" for n in range(30)
    )
    return f"<header class=bar><b>{say.head(2, 4)}</b></header><div class=wrap><main data-is=matter><h1>{say.head(3, 5)}</h1>{years}</main></div>"


def bare(say: SeededText) -> str:
    """Return a nearly empty page: a domain's placeholder."""
    return f"<div class=box data-is=matter><h1>{say.head(2, 2)}</h1><p>{say.text(2)}</p><p><a href=#>{say.head(2, 2)}...</a></p></div>"


def shot(say: SeededText) -> str:
    """Return a page of one picture."""
    return f"<main data-is=matter>{photo(say.number(0, 99) * 5, 1100, 720, 'data-is=hero')}</main>"


def pocket(say: SeededText) -> str:
    """Return an article on a phone."""
    return f"""<header class="bar"><span data-is="logo">{drawing(13, 90, 24)}</span><i data-icon>☰</i></header>
<main data-is="matter"><h1>{say.head(5, 8)}</h1>{photo(say.number(0, 90) * 5, 390, 230, 'data-is="hero"')}<small data-is="clock">2 h ago</small>
{say.paragraphs(2, 4)}{advertisement(31, 300, 250)}{say.paragraphs(3, 4)}</main>"""


def plan(say: SeededText) -> str:
    """Return a contact page with a map and addresses."""
    return f"""<header class="bar"><div class="wrap"><b>{say.head(2, 3)}</b><nav>{say.nav()}</nav></div></header><div class="wrap" data-is="matter">
<h1>{say.head(2, 4)}</h1><div class="cols">{chart(say.number(0, 99), 740, 480, 'data-is="frame"')}<div><h3>{say.head(1, 3)}</h3>
<ul>{say.items(7, 3, 6)}</ul><p>{say.text(2)}</p></div></div><p>{say.text(3)}</p></div>"""
