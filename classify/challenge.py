"""Pages in place of the page: bot challenges and firewall refusals, consent walls, login walls.

A header or script that is sent for no other purpose is decisive. Wording counts only on a page with little other text,
and only as two findings together: an article about a challenge quotes its words. The traits come from the vendors'
documentation and headers.

A banner on a readable page is not a wall, nor a login box in a page's header, nor a login page requested as such.
"""

from urllib.parse import SplitResult

import re2

from classify.evidence import (
    ClassFindings,
    PageEvidence,
    PhraseExpressions,
    entries,
    expressions,
    host_in,
    normalize_text,
)

# Statuses that guards answer with.
GUARD_STATUSES = frozenset((200, 202, 400, 401, 403, 405, 406, 429, 468, 493, 503, 999))
# Of each guard: a header, its value, the finding for a page (empty: none), and the statuses with which it alone is
# proof for the link checker.
GUARD_HEADERS = (
    ("cloudflare", "cf-mitigated", "challenge", "Cloudflare reports that it sent a challenge", GUARD_STATUSES),
    ("aws-waf", "x-amzn-waf-action", "challenge|captcha", "AWS WAF reports that it sent a challenge", GUARD_STATUSES),
    ("datadome", "x-datadome", ".+", "", {403, 405}),
    ("datadome", "x-dd-b", ".+", "DataDome reports that it refused", {403, 405}),
    ("perimeterx", "x-px-block", ".+", "", GUARD_STATUSES - {200}),
    ("sucuri", "x-sucuri-block", ".+", "Sucuri's firewall reports that it refused", {403}),
    ("incapsula", "x-iinfo", ".+", "", {403}),
    ("incapsula", "x-cdn", "incapsula|imperva", "", {403}),
    ("vercel", "x-vercel-mitigated", "challenge|deny", "Vercel's firewall reports that it stepped in", GUARD_STATUSES),
    ("vercel", "x-vercel-challenge-token", ".+", "Vercel's checkpoint sent a challenge", ()),
    ("ddos-guard", "server", "ddos-guard", "", {403}),
    ("kasada", "x-kpsdk-ct", ".+", "Kasada sent a challenge", ()),
)  # fmt: skip
_LOADED: list[tuple[str, str, str, float]] = entries("challenge", "loaded")
_CAPTCHAS = entries("challenge", "captchas")
_CHALLENGE = PhraseExpressions("challenge")
MARKS: dict[str, str] = entries("challenge", "marks")
_MARKED: dict[str, tuple[str, float]] = entries("challenge", "marked")
NEEDLES: dict[str, tuple[str, float]] = entries("challenge", "needles")
_TITLES = ((0.5, _CHALLENGE.sure_titles), (0.3, _CHALLENGE.likely_titles))
_SIGNED = tuple(map(re2.compile, expressions("challenge", "signed")))
_WORDS = tuple(map(re2.compile, expressions("challenge", "words")))
_REFUSALS = frozenset({202, 401, 403, 405, 429, 503})
_WALL_TEXT_CHARS = 1_500


def judge_challenge(page: PageEvidence) -> ClassFindings:
    """Collect findings for a bot challenge or a firewall's refusal in place of the page."""
    case = ClassFindings()
    for _, name, pattern, sentence, _ in GUARD_HEADERS:
        value = page.headers.get(name, "") if sentence else ""
        # The firewall's header on a page that it let through is not a challenge.
        if value and re2.search(pattern, value.lower()):
            case.add(0.97 if page.is_thin else 0.3, f"{sentence} (header {name}).")
    if _CHALLENGE.places.search(f"//{page.final.netloc}{page.final.path}?{page.final.query}") and page.has_moved:
        case.add(0.8, "Redirects led to an address where readers are checked.")
    if not page.is_thin:
        return case
    _judge_scripts(page, case)
    _judge_wording(page, case)
    # A captcha with nothing else on the page; an ordinary form may have one, too.
    boxes = page.seen.marks & {"h-captcha", "g-recaptcha", "turnstile"}
    loaded = any(each in url for each in _CAPTCHAS for url in page.loaded)
    alone = page.volume < 400 and page.seen.fields <= 2 and not page.seen.passwords
    if (boxes or loaded) and alone and page.seen.links <= 8 and page.seen.pictures <= 2:
        # A field in addition to the button is a form for readers.
        case.add(0.75 if boxes and page.seen.fields <= 1 else 0.45, "There is a captcha, and almost nothing else.")
    if case.score and page.status in _REFUSALS:
        case.add(0.4, f"The document came with status {page.status}.")
    return case


def _judge_scripts(page: PageEvidence, case: ClassFindings) -> None:
    weight_by_sentence: dict[str, float] = {}
    for start, also, sentence, weight in _LOADED:
        if any(start in each and also in each for each in page.loaded):
            weight_by_sentence[sentence] = max(weight, weight_by_sentence.get(sentence, 0.0))
    for mark in sorted(page.seen.marks & _MARKED.keys()):
        name, weight = _MARKED[mark]
        weight_by_sentence[f"The page holds {name}"] = weight
    for needle in sorted(page.seen.needles & NEEDLES.keys()):
        name, weight = NEEDLES[needle]
        weight_by_sentence[f"A script of the page belongs to {name}"] = weight
    if any("_incapsula_resource" in each.lower() for each in page.seen.frames):
        weight_by_sentence["Imperva's check fills a frame"] = 0.9
    elif page.volume < 50 and any("/_incapsula_resource?" in each for each in page.loaded):
        weight_by_sentence["There is nothing but Imperva's check"] = 0.85
    for sentence, weight in list(weight_by_sentence.items())[:4]:
        case.add(weight, f"{sentence}.")


