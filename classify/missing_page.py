"""Pages that are not there any more: soft 404s by their wording, near-empty pages, parked and unused domains.

A title or heading must equal the phrase, not contain it, and two findings are required: pages about missing pages, and
lists without entries, are pages. A mere link to a parking service does not count.
"""

import re2

from classify.evidence import (
    ClassFindings,
    PageEvidence,
    PhraseExpressions,
    entries,
    expression,
    host_in,
    normalize_text,
)

_ERROR_TITLES = re2.compile(expression("soft_404", "error_titles").replace("{names}", expression("soft_404", "names")))
_SOFT_404 = PhraseExpressions("soft_404")
_WORD_ENDS = re2.compile(r"[^\pL\pN]+")
_SPECIFIC = re2.compile(r"\d{3}|[-_][^-_/]+[-_]|\.(?:html?|php|aspx?|pdf|jsp|cfm)$")
_EMPTY_CHARS = 6
# Of pages with so few letters a spinner or an empty canvas is the content.
_FEW_CHARS = 200
_PLACEHOLDERS = 0.2  # of the screen
_CANVAS = 0.3  # of the screen
UNFINISHED = "The page was not finished: "  # begins evidence that a later visit may be better


def judge_soft_404(page: PageEvidence) -> ClassFindings:
    """Collect findings for a missing page with a success status."""
    case = ClassFindings()
    if page.has_moved:
        _judge_redirect(page, case)
    if page.prose >= 1_200 or page.volume >= 12_000:
        return case  # words are about something here
    title = next((part for part in page.title_parts if _ERROR_TITLES.fullmatch(part)), "")
    if title:
        case.add(0.4 if title.isdigit() else 0.6, f"Its title is “{title}”.")
    heading = next((part for part in page.heading_parts if _ERROR_TITLES.fullmatch(part)), "")
    if heading:
        case.add(0.4 if heading.isdigit() else 0.5, f"Its heading is “{heading}”.")
    apology = _SOFT_404.apologies.search(page.words) if page.prose < 900 else None
    if apology and (title or heading or case.score):
        case.add(0.52, f"It says “{apology[0][:100]}”.")
    elif apology and page.volume < 250 and page.seen.links < 8:
        case.add(0.6, f"It says little more than “{apology[0][:100]}”.")
    elif not heading and _ERROR_TITLES.fullmatch(page.words.strip(" .!")):
        case.add(0.75, f"It says nothing but “{page.words[:100]}”.")
    robots = f"{page.seen.robots} {page.headers.get('x-robots-tag', '')}".lower()
    if "noindex" in robots and (title or heading or apology):
        case.add(0.25, "It asks not to be indexed.")
    return case


def _judge_redirect(page: PageEvidence, case: ClassFindings) -> None:
    if _SOFT_404.error_paths.search(page.final.path):
        case.add(0.6, f"Redirects led to {page.final.path[:100]}, an address of errors.")
        return
    segments = [each for each in page.wanted.path.split("/") if each]
    if _SOFT_404.error_queries.search(page.final.query):
        case.add(0.7, "Redirects led to an address that says that it is an error's.")
        return
    to_root = page.final.path in ("", "/") and not page.final.query
    if not to_root or not segments or _SOFT_404.homes.fullmatch(segments[-1]):
        return
    # A page whose title matches the URL's last segment has only moved.
    words = [each for each in _WORD_ENDS.split(segments[-1]) if len(each) > 3]
    words = [each for each in words if not each.isdigit()]
    called = " ".join((*page.title_parts[:1], *(normalize_text(each) for each in page.seen.headings[:3])))
    matches = sum(each in called for each in words)
    if matches and matches >= min(2, len(words)):
        return
    if len(segments) > 1 and _SPECIFIC.search(segments[-1]):
        case.add(0.72, "Redirects led from a page deep in a site to a home page.")
    elif len(segments) > 1:
        case.add(0.55, "Redirects led to a home page.")


