"""Consent walls and login walls.

A banner on a readable page is no wall, nor is a login box in a page's header: a wall has little other
text. A login page requested under its own address is a page.
"""

from urllib.parse import SplitResult

import re2

from classify.evidence import ClassFindings, PageEvidence, host_in, normalize_text

_CONSENT_HOSTS = frozenset({
    "consent.google.com", "consent.youtube.com", "consent.yahoo.com", "guce.yahoo.com",
    "guce.aol.com", "guce.techcrunch.com", "guce.engadget.com", "guce.advertising.com",
    "guce.oath.com", "myprivacy.dpgmedia.nl", "myprivacy.dpgmedia.be", "myprivacy.dpgmedia.net",
    "cmp.inmobi.com",
})  # fmt: skip
_CONSENT_NAMES = re2.compile(
    r"^(?:consent|guce|myprivacy|privacy-gate|cookiewall|cmp)\.|\.consent\."
)
_CONSENT_PATHS = re2.compile(
    r"/(?:zustimmung|cookie-?wall|cookie-?consent|privacy-?gate|consent(?:wall)?|collectconsent"
    r"|tracking-consent|pur|einwilligung)(?:[/?.]|$)"
)
MARKS = {
    "onetrust": "#onetrust-banner-sdk",
    "cookiebot": "#CybotCookiebotDialog",
    "funding-choices": ".fc-consent-root",
    "sourcepoint": '[id^="sp_message_container"]',
    "usercentrics": "#usercentrics-root",
    "usercentrics-3": "#usercentrics-cmp-ui",
    "didomi": "#didomi-popup",
    "didomi-host": "#didomi-host",
    "quantcast": ".qc-cmp2-container",
    "consentmanager": "#cmpbox",
    "trustarc": ".truste_overlay",
    "iubenda": "#iubenda-cs-banner",
    "axeptio": "#axeptio_overlay",
    "cookieyes": ".cky-overlay",
    "tarteaucitron": "#tarteaucitronRoot",
    "klaro": ".klaro",
    "dpg": "#privacy-gate-accept-link",
    "contentpass": "#cp-gate",
}
_CONSENT_WORDS = re2.compile(
    r"\bcookies?\b|\bconsent\b|privacy (?:choices|settings|preferences)|we value your privacy"
    r"|your privacy|before you continue|legitimate interest|einwilligung|zustimmen|datenschutz"
    r"|consentement|vie privée|consentimiento|privacidad|consenso|privacidade|toestemming"
    r"|privacybeleid|zgod[aęy]|prywatno|соглас|クッキー|同意"
)
_ASKING_WORDS = re2.compile(
    r"accept all|reject all|accept (?:and|&) (?:continue|close)|i (?:accept|agree)|agree and continue"
    r"|manage (?:options|preferences|settings|cookies)|allow all|alle akzeptieren|alles akzeptieren"
    r"|akzeptieren und weiter|zustimmen und weiter|alle ablehnen|tout accepter|tout refuser"
    r"|accepter et (?:continuer|fermer)|continuer sans accepter|aceptar (?:todo|y continuar)"
    r"|rechazar todo|accetta (?:tutto|e continua)|rifiuta tutto|aceitar tudo|rejeitar tudo"
    r"|alles accepteren|alles weigeren|akkoord|akceptuję|zaakceptuj|принять все|同意する|全部接受"
)
_PAYING_WORDS = re2.compile(
    r"pur[- ]abo|werbefrei|ohne (?:werbung|tracking)|pay or (?:accept|consent)|consent or pay"
    r"|subscribe (?:to|and) reject|reject (?:and|&) (?:pay|subscribe)|s'abonner|abonnez-vous pour"
    r"|rechazar y suscribirse|rifiuta e abbonati|ad[- ]free"
)

