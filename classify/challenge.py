"""Bot challenges and firewall refusals, by the published traits of their vendors.

A header or script that is sent for no other purpose is decisive. Wording counts only on a page with
little other text, and only as two findings together: an article about a challenge quotes its words.

Such an answer is no evidence about the page behind it, whatever its status: guards send 200, 202, 403,
405, 429 and 503. The traits come from the vendors' documentation and headers. Pure.
"""

import re

import re2

from classify.evidence import ClassFindings, PageEvidence, normalize_text
from net.http_head import LenientHead

# Statuses that guards answer with.
_STATUSES = frozenset((200, 202, 400, 401, 403, 405, 406, 429, 468, 493, 503, 999))
# Of each guard: a header, its value, what it tells of a page (empty: nothing), and the statuses with
# which it alone is proof for the link checker.
_HEADERS = (
    ("cloudflare", "cf-mitigated", "challenge", "Cloudflare says that it sent a challenge", _STATUSES),
    ("aws-waf", "x-amzn-waf-action", "challenge|captcha", "AWS WAF says that it sent a challenge", _STATUSES),
    ("datadome", "x-datadome", ".+", "", {403, 405}),
    ("datadome", "x-dd-b", ".+", "DataDome says that it refused", {403, 405}),
    ("perimeterx", "x-px-block", ".+", "", _STATUSES - {200}),
    ("sucuri", "x-sucuri-block", ".+", "Sucuri's firewall says that it refused", {403}),
    ("incapsula", "x-iinfo", ".+", "", {403}),
    ("incapsula", "x-cdn", "incapsula|imperva", "", {403}),
    ("vercel", "x-vercel-mitigated", "challenge|deny", "Vercel's firewall says that it stepped in", _STATUSES),
    ("vercel", "x-vercel-challenge-token", ".+", "Vercel's checkpoint sent a challenge", ()),
    ("ddos-guard", "server", "ddos-guard", "", {403}),
    ("kasada", "x-kpsdk-ct", ".+", "Kasada sent a challenge", ()),
)  # fmt: skip
# Addresses that a page asks for while it checks its reader; elsewhere, too, so the page must be thin.
_LOADED = (
    ("/cdn-cgi/challenge-platform/h/", "orchestrate", "Cloudflare's challenge ran", 0.9),
    ("/cdn-cgi/l/chk_", "", "Cloudflare's challenge ran", 0.9),
    ("geo.captcha-delivery.com", "", "DataDome's captcha was loaded", 0.95),
    ("/interstitial/?initialcid=", "", "DataDome's interstitial was loaded", 0.9),
    ("captcha.px-cdn.net", "", "HUMAN's captcha was loaded", 0.9),
    ("captcha.px-cloud.net", "", "HUMAN's captcha was loaded", 0.9),
    ("/captcha/captcha.js?a=c&", "", "HUMAN's captcha was loaded", 0.9),
    ("/_incapsula_resource?", "", "Imperva's check was loaded", 0.6),
    (".token.awswaf.com/", "challenge", "AWS WAF's challenge was loaded", 0.55),
    (".captcha.awswaf.com/", "", "AWS WAF's captcha was loaded", 0.8),
    ("/.within.website/x/cmd/anubis/", "", "Anubis's check was loaded", 0.95),
    ("/.well-known/ddos-guard/", "", "DDoS-Guard's check was loaded", 0.6),
    ("/.well-known/vercel/security/", "", "Vercel's checkpoint was loaded", 0.9),
    ("/_fs-ch-", "", "Fastly's client challenge was loaded", 0.9),
    ("perfdrive.com/", "captcha", "Radware's captcha was loaded", 0.9),
    ("/_____tmd_____/punish", "", "Alibaba's check was loaded", 0.9),
    ("wappass.baidu.com/static/captcha", "", "Baidu's check was loaded", 0.95),
    ("/149e9513-01fa-4fb0-aad4-566afd725d1b/", "", "Kasada's check was loaded", 0.6),
    ("captcha-api.yandex.", "", "Yandex's captcha was loaded", 0.4),
    ("/__qrator/", "", "Qrator's check was loaded", 0.8),
)
_CAPTCHAS = (
    "hcaptcha.com/captcha", "google.com/recaptcha/", "recaptcha.net/recaptcha/",
    "challenges.cloudflare.com/", "smartcaptcha.yandexcloud", "arkoselabs.com/",
    "funcaptcha.com/", "geetest.com/", "friendlycaptcha",
)  # fmt: skip
# URLs of challenges.
_PLACES = re2.compile(
    r"google\.[a-z.]+/sorry/|\.queue-it\.net/|//[^/?]*/__qrator/|/errors/validatecaptcha|/showcaptcha\?|//validate\.perfdrive\.com/"
    r"|/_sec/cp_challenge/|/punish\?x5secdata|/splashui/captcha|/blocked\?url=.*&uuid=&?"
    r"|//wappass\.baidu\.com/|/cdn-cgi/challenge|/distil_r_captcha|/px/captcha"
)
MARKS = {
    "cf-challenge": "#challenge-form",
    "cf-running": "#challenge-running",
    "cf-error": "#cf-error-details",
    "cf-stage": "#challenge-stage",
    "px-captcha": "#px-captcha",
    "anubis": "#anubis_challenge",
    "amzn-captcha": "#captcha-container",
    "ddg": "#ddg-captcha",
    "sec-if-cpt": "#sec-if-cpt-container",
    "incapsula": "#main-iframe",
    "h-captcha": ".h-captcha",
    "g-recaptcha": ".g-recaptcha",
    "turnstile": ".cf-turnstile",
}
_MARKED = {
    "cf-challenge": ("the form of Cloudflare's challenge", 0.85),
    "cf-running": ("Cloudflare's challenge", 0.85),
    "cf-stage": ("Cloudflare's challenge", 0.6),
    "px-captcha": ("HUMAN's captcha", 0.85),
    "anubis": ("Anubis's check", 0.95),
    "ddg": ("DDoS-Guard's captcha", 0.85),
    "sec-if-cpt": ("Akamai's check", 0.85),
}
# Contents of their inline scripts.
NEEDLES = {
    "_cf_chl_opt": ("Cloudflare's challenge", 0.9),
    "window.gokuProps": ("AWS WAF's challenge", 0.9),
    "captcha-delivery.com": ("DataDome's captcha", 0.9),
    "_Incapsula_Resource": ("Imperva's check", 0.5),
    "window._pxVid": ("HUMAN's captcha", 0.5),
    "window.KPSDK": ("Kasada's check", 0.6),
    "acw_sc__v2": ("Alibaba's check", 0.8),
    "sucuri_cloudproxy_js": ("Sucuri's check", 0.9),
    "/.within.website/": ("Anubis's check", 0.9),
}
# Titles of such pages. Low weights mark titles that other pages may have, too.
_TITLES = (
    (
        0.5,
        re2.compile(
            r"just a moment(?:\.\.\.)?|attention required!?|checking (?:your browser|you are not a bot).*"
            r"|ddos-guard|security checkpoint|vercel security checkpoint|making sure you're not a bot"
            r"|robot check|(?:are you a )?robot or human|are you (?:a |not a )?(?:robot|human)|bot or not"
            r"|pardon our interruption|access to this page has been denied|human verification"
            r"|bot verification|client challenge|(?:sorry, )?you(?: have|'ve) been blocked.{0,40}"
            r"|sucuri website firewall.{0,40}|security verification|request rejected|azure waf|incapsula"
            r"|verify(?:ing)? (?:that )?you(?: are|'re) (?:a )?human|unusual traffic.{0,60}"
            r"|error 10(?:0[6-9]|1[0125]|20)|your access to this site has been limited.{0,40}"
            r"|(?:ich bin kein|no soy un|je ne suis pas un|non sono un) robot.?|вы не робот|проверка браузера"
            r"|安全验证|百度安全验证|人机验证"
        ),
    ),
    (
        0.3,
        re2.compile(
            r"access denied|(?:please wait|one moment|hold on|just a second)(?:,? please)?(?:\.\.\.)?|blocked"
            r"|security check|(?:re|h)?captcha|forbidden|request blocked|403|verification|verify"
            r"|(?:nur )?einen moment(?:,? bitte)?(?:\.\.\.)?|un instant(?:\.\.\.)?|un momento(?:\.\.\.)?"
            r"|een moment(?: geduld)?(?:\.\.\.)?|só um momento(?:\.\.\.)?|jeszcze chwila(?:\.\.\.)?"
            r"|один момент(?:\.\.\.)?|bir dakika lütfen(?:\.\.\.)?|しばらくお待ちください(?:\.\.\.)?"
            r"|请稍候(?:\.\.\.)?|잠시만 기다리십시오(?:\.\.\.)?"
        ),
    ),
)
# Whole sentences of one maker, with an identifier that no article quotes.
_SIGNED = tuple(
    re2.compile(each)
    for each in (
        r"request unsuccessful\. incapsula incident id: ?\d{6}",
        r"you don't have permission to access .{1,300} on this server\. ?reference ?#\d",
        r"requested url was rejected\. please consult with your administrator\. ?your support id is:? ?\d{6}",
        r"used cloudflare to restrict access",
        r"please wait while your request is being verified",
        r"the owner of this website \(.{1,100}\) has banned",
    )
)
_WORDS = tuple(
    re2.compile(each)
    for each in (
        r"(?:checking|verifying|validating|reviewing) (?:if |that |whether )?(?:the site connection is secure"
        r"|(?:your|the) (?:browser|connection|request)|you(?: are|'re) (?:a |not a )?(?:human|robot|bot)\b)",
        r"enable javascript and cookies to continue",
        r"verify (?:that )?you(?: are|'re) (?:a |not a )?(?:human|robot|bot)\b",
        r"needs? to review the security of your connection|performing security verification",
        r"(?:confirm|make sure|prove|sure) (?:that )?you(?: are|'re) (?:not )?(?:a |an )?(?:real )?(?:human|robot|bot|person)\b"
        r"|let's confirm you are human",
        r"are you (?:a |not a )?(?:human|robot)\b",
        r"unusual (?:traffic|activity) from your",
        r"automated (?:access|requests|queries|traffic|tools|bot)",
        r"you(?: have|'ve)(?: been)? (?:been )?(?:temporarily )?blocked|your (?:ip(?: address)?|access|request) (?:has been|was|is) blocked",
        r"(?:complete|solve|pass) (?:the|this|a) (?:security check|captcha|challenge|puzzle)",
        r"(?:press|activate) (?:&|and) hold",
        r"ddos protection by",
        r"incapsula incident id|incident id:? ?\d{6}",
        r"(?:powered|protected|powered and protected) by (?:imperva|datadome|perimeterx|human security|akamai|privacy|anubis|ddos-guard)"
        r"|has set up anubis",
        r"reference ?(?:#|id:?) ?[0-9a-f]{1,4}[.0-9a-f-]{15,}",
        r"access to this (?:page|site) (?:has been|was) (?:denied|limited|restricted|blocked)",
        r"pardon our interruption",
        r"please (?:enable (?:cookies|js)|turn on javascript) and (?:reload|disable any ad blocker)",
        r"made us think (?:that )?you (?:were|are|might be) a (?:bot|robot)",
        r"requested url was rejected",
        r"the request is blocked\. ?[0-9a-z+/=_-]{10,}",
        r"request blocked\. we can't connect to the server",
        r"sucuri website firewall|generated by wordfence|imunify360|bitninja|stackprotect",
        r"(?:enter|type) the characters (?:you see|below|shown)",
        r"banned (?:you|your)(?: access| ip| temporarily)|you are being rate limited",
        r"security service to protect (?:itself|against)",
        r"we're (?:currently )?verifying your browser|failed to verify your browser|browser is being (?:checked|verified)",
        r"javascript is disabled in your browser\. please enable javascript to proceed",
        r"bestätigen sie,? dass sie (?:kein roboter|ein mensch) sind|ich bin kein roboter|ihr browser wird überprüft",
        r"vérifi(?:er|ez|ons) que vous (?:êtes (?:un )?humain|n'êtes pas un robot)",
        r"(?:verifica|verifique|comprueba|confirma|verificar) que (?:eres|es|é|usted es) (?:un )?(?:ser )?humano",
        r"no soy un robot|non sono un robot|não sou um robô|je ne suis pas un robot|ik ben geen robot",
        r"подтвердите, что (?:вы не робот|запросы отправляли вы)|я не робот|вы не робот|проверяем(?:,? что вы не робот| ваш браузер)",
        r"あなたが(?:人間|ロボットではない)|私はロボットではありません|人机身份验证|请完成安全验证|确认您是真人|安全验证",
        r"사람인지 확인",
    )
)
# Cloudflare signs its error pages, too, when a site is down.
_SIGNATURE = re2.compile(r"\bray id:|performance (?:&|and) security by cloudflare")
_REFUSALS = frozenset({202, 401, 403, 405, 429, 503})
_WALL_TEXT_CHARS = 1_500


