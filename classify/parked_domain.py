"""Parked, expired, suspended and for-sale domains, and default pages of servers.

Parking services are recognised by the hosts that their pages request; a mere link to one does not count.
Default pages are recognised by their titles.
"""

import re2

from classify.evidence import ClassFindings, PageEvidence, entries, expression, host_in

PARKERS = frozenset(entries("parked", "parkers"))
_SHOPS = re2.compile(expression("parked", "shops"))
_PATHS: list[tuple[str, str]] = entries("parked", "paths")
_NOT_ALONE = frozenset(entries("parked", "not_alone"))
NEEDLES: dict[str, str] = entries("parked", "needles")
_DEFAULTS = re2.compile(expression("parked", "defaults"))
_LONG_DEFAULTS = re2.compile(expression("parked", "long_defaults"))
_SALE = re2.compile(expression("parked", "sale"))
_RELATED = re2.compile(expression("parked", "related"))
_BELOW_DEFAULT = re2.compile(expression("parked", "below_default"))


def judge_parked(page: PageEvidence) -> ClassFindings:
    """Collect findings for a parked or unused domain."""
    case = ClassFindings()
    shop = _SHOPS.search(f"{page.final.hostname or ''}{page.final.path}")
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
            how = "It is a frame around" if framed else "It asked"
            case.add(weight, f"{how} {parker}, a parking service or seller of domains.")
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
    about = (*page.title_parts[:1], *page.seen.headings[:3])
    called = next((match[0] for each in about if (match := _SALE.search(each.lower()))), "")
    if called:
        case.add(0.6, f"It is called “{called[:100]}”.")
    match = _SALE.search(page.words) if page.volume < 2_000 else None
    if match and page.seen.links < 40:
        case.add(0.45, f"It says “{match[0][:100]}”.")
        if page.volume < 600:
            case.add(0.35, "It says little else.")
    if case.score and _RELATED.search(page.words):
        case.add(0.4, "It is a list of advertisements.")
    own = (page.final.hostname or "").removeprefix("www.")
    if case.score and own and own in page.title_parts[:1]:
        case.add(0.3, "Its title is the domain's name.")


def _judge_default_page(page: PageEvidence, case: ClassFindings) -> None:
    """Add findings for the default page of a server or host without a site."""
    called = page.called(_DEFAULTS)
    limit = 4_000 if _LONG_DEFAULTS.search(called) else 1_200
    if not called or page.prose > limit or page.seen.links > 40:
        return
    case.add(0.6, f"It is called “{called[:100]}”, as default pages are.")
    below = _BELOW_DEFAULT.search(page.words)
    if below:
        case.add(0.6, f"It says “{below[0][:100]}”.")
    elif page.volume < 200:
        case.add(0.5, "It says little else.")