_LOGIN_PATHS = re2.compile(
    r"/(?:log-?in|sign-?in|logon|signon|sso|saml2?|oauth2?|auth|authwall|authorize|session/new|wp-login"
    r"|users/sign_in|accounts|accounts?/log-?in|account/signin|servicelogin|i/flow/login|uas/login|adfs"
    r"|authenticate|anmelden|anmeldung|connexion|identification|acceso|iniciar-sesion|accedi|entrar"
    r"|inloggen|logowanie|checkpoint|member/login|cas|idp|signup|register|subscribe|paywall)"
    r"(?:[/.?_-]|$)|title=special:userlogin|[?&](?:action|do|view|page|mode|option)=(?:log|sign)-?in(?:&|$)"
)
_LOGIN_HOSTS = frozenset({
    "accounts.google.com", "login.microsoftonline.com", "login.live.com", "auth0.com", "okta.com",
    "login.yahoo.com", "appleid.apple.com", "idp.nature.com", "onelogin.com",
})  # fmt: skip
_LOGIN_NAMES = re2.compile(r"^(?:login|signin|accounts?|auth|sso|idp|id|secure|identity|cas)\.")
_RETURNS = re2.compile(
    r"(?:^|&)(?:next|return(?:_?url|_?to|path)?|redirect(?:_?ur[li]|_?to)?|continue|goto|dest(?:ination)?"
    r"|session_?redirect|service|back(?:url)?|relaystate|client_id|response_type|samlrequest)="
)
_LOGIN_TITLES = re2.compile(
    r"(?:please )?(?:log|sign)[ -]?[io]n(?: required| to continue| to .{1,40})?|login(?: required| page)?"
    r"|(?:member|user|subscriber|customer)s?(?:'s?)? (?:log|sign)[ -]?in|sign up|authentication required"
    r"|members only|subscribers only|join to view.{0,40}|anmelden|anmeldung|einloggen|login erforderlich"
    r"|connexion|se connecter|identifiez-vous|connectez-vous|iniciar sesión|inicia sesión|acceder"
    r"|accedi|accesso|inloggen|log in|aanmelden|zaloguj(?: się)?|logowanie|entrar|iniciar sessão"
    r"|вход|войти|авторизация|ログイン|サインイン|登录|登入|로그인|logga in|log ind|logg inn|kirjaudu"
)
_VIEWING_WORDS = re2.compile(
    r"(?:log(?:ged)?|sign(?:ed)?)[ -]?in to (?:view|see|read|access|continue|proceed|open)"
    r"|(?:members|subscribers|registered users) only|(?:members|subscribers)[- ]only"
    r"|only (?:available|visible|accessible) to (?:logged|registered|members|subscribers)"
    r"|password[- ]protected|enter (?:your|the) password|subscribe (?:now )?to (?:continue|read|keep)"
    r"|to continue reading|to (?:read|view) the (?:full|whole|rest)|passwortgeschützt|geschützter inhalt"
    r"|réservé aux abonnés|riservato agli abbonati|solo para suscriptores|protégé par mot de passe"
)
_LOGIN_WORDS = re2.compile(
    r"(?:please |must |need to |have to )(?:be )?(?:log(?:ged)?|sign(?:ed)?)[ -]?in"
    r"|(?:log|sign) in (?:to|or (?:register|sign up|create)|with|below|here)"
    r"|(?:for|to) (?:members|subscribers|registered users) only|(?:members|subscribers)[- ]only"
    r"|only (?:available|visible|accessible) to (?:logged|registered|members|subscribers)"
    r"|forgot(?:ten)? (?:your |my )?password|don't have an account|create (?:an|a new) account"
    r"|already (?:a (?:subscriber|member)|have an account|registered)"
    r"|subscribe (?:now )?to (?:continue|read|keep)|to continue reading|continue reading with"
    r"|you(?:'ve| have) (?:reached|read) your (?:limit|last)|passwort vergessen|bitte (?:melden|loggen) sie sich"
    r"|mot de passe oublié|réservé aux abonnés|olvidaste tu contraseña|inicia sesión para|password dimenticata"
    r"|riservato agli abbonati|esqueceu a (?:sua )?senha|wachtwoord vergeten|nie pamiętasz hasła"
    r"|забыли пароль|パスワードを忘れ|忘记密码|비밀번호"
)


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