def judge_challenge(page: PageEvidence) -> ClassFindings:
    """Collect findings for a bot challenge or a firewall's refusal in place of the page."""
    case = ClassFindings()
    for _, name, pattern, sentence, _ in _HEADERS:
        value = page.headers.get(name, "") if sentence else ""
        # An echo of the firewall on a page that it let through is no challenge.
        if value and re2.search(pattern, value.lower()):
            case.add(0.97 if page.is_thin else 0.3, f"{sentence} (header {name}).")
    place = _PLACES.search(f"//{page.final.netloc}{page.final.path}?{page.final.query}")
    if place and page.has_moved:
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
        weight = 0.75 if boxes and page.seen.fields <= 1 else 0.45
        case.add(weight, "There is a captcha, and nearly nothing else.")
    if case.score and page.status in _REFUSALS:
        case.add(0.4, f"The document came with status {page.status}.")
    return case


def _judge_scripts(page: PageEvidence, case: ClassFindings) -> None:
    found: dict[str, float] = {}
    for start, also, sentence, weight in _LOADED:
        if any(start in each and also in each for each in page.loaded):
            found[sentence] = max(weight, found.get(sentence, 0.0))
    for mark in sorted(page.seen.marks & _MARKED.keys()):
        name, weight = _MARKED[mark]
        found[f"The page holds {name}"] = weight
    for needle in sorted(page.seen.needles & NEEDLES.keys()):
        name, weight = NEEDLES[needle]
        found[f"A script of the page belongs to {name}"] = weight
    if any("_incapsula_resource" in each.lower() for each in page.seen.frames):
        found["Imperva's check fills a frame"] = 0.9
    elif page.volume < 50 and any("/_incapsula_resource?" in each for each in page.loaded):
        found["There is nothing but Imperva's check"] = 0.85
    for sentence, weight in list(found.items())[:4]:
        case.add(weight, f"{sentence}.")