def _judge_wording(page: PageEvidence, case: ClassFindings) -> None:
    for weight, titles in _TITLES:
        if called := page.called(titles):
            case.add(weight, f"Its title is “{called}”, as of challenge pages.")
            break
    if page.volume > _WALL_TEXT_CHARS or page.seen.links > 15:
        return
    for signed in _SIGNED:
        if match := signed.search(f"{normalize_text(page.title)} {page.words}"):
            case.add(0.75, f"It says “{match[0][:100]}”.")
            break
    phrases = [match[0] for each in _WORDS if (match := each.search(page.words))]
    for phrase in phrases[:3]:
        case.add(0.5, f"It says “{phrase[:100]}”.")
    length = sum(map(len, phrases))
    if length >= 30 and 2 * length >= len(page.words):
        case.add(0.45, "It contains little else.")
    if case.score and (match := _CHALLENGE.signature.search(page.words)):
        case.add(0.3, f"It is signed “{match[0]}”.")
    # A firewall answered in the site's place.
    server = page.headers.get("server", "").lower()
    for name in ("akamaighost", "ddos-guard", "sucuri", "datadome"):
        if name in server and page.status in _REFUSALS:
            case.add(0.5, f"A firewall answered (server {name}).")
    if page.headers.get("x-datadome") and page.status in _REFUSALS:
        case.add(0.6, "DataDome answered instead of the site (header x-datadome).")


_CONSENT_HOSTS = frozenset(entries("walls", "consent_hosts"))
_WALLS = PhraseExpressions("walls")
CONSENT_MARKS: dict[str, str] = entries("walls", "marks")

_LOGIN_HOSTS = frozenset(entries("walls", "login_hosts"))


def judge_consent_wall(page: PageEvidence) -> ClassFindings:
    """Collect findings for a cookie consent question in place of the page."""
    case = ClassFindings()
    host = page.final.hostname or ""
    named = host_in(host, _CONSENT_HOSTS) or _WALLS.consent_names.search(host)
    if page.has_moved and named:
        case.add(0.9, f"Redirects led to {host}, where readers are asked for consent.")
    elif page.has_moved and _WALLS.consent_paths.search(page.final.path):
        case.add(0.55, f"Redirects led to {page.final.path[:100]}.")
    if page.prose >= 900:
        return case if named else ClassFindings()
    _overlay(page, case)
    _question(page, case)
    return case


def _overlay(page: PageEvidence, case: ClassFindings) -> None:
    traits = page.seen
    if traits.overlay_share < 0.75:
        return
    marked = sorted(traits.marks & CONSENT_MARKS.keys())
    over = normalize_text(traits.overlay_text[:6_000])
    asks = _WALLS.consent_words.search(over) is not None
    share = f"{traits.overlay_share:.0%} of the view"
    if marked and (asks or not over):
        case.add(0.75, f"A consent dialog ({marked[0]}) covers {share}.")
    elif asks and _WALLS.asking_words.search(over):
        case.add(0.72, f"A question about cookies covers {share}.")
    else:
        return
    case.add(0.3, "There is little to read below it.")


def _question(page: PageEvidence, case: ClassFindings) -> None:
    """Add findings for a page that is itself the question."""
    words = page.words
    if page.volume > 3_000 or page.seen.links > 40 or not _WALLS.consent_words.search(words):
        return
    # Many pages have one word about cookies; the consent question has all three.
    question = _WALLS.asking_words.search(words)
    if not question:
        return
    case.add(0.4, f"It asks for consent (“{question[0]}”).")
    paying = _WALLS.paying_words.search(words)
    if paying:
        case.add(0.55, f"It offers to be paid instead (“{paying[0]}”).")
    called = next((part for part in (*page.title_parts, *page.heading_parts) if _WALLS.consent_words.search(part)), "")
    if called:
        case.add(0.4, f"It is called “{called[:100]}”.")


def judge_login_wall(page: PageEvidence) -> ClassFindings:
    """Collect findings for a page restricted to members or subscribers."""
    case = ClassFindings()
    if page.prose >= 1_500:
        return case
    thin = page.is_thin and page.prose < 500
    wants_login = _WALLS.login_paths.search(_target(page.wanted)) is not None
    if wants_login and not page.has_moved:
        return ClassFindings()
    if page.has_moved and not wants_login:
        _judge_login_redirect(page, case)
    called = page.called(_WALLS.login_titles)
    viewing, words = _WALLS.viewing_words.search(page.words), _WALLS.login_words.search(page.words)
    if thin and page.seen.passwords:
        # Of a source it is not known whether the field is shown.
        case.add(0.5 if page.is_rendered else 0.3, "There is a password to enter, and little to read.")
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
    if host_in(host, _LOGIN_HOSTS):
        case.add(0.75, f"Redirects led to {host}, where readers log in.")
    elif _WALLS.login_paths.search(_target(page.final)):
        case.add(0.6, f"Redirects led to {page.final.path[:100]}, where readers log in.")
    elif foreign and _WALLS.login_names.search(host):
        case.add(0.4, f"Redirects led to {host}.")
    else:
        return
    if _WALLS.returns.search(page.final.query):
        case.add(0.3, "The address says where to come back to.")


def _target(url: SplitResult) -> str:
    return f"{url.path}?{url.query}" if url.query else url.path