def judge_near_empty(page: PageEvidence) -> ClassFindings:
    """Collect findings for a page without text and pictures."""
    case = ClassFindings()
    traits = page.seen
    if page.traits is None or not page.is_rendered or traits.is_frameset:
        return case
    if _SOFT_404.waiting.fullmatch(page.words) and not traits.media and not traits.frames:
        case.add(0.8, f"{UNFINISHED}it says only “{page.words[:100]}”.")
        return case
    something = traits.pictures or traits.media or traits.frames
    is_few = page.volume < _FEW_CHARS and not something
    if is_few and traits.plain_share >= _CANVAS:
        case.add(0.8, f"{UNFINISHED}its canvas shows nothing.")
    elif is_few and traits.busy_share:
        case.add(0.8, f"{UNFINISHED}it shows that it is loading.")
    elif traits.busy_share >= _PLACEHOLDERS and page.prose < _FEW_CHARS:
        case.add(0.75, f"{UNFINISHED}{traits.busy_share:.0%} of the screen are placeholders.")
    something = something or traits.fields
    if case.evidence or something or (traits.links and page.words):
        return case
    if not page.words:
        case.add(0.95, "There is no text on it, no picture, and nothing that plays.")
    elif page.volume < _EMPTY_CHARS and not traits.headings:
        case.add(0.75, f"It says only “{page.words}”.")
    return case


PARKERS = frozenset(entries("parked", "parkers"))
_PARKED = PhraseExpressions("parked")
_PATHS: list[tuple[str, str]] = entries("parked", "paths")
_NOT_ALONE = frozenset(entries("parked", "not_alone"))
NEEDLES: dict[str, str] = entries("parked", "needles")


def judge_parked(page: PageEvidence) -> ClassFindings:
    """Collect findings for a parked or unused domain."""
    case = ClassFindings()
    shop = _PARKED.shops.search(f"{page.final.hostname or ''}{page.final.path}")
    sold = host_in(page.final.hostname or "", PARKERS)
    if page.has_moved and (page.final.hostname != page.wanted.hostname) and (sold or shop):
        strong = shop or sold not in _NOT_ALONE
        case.add(0.85 if strong else 0.3, f"Redirects led to {page.final.hostname}, a seller of domains.")
    _judge_default_page(page, case)
    if page.prose >= 900 or page.volume >= 6_000:
        return case
    _judge_requests(page, case)
    _judge_wording(page, case)
    return case


def _judge_requests(page: PageEvidence, case: ClassFindings) -> None:
    own = page.wanted.hostname or ""
    for host in sorted(page.hosts):
        parker = host_in(host, PARKERS)
        if parker and not host_in(own, frozenset({parker})):
            framed = page.seen.is_frameset or (page.seen.frames and page.volume < 100)
            weight = 0.9 if framed else 0.4 if parker in _NOT_ALONE else 0.8
            phrase = "It is a frame around" if framed else "It asked"
            case.add(weight, f"{phrase} {parker}, a parking service or seller of domains.")
            break
    for path, sentence in _PATHS:
        if any(path in each for each in page.loaded):
            case.add(0.8, f"{sentence}.")
            break
    if page.final.path.startswith(("/cgi-sys/suspendedpage", "/cgi-sys/defaultwebpage")):
        case.add(0.9, f"The host's own page was shown ({page.final.path}).")
    for needle in sorted(page.seen.needles & NEEDLES.keys()):
        case.add(0.75, f"A script of the page belongs to {NEEDLES[needle]}.")
    # GoDaddy's script leads every path of a parked domain there.
    if page.final.path == "/lander" and page.has_moved and page.volume < 1_500:
        case.add(0.6, "A script led to /lander, where GoDaddy parks domains.")


def _judge_wording(page: PageEvidence, case: ClassFindings) -> None:
    titles = (*page.title_parts[:1], *page.seen.headings[:3])
    called = next((match[0] for each in titles if (match := _PARKED.sale.search(each.lower()))), "")
    if called:
        case.add(0.6, f"It is called “{called[:100]}”.")
    match = _PARKED.sale.search(page.words) if page.volume < 2_000 else None
    if match and page.seen.links < 40:
        case.add(0.45, f"It says “{match[0][:100]}”.")
        if page.volume < 600:
            case.add(0.35, "It contains little else.")
    if case.score and _PARKED.related.search(page.words):
        case.add(0.4, "It is a list of advertisements.")
    own = (page.final.hostname or "").removeprefix("www.")
    if case.score and own and own in page.title_parts[:1]:
        case.add(0.3, "Its title is the domain's name.")


def _judge_default_page(page: PageEvidence, case: ClassFindings) -> None:
    """Add findings for the default page of a server or host without a site."""
    called = page.called(_PARKED.defaults)
    limit = 4_000 if _PARKED.long_defaults.search(called) else 1_200
    if not called or page.prose > limit or page.seen.links > 40:
        return
    case.add(0.6, f"It is called “{called[:100]}”, as default pages are.")
    below = _PARKED.below_default.search(page.words)
    if below:
        case.add(0.6, f"It says “{below[0][:100]}”.")
    elif page.volume < 200:
        case.add(0.5, "It contains little else.")