def _judge_wording(page: PageEvidence, case: ClassFindings) -> None:
    for weight, titles in _TITLES:
        if called := page.called(titles):
            case.add(weight, f"It is called “{called}”, as such pages are.")
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
        case.add(0.45, "It says little else.")
    if case.score and (match := _SIGNATURE.search(page.words)):
        case.add(0.3, f"It is signed “{match[0]}”.")
    # A firewall answered in the site's place.
    server = page.headers.get("server", "").lower()
    for name in ("akamaighost", "ddos-guard", "sucuri", "datadome"):
        if name in server and page.status in _REFUSALS:
            case.add(0.5, f"A firewall answered (server {name}).")
    if page.headers.get("x-datadome") and page.status in _REFUSALS:
        case.add(0.6, "DataDome answered in the site's place (header x-datadome).")


LOOKED_AT = 16_384  # characters of the page
_TITLE = re.compile(
    rb"<title[^>]{0,200}>\s*(?:just a moment|attention required|checking your browser|access denied"
    rb"|ddos-guard|one more step|please wait\.\.\.|are you a robot|pardon our interruption|bot verification"
    rb"|security check|verify(?:ing)? you are (?:a )?human|human verification|client challenge|vercel security"
    rb"|robot or human|captcha|making sure you(?:'|&#39;)re not a bot|anti-?bot|un instant)",
    re.IGNORECASE,
)
# In lower case. Searched for as they are: patterns cost a hundred times as much.
_BODY: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    # Not "challenge-platform": its scripts stand on every page that Cloudflare delivers for some sites.
    ("cloudflare", (b"cf-browser-verification", b"_cf_chl_opt", b"/orchestrate/chl_page/")),
    ("perimeterx", (b"_pxappid", b"px-captcha", b"captcha.px-cdn.net", b"human-challenge")),
    ("datadome", (b"captcha-delivery.com",)),
    ("incapsula", (b"_incapsula_resource", b"incapsula incident")),
    ("sucuri", (b"sucuri_cloudproxy_js", b"sucuri website firewall")),
    ("ddos-guard", (b"/.well-known/ddos-guard/", b"ddos-guard.net")),
    ("aws-waf", (b"awswaf.com", b"awswafintegration", b"awswafcookiedomainlist")),
    (
        "akamai",
        (b"errors.edgesuite.net", b"/_sec/cp_challenge", b"sec-if-cpt-container", b"ak-challenge"),
    ),
    ("kasada", (b"kp_uidz", b"window.kpsdk")),
    ("anubis", (b"/.within.website/x/cmd/anubis", b"anubis_challenge")),
    ("mod_security", (b"mod_security", b"modsecurity", b"the requested url was rejected")),
    ("wants a certificate", (b"no required ssl certificate was sent",)),
    ("captcha", (b"hcaptcha.com/1/api.js", b"recaptcha/api.js", b"g-recaptcha", b"h-captcha")),
)
# Marks that only a guard's own page has, so that they hold for an answer 200, too.
_SURE = frozenset((
    "cloudflare", "perimeterx", "datadome", "incapsula", "sucuri", "aws-waf", "akamai", "kasada",
    "anubis",
))  # fmt: skip
_SMALL = 40_000  # bytes; a guard's page is small, an article that names one is not


def detect_guard(head: LenientHead, body: bytes) -> str:
    """Return the guard service that sent the answer; empty when none did.

    >>> detect_guard(LenientHead(403, (("cf-mitigated", "challenge"),)), b"")
    'cloudflare'
    """
    if head.status not in _STATUSES:
        return ""
    for name, header, pattern, _, statuses in _HEADERS:
        if head.status in statuses and re2.fullmatch(pattern, head.first(header).lower()):
            return name
    small, body = len(body) < _SMALL, body[:LOOKED_AT].lower()
    if head.status in (200, 202):
        # A normal-looking page is a guard's by its title and a mark specific to guards.
        if not small or not _TITLE.search(body):
            return ""
        return next((name for name, marks in _BODY if name in _SURE and _has(body, marks)), "")
    is_akamai = head.status in (403, 406) and head.first("server").lower().startswith("akamaighost")
    # A site's own error page may contain a captcha form.
    for name, marks in _BODY:
        if (name in _SURE or head.status < 500) and _has(body, marks):
            return name
    return "a challenge" if _TITLE.search(body) else "akamai" if is_akamai else ""


def _has(body: bytes, marks: tuple[bytes, ...]) -> bool:
    return any(mark in body for mark in marks)
