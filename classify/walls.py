"""Consent walls and login walls.

A banner on a readable page is no wall, nor is a login box in a page's header: a wall has little other
text. A login page requested under its own address is a page.
"""

from urllib.parse import SplitResult

import re2

from classify.evidence import ClassFindings, PageEvidence, entries, expression, host_in, normalize_text

_CONSENT_HOSTS = frozenset(entries("walls", "consent_hosts"))
_CONSENT_NAMES = re2.compile(expression("walls", "consent_names"))
_CONSENT_PATHS = re2.compile(expression("walls", "consent_paths"))
MARKS: dict[str, str] = entries("walls", "marks")
_CONSENT_WORDS = re2.compile(expression("walls", "consent_words"))
_ASKING_WORDS = re2.compile(expression("walls", "asking_words"))
_PAYING_WORDS = re2.compile(expression("walls", "paying_words"))

_LOGIN_PATHS = re2.compile(expression("walls", "login_paths"))
_LOGIN_HOSTS = frozenset(entries("walls", "login_hosts"))
_LOGIN_NAMES = re2.compile(expression("walls", "login_names"))
_RETURNS = re2.compile(expression("walls", "returns"))
_LOGIN_TITLES = re2.compile(expression("walls", "login_titles"))
_VIEWING_WORDS = re2.compile(expression("walls", "viewing_words"))
_LOGIN_WORDS = re2.compile(expression("walls", "login_words"))


def judge_consent_wall(page: PageEvidence) -> ClassFindings:
    """Collect findings for a cookie consent question in place of the page."""
    case = ClassFindings()
    host = page.final.hostname or ""
    named = host_in(host, _CONSENT_HOSTS) or _CONSENT_NAMES.search(host)
    if page.has_moved and named:
        case.add(0.9, f"Redirects led to {host}, where readers are asked for consent.")
    elif page.has_moved and _CONSENT_PATHS.search(page.final.path):
        case.add(0.55, f"Redirects led to {page.final.path[:100]}.")
    if page.prose >= 900:
        return case if named else ClassFindings()
    _overlay(page, case)
    _question(page, case)
    return case


def _overlay(page: PageEvidence, case: ClassFindings) -> None:
    seen = page.seen
    if seen.overlay_share < 0.75:
        return
    marked = sorted(seen.marks & MARKS.keys())
    over = normalize_text(seen.overlay_text[:6_000])
    asks = _CONSENT_WORDS.search(over) is not None
    share = f"{seen.overlay_share:.0%} of the view"
    if marked and (asks or not over):
        case.add(0.75, f"A consent dialog ({marked[0]}) covers {share}.")
    elif asks and _ASKING_WORDS.search(over):
        case.add(0.72, f"A question about cookies covers {share}.")
    else:
        return
    case.add(0.3, "There is little to read below it.")


def _question(page: PageEvidence, case: ClassFindings) -> None:
    """Add findings for a page that is itself the question."""
    words = page.words
    if page.volume > 3_000 or page.seen.links > 40 or not _CONSENT_WORDS.search(words):
        return
    # One word about cookies stands on many a page; the question has all three.
    question = _ASKING_WORDS.search(words)
    if not question:
        return
    case.add(0.4, f"It asks for consent (“{question[0]}”).")
    paying = _PAYING_WORDS.search(words)
    if paying:
        case.add(0.55, f"It offers to be paid instead (“{paying[0]}”).")
    about = (*page.title_parts, *page.heading_parts)
    called = next((part for part in about if _CONSENT_WORDS.search(part)), "")
    if called:
        case.add(0.4, f"It is called “{called[:100]}”.")


def judge_login_wall(page: PageEvidence) -> ClassFindings:
    """Collect findings for a page restricted to members or subscribers."""
    case = ClassFindings()
    if page.prose >= 1_500:
        return case
    thin = page.is_thin and page.prose < 500
    wants_login = _LOGIN_PATHS.search(_target(page.wanted)) is not None
    if wants_login and not page.has_moved:
        return ClassFindings()
    if page.has_moved and not wants_login:
        _judge_login_redirect(page, case)
    called = page.called(_LOGIN_TITLES)
    viewing, words = _VIEWING_WORDS.search(page.words), _LOGIN_WORDS.search(page.words)
    if thin and page.seen.passwords:
        # Of a source it is not known whether the field is shown.
        weight = 0.5 if page.is_rendered else 0.3
        case.add(weight, "There is a password to enter, and little to read.")
        if not page.seen.headings and page.volume < 200 and page.seen.links <= 10:
            case.add(0.45, "There is nothing else.")
    if thin and called:
        case.add(0.45, f"It is called “{called[:100]}”.")
    if viewing and (page.volume < 1_500 or page.seen.is_paywalled):
        case.add(0.45, f"It says “{viewing[0][:100]}”.")
    elif words and (page.volume < 1_500 or page.seen.is_paywalled):
        case.add(0.45 if page.seen.is_paywalled else 0.3, f"It says “{words[0][:100]}”.")
    if page.seen.is_paywalled:
        case.add(0.5, "It says of itself that it is not accessible for free.")
    if page.status in (401, 402, 403) and case.score:
        case.add(0.3, f"The document came with status {page.status}.")
    return case


def _judge_login_redirect(page: PageEvidence, case: ClassFindings) -> None:
    host = page.final.hostname or ""
    foreign = host != (page.wanted.hostname or "")
    place = _LOGIN_PATHS.search(_target(page.final))
    if host_in(host, _LOGIN_HOSTS):
        case.add(0.75, f"Redirects led to {host}, where readers log in.")
    elif place:
        case.add(0.6, f"Redirects led to {page.final.path[:100]}, where readers log in.")
    elif foreign and _LOGIN_NAMES.search(host):
        case.add(0.4, f"Redirects led to {host}.")
    else:
        return
    if _RETURNS.search(page.final.query):
        case.add(0.3, "The address says where to come back to.")


def _target(url: SplitResult) -> str:
    return f"{url.path}?{url.query}" if url.query else url.path
