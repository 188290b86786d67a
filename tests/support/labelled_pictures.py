"""Pages with their classes, built after the published traits of real ones.

Half of them are ordinary pages that quote what walls say, or have a part of what walls have.
"""

# ruff: noqa: RUF001 words of many writings

from dataclasses import dataclass, field, replace

from classify.evidence import PageEvidence
from classify.source_traits import read_traits
from core.page_classes import PageClass

OK, ERROR, SOFT = PageClass.OK, PageClass.HTTP_ERROR, PageClass.SOFT_404
BOTS, CONSENT, LOGIN = PageClass.CHALLENGE, PageClass.CONSENT_WALL, PageClass.LOGIN_WALL
PARKED, EMPTY = PageClass.PARKED, PageClass.NEAR_EMPTY
SITE = "https://site.example"


@dataclass(frozen=True)
class LabelledPage:
    """A page, as it comes over the network, and its class.

    Attributes:
        covered: how much of the viewport lies under what floats above the page, and `over` says what
            that is; only for judging without a browser.
    """

    name: str
    kind: PageClass
    html: str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    url: str = f"{SITE}/2021/05/a-story.html"
    final_url: str = ""
    title: str = ""
    mime: str = "text/html"
    requests: tuple[str, ...] = ()
    covered: float = 0.0
    over: str = ""

    @property
    def evidence(self) -> PageEvidence:
        """Return the evidence known without a browser, in the form that a visit yields."""
        traits = read_traits(self.html) if self.mime == "text/html" else None
        if traits is not None and self.covered:
            traits = replace(traits, overlay_share=self.covered, overlay_text=self.over)
        _, _, rest = self.html.partition("<title>")
        title = self.title or (rest.partition("</title>")[0] if rest else "")
        return PageEvidence(
            self.url, self.final_url or self.url, self.status, self.headers, self.mime, title,
            self.requests, traits,
        )  # fmt: skip


def page(title: str, body: str, head: str = "") -> str:
    """Return an HTML document."""
    return (
        f"<!doctype html><html><head><meta charset=utf-8><title>{title}</title>{head}</head><body>{body}</body></html>"
    )


PARAGRAPH = (
    "<p>The bakers of the valley met again this spring, as they have done for two hundred years, and"
    " talked about flour, about the price of wood, and about the young who leave for the cities. "
    "Nobody had expected an agreement; by the evening, however, one was signed in the old hall.</p>"
)
QUOTES = (
    "<p>Visitors see a page titled “Just a moment...” that says “Checking your browser before accessing"
    " the site” and “Enable JavaScript and cookies to continue”, with a Ray ID below it.</p>"
    "<p>Others answer “404 Not Found”, “Sorry, the page you requested could not be found”, or “This"
    " domain is for sale. Buy this domain.” Welcome to nginx! It works! Access Denied, Reference #18.2d"
    " and “Verify you are human” are known to everyone; so are “Log in to continue” and “Accept all"
    " cookies”, “Request unsuccessful. Incapsula incident ID”, and “press and hold”.</p>"
)
MENU = "<nav>" + "".join(f'<a href="/{n}">Topic {n}</a> ' for n in range(25)) + "</nav>"
FOOTER = '<footer><a href="/about">About</a> <a href="/privacy">Privacy</a> © Example</footer>'
ARTICLE = PARAGRAPH * 8


def article(title: str, more: str = "", head: str = "") -> str:
    """Return a long page with that title."""
    return page(title, f"{MENU}<h1>{title}</h1>{ARTICLE}{more}{FOOTER}", head)


_CF = page(
    "Just a moment...",
    '<div class="main-wrapper"><h1>site.example</h1><p>Verifying you are human. This may take a few'
    " seconds.</p><div id=challenge-stage></div><p>site.example needs to review the security of your"
    ' connection before proceeding.</p><div class="footer">Ray ID: 8a1b2c3d4e5f6a7b Performance &amp;'
    " security by Cloudflare</div></div><script>window._cf_chl_opt={cvId:'3',cType:'managed'};</script>",
)

CHALLENGES = (
    LabelledPage("cloudflare managed", BOTS, _CF, 403, {"cf-mitigated": "challenge", "server": "cloudflare"}),
    LabelledPage("cloudflare without its header", BOTS, _CF, 503),
    LabelledPage("cloudflare in German", BOTS, page("Nur einen Moment…", "<p>Bestätigen Sie, dass Sie ein Mensch sind</p><p>Ray ID: 8a1b2c3d4e5f</p>"), 403),
    LabelledPage("cloudflare blocks", BOTS, page("Attention Required! | Cloudflare", "<h1>Sorry, you have been blocked</h1><h2>You are unable to access site.example</h2><h2>Why have I been blocked?</h2><p>This website is using a security service to protect itself from online attacks. The action you just performed triggered the security solution.</p><p>Cloudflare Ray ID: 8a1b2c3d Your IP: Click to reveal Performance &amp; security by Cloudflare</p>"), 403, {"server": "cloudflare"}),
    LabelledPage("cloudflare 1020", BOTS, page("Access denied | site.example used Cloudflare to restrict access", "<div id=cf-error-details><h1>Error 1020</h1><h2>Access denied</h2><p>This website is using a security service to protect itself from online attacks.</p></div>"), 403),
    LabelledPage("cloudflare 1015", BOTS, page("Error 1015", "<h1>Error 1015 Ray ID: 8a1b</h1><h2>You are being rate limited</h2><p>The owner of this website (site.example) has banned you temporarily from accessing this website.</p>"), 429),
    LabelledPage("akamai", BOTS, page("Access Denied", "<h1>Access Denied</h1>You don't have permission to access \"http://site.example/a\" on this server.<p>Reference #18.2d351ab8.1557333295.a4e16ab</p>"), 403, {"server": "AkamaiGHost"}),
    LabelledPage("datadome", BOTS, page("site.example", "<p id=cmsg>Please enable JS and disable any ad blocker</p><script>var dd={'rt':'c','host':'geo.captcha-delivery.com'}</script><iframe src='https://geo.captcha-delivery.com/captcha/?initialCid=A'></iframe>"), 403, {"x-datadome": "protected", "x-dd-b": "1"}),
    LabelledPage("human", BOTS, page("Access to this page has been denied", "<h1>Press &amp; Hold to confirm you are a human (and not a bot).</h1><div id=px-captcha></div><p>Reference ID d1b2c3</p><script>window._pxAppId='PX1';window._pxVid=''</script>"), 403),
    LabelledPage("imperva", BOTS, page("", '<iframe id="main-iframe" src="/_Incapsula_Resource?SWUDNSAI=31&xinfo=5-1">Request unsuccessful. Incapsula incident ID: 877000120-123456789</iframe>'), 200, {"x-iinfo": "5-1"}, requests=("https://site.example/_Incapsula_Resource?SWUDNSAI=31",)),
    LabelledPage("imperva in words", BOTS, page("Pardon Our Interruption", "<h1>Pardon Our Interruption</h1><p>As you were browsing something about your browser made us think you were a bot. There are a few reasons this might happen:</p>")),
    LabelledPage("aws waf challenge", BOTS, page("", "<script>window.gokuProps={key:'a'}</script><div id=challenge-container></div>"), 202, {"x-amzn-waf-action": "challenge"}),
    LabelledPage("aws waf captcha", BOTS, page("Human Verification", "<div id=captcha-container>Let's confirm you are human</div><p>Complete the security check before continuing.</p>"), 405, {"x-amzn-waf-action": "captcha"}),
    LabelledPage("anubis", BOTS, page("Making sure you're not a bot!", "<h1>Making sure you're not a bot!</h1><p>Loading...</p><p>You are seeing this because the administrator of this website has set up Anubis to protect the server against the scourge of AI companies.</p><script id=anubis_challenge type=application/json>{}</script>")),
    LabelledPage("ddos-guard", BOTS, page("DDoS-Guard", "<h1>Checking your browser before accessing site.example</h1><p>Please wait a few seconds. DDoS protection by DDoS-Guard</p>"), 403, {"server": "ddos-guard"}),
    LabelledPage("sucuri", BOTS, page("Sucuri WebSite Firewall - Access Denied", "<h1>Access Denied - Sucuri Website Firewall</h1><p>If you are the site owner (or you manage this site), please whitelist your IP.</p>"), 403, {"server": "Sucuri/Cloudproxy"}),
    LabelledPage("vercel", BOTS, page("Vercel Security Checkpoint", "<p>We're verifying your browser</p>"), 429, {"x-vercel-mitigated": "challenge"}),
    LabelledPage("hcaptcha alone", BOTS, page("site.example", "<form><p>Please verify you are a human to continue.</p><div class=h-captcha></div></form>"), requests=("https://hcaptcha.com/captcha/v1/a/hcaptcha.html",)),
    LabelledPage("google is suspicious", BOTS, page("https://www.google.com/search?q=x", "<p>Our systems have detected unusual traffic from your computer network. This page checks to see if it's really you sending the requests, and not a robot.</p><div class=g-recaptcha></div>"), 429, url="https://www.google.com/search?q=x", final_url="https://www.google.com/sorry/index?continue=https://www.google.com/search%3Fq%3Dx"),
    LabelledPage("f5", BOTS, page("Request Rejected", "The requested URL was rejected. Please consult with your administrator.<br><br>Your support ID is: 1234567890123456789")),
    LabelledPage("amazon", BOTS, page("Robot Check", "<h4>Enter the characters you see below</h4><p>Sorry, we just need to make sure you're not a robot. For best results, please make sure your browser is accepting cookies.</p><form><img src=c.jpg><input></form>")),
    LabelledPage("fastly", BOTS, page("Client Challenge", "<p>JavaScript is disabled in your browser. Please enable JavaScript to proceed.</p>"), requests=("https://site.example/_fs-ch-1T1wmsGaOgGaSxcX/script.js",)),
)  # fmt: skip

_OVER = "We value your privacy. We and our 842 partners store and access cookies. Accept all Reject all Manage options"
CONSENTS = (
    LabelledPage("google asks first", CONSENT, page("Before you continue", "<h1>Before you continue to Google</h1><p>We use cookies and data to deliver and maintain our services.</p><button>Reject all</button><button>Accept all</button>"), url="https://www.google.com/maps/place/x", final_url="https://consent.google.com/ml?continue=https://www.google.com/maps/place/x"),
    LabelledPage("yahoo asks first", CONSENT, page("Yahoo is part of the Yahoo family of brands", "<h1>We value your privacy</h1><p>When you use our sites and apps, we use cookies.</p><button>Accept all</button>"), url="https://news.yahoo.com/a-story-123.html", final_url="https://consent.yahoo.com/v2/collectConsent?sessionId=3_cc"),
    LabelledPage("consent or pay", CONSENT, page("Zustimmung oder Abo", "<h1>Mit Werbung und Cookies weiterlesen</h1><p>Besuchen Sie uns wie gewohnt mit Werbung und Tracking.</p><button>Akzeptieren und weiter</button><h2>Pur-Abo: werbefrei lesen</h2><p>Ihre Einwilligung ist freiwillig.</p>")),
    LabelledPage("dialog over nothing", CONSENT, page("Site", f"<div id=onetrust-banner-sdk>{_OVER}</div>"), covered=1.0, over=_OVER),
    LabelledPage("dialog of sourcepoint", CONSENT, page("Site", "<div id=sp_message_container_123><iframe src='https://cmp.site.example/index.html'></iframe></div><h1>A headline</h1>"), covered=1.0),
)  # fmt: skip

_FORM = "<form><input type=email name=user><input type=password name=pass><button>Log in</button></form>"
LOGINS = (
    LabelledPage("redirect to a login", LOGIN, page("Log in - Example", f"<h1>Log in</h1>{_FORM}<a href=/forgot>Forgot password?</a>"), final_url=f"{SITE}/login?next=/2021/05/a-story.html"),
    LabelledPage("instagram's", LOGIN, page("Login • Instagram", f"{_FORM}<a href=/r>Forgot password?</a><p>Don't have an account? Sign up</p>"), url="https://www.instagram.com/p/Cabc/", final_url="https://www.instagram.com/accounts/login/?next=%2Fp%2FCabc%2F"),
    LabelledPage("two steps", LOGIN, page("Sign in to your account", "<h1>Sign in</h1><form><input type=email></form>"), final_url="https://login.microsoftonline.com/common/oauth2/authorize?client_id=a&redirect_uri=b"),
    LabelledPage("members only in place", LOGIN, page("Members only", f"<h1>Members only</h1><p>Please log in to view this page.</p>{_FORM}")),
    LabelledPage("members only with 403", LOGIN, page("Forum", f"<p>You must be logged in to view this.</p>{_FORM}"), 403),
    LabelledPage("paywall", LOGIN, page("A story", f'<h1>A story</h1>{PARAGRAPH}<p>Subscribe to continue reading. Already a subscriber? Sign in</p><script type="application/ld+json">{{"isAccessibleForFree": false}}</script>')),
)  # fmt: skip

PARKINGS = (
    LabelledPage("sedo", PARKED, page("site.example - This website is for sale!", "<h1>site.example</h1><h2>Related searches</h2><ul><li><a href=1>Car insurance</a><li><a href=2>Loans</a></ul>"), requests=("https://img.sedoparking.com/templates/a.css",)),
    LabelledPage("bodis", PARKED, page("site.example", "<div id=target></div><script>window.park = 'eyJ1'</script>"), requests=("https://parking.bodiscdn.com/js/main.js",)),
    LabelledPage("parkingcrew", PARKED, page("site.example", "<p>Sponsored Listings</p><a href=1>Ads</a>"), requests=("https://d38psrni17bvxu.cloudfront.net/themes/a.css", "https://www.google.com/adsense/domains/caf.js")),
    LabelledPage("godaddy's lander", PARKED, page("site.example", "<div id=root>Get this domain</div><script>window.LANDER_SYSTEM='PW'</script>"), final_url=f"{SITE}/lander", requests=("https://img1.wsimg.com/parking-lander/static/js/main.js",)),
    LabelledPage("hugedomains", PARKED, page("Site.example is for sale | HugeDomains", "<h1>Site.example</h1><p>This domain is for sale: $2,995</p><a href=1>Buy now</a>"), final_url="https://www.hugedomains.com/domain_profile.cfm?d=site.example"),
    LabelledPage("namecheap", PARKED, page("site.example", "<p>This domain name is registered with Namecheap.com</p><h1>site.example</h1><p>This page is parked free, courtesy of Namecheap. Domain name has expired.</p>")),
    LabelledPage("frame only", PARKED, "<html><head><title>site.example</title></head><frameset rows='100%'><frame src='https://www.sedoparking.com/site.example'></frameset></html>"),
    LabelledPage("for sale in German", PARKED, page("Diese Domain steht zum Verkauf", "<h1>site.example</h1><p>Diese Domain steht zum Verkauf. Domain kaufen.</p>")),
    LabelledPage("for sale in French", PARKED, page("site.example", "<h1>Ce nom de domaine est à vendre</h1><p>Le domaine site.example est à vendre !</p>")),
    LabelledPage("nginx", PARKED, page("Welcome to nginx!", "<h1>Welcome to nginx!</h1><p>If you see this page, the nginx web server is successfully installed and working. Further configuration is required.</p><p>Thank you for using nginx.</p>")),
    LabelledPage("apache", PARKED, "<html><body><h1>It works!</h1></body></html>"),
    LabelledPage("apache of ubuntu", PARKED, page("Apache2 Ubuntu Default Page: It works", "<h1>Apache2 Ubuntu Default Page</h1><h2>It works!</h2>" + "<p>This is the default welcome page used to test the correct operation of the Apache2 server after installation on Ubuntu systems. It is based on the equivalent page on Debian.</p>" * 6)),
    LabelledPage("iis", PARKED, page("IIS Windows Server", "<a href=http://go.microsoft.com/fwlink/?linkid=66138><img src=iisstart.png></a>")),
    LabelledPage("plesk", PARKED, page("Web Server's Default Page", "<h1>Web Server's Default Page</h1><p>This page is generated by Plesk, the leading hosting automation software. You see this page because there is no Web site at this address.</p>")),
    LabelledPage("suspended", PARKED, page("Account Suspended", "<h1>Account Suspended</h1><p>This Account has been suspended.</p><a href=#>Contact your hosting provider for more information.</a>"), final_url=f"{SITE}/cgi-sys/suspendedpage.cgi"),
)  # fmt: skip


def _gone(title: str, heading: str, words: str) -> str:
    return page(title, f"{MENU}<h1>{heading}</h1><p>{words}</p>{FOOTER}")


MISSINGS = (
    LabelledPage("plain", SOFT, page("404 Not Found", "<h1>404 Not Found</h1><hr>nginx")),
    LabelledPage("english", SOFT, _gone("Page not found | Example News", "Page not found", "Sorry, the page you are looking for does not exist.")),
    LabelledPage("with an apology", SOFT, _gone("Example", "Oops! That page can't be found.", "It looks like nothing was found at this location. Maybe try a search?")),
    LabelledPage("german", SOFT, _gone("Seite nicht gefunden – Beispiel", "Seite nicht gefunden", "Die angeforderte Seite wurde leider nicht gefunden.")),
    LabelledPage("french", SOFT, _gone("Page introuvable - Exemple", "Erreur 404", "La page que vous recherchez est introuvable.")),
    LabelledPage("spanish", SOFT, _gone("Página no encontrada", "Error 404", "La página que busca no existe.")),
    LabelledPage("italian", SOFT, _gone("Pagina non trovata | Esempio", "Pagina non trovata", "La pagina richiesta non esiste.")),
    LabelledPage("dutch", SOFT, _gone("Pagina niet gevonden", "Pagina niet gevonden", "De pagina bestaat niet meer.")),
    LabelledPage("polish", SOFT, _gone("Strona nie została znaleziona", "404", "Strona o podanym adresie nie istnieje.")),
    LabelledPage("portuguese", SOFT, _gone("Página não encontrada", "Página não encontrada", "A página que procura não existe.")),
    LabelledPage("russian", SOFT, _gone("Страница не найдена", "404", "Страница не существует или удалена.")),
    LabelledPage("japanese", SOFT, _gone("ページが見つかりません | 例", "ページが見つかりません", "お探しのページは削除されたか、存在しません。")),
    LabelledPage("chinese", SOFT, _gone("页面不存在", "404", "抱歉，您访问的页面不存在。")),
    LabelledPage("to the home page", SOFT, article("Example: the news of the valley"), final_url=f"{SITE}/"),
    LabelledPage("to an address of errors", SOFT, _gone("Example", "Not found", "Try the search."), final_url=f"{SITE}/errors/404.html"),
    LabelledPage("not to be indexed", SOFT, page("Error 404 - Example", "<p>The requested document was not found on this server.</p>", "<meta name=robots content=noindex>")),
)  # fmt: skip

EMPTIES = (
    LabelledPage("nothing at all", EMPTY, ""),
    LabelledPage("a script that did not come", EMPTY, page("App", "<div id=root></div><noscript>You need to enable JavaScript to run this app.</noscript>")),
    LabelledPage("for ever loading", EMPTY, page("App", "<div>Loading...</div><svg></svg>")),
)  # fmt: skip

ERRORS = (
    LabelledPage("404 with rich content", ERROR, article("Page not found", QUOTES), 404),
    LabelledPage("404 of a server", ERROR, page("404 Not Found", "<h1>Not Found</h1>"), 404),
    LabelledPage("410", ERROR, page("Gone", "<p>This listing has been removed."), 410),
    LabelledPage("403 of a server", ERROR, page("403 Forbidden", "<h1>Forbidden</h1><p>You don't have permission to access this resource.</p>"), 403),
    LabelledPage("500", ERROR, page("Error", "<h1>Internal Server Error</h1>"), 500),
    LabelledPage("503 for maintenance", ERROR, page("Maintenance", "<h1>We'll be back soon</h1><p>The site is being maintained. Please try again in an hour.</p>"), 503),
    LabelledPage("basic authentication", ERROR, page("401 Authorization Required", "<h1>401 Authorization Required</h1>"), 401),
    LabelledPage("cloudflare cannot reach the site", ERROR, page("site.example | 522: Connection timed out", "<h1>Connection timed out Error code 522</h1><p>The initial connection between Cloudflare's network and the origin web server timed out.</p>"), 522),
    LabelledPage("missing file", ERROR, "not here", 404, mime="text/plain"),
)  # fmt: skip

ORDINARY = (
    LabelledPage("article", OK, article("Bakers sign an agreement")),
    LabelledPage("article about cloudflare", OK, article("What “Just a moment...” means | Blog", QUOTES)),
    LabelledPage("article called 404 not found", OK, article("404 Not Found", QUOTES)),
    LabelledPage("article about parking", OK, article("This domain is for sale: a history", QUOTES)),
    LabelledPage("article about captchas, with one", OK, article("Are you a robot?", QUOTES + "<div class=g-recaptcha></div>"), requests=("https://www.google.com/recaptcha/api2/anchor?k=1",)),
    LabelledPage("article behind cloudflare", OK, article("Bread"), headers={"server": "cloudflare", "cf-ray": "1"}, requests=("https://site.example/cdn-cgi/challenge-platform/scripts/jsd/main.js",)),
    LabelledPage("article protected by datadome", OK, article("Bread"), headers={"x-datadome": "protected"}),
    LabelledPage("article with a login box", OK, page("Bread", f"<header>{_FORM}</header>{MENU}<h1>Bread</h1>{ARTICLE}")),
    LabelledPage("short article with a login box", OK, page("Bread", f"<header>{_FORM}</header><h1>Bread</h1>{PARAGRAPH}")),
    LabelledPage("article with a cookie banner", OK, article("Bread", f"<div id=onetrust-banner-sdk>{_OVER}</div>"), covered=0.3, over=_OVER),
    LabelledPage("article under a consent dialog", OK, article("Bread", f"<div id=onetrust-banner-sdk>{_OVER}</div>"), covered=1.0, over=_OVER),
    LabelledPage("short page with a cookie banner", OK, page("Bread", f"<h1>Bread</h1>{PARAGRAPH}<div id=cmpbox>{_OVER}</div>"), covered=0.2, over=_OVER),
    LabelledPage("three lines", OK, page("My cat", "<h1>My cat</h1><p>She is called Minka.</p><p>She likes fish.</p>")),
    LabelledPage("one line", OK, page("", "<p>Hello, world. This is my page.</p>")),
    LabelledPage("redirect notice", OK, page("Moved", "<p>We have moved to <a href=https://new.example/>new.example</a>.</p>")),
    LabelledPage("stub about 404", OK, page("HTTP 404 - Glossary", "<h1>HTTP 404</h1><p>A status that says that a page was not found. See also: 410.</p>")),
    LabelledPage("one picture", OK, page("", "<img src=a.png>")),
    LabelledPage("one video", OK, page("", "<video src=a.mp4></video>")),
    LabelledPage("one canvas", OK, page("Game", "<canvas></canvas>")),
    LabelledPage("frames", OK, "<html><frameset cols='50%,50%'><frame src='menu.html'><frame src='main.html'></frameset></html>"),
    LabelledPage("login page asked for", OK, page("Log in - Example", f"<h1>Log in</h1>{_FORM}"), url=f"{SITE}/login"),
    LabelledPage("contact form with a captcha", OK, page("Contact us", "<h1>Contact us</h1><form><input name=a><input name=b><textarea></textarea><div class=g-recaptcha></div><button>Send</button></form>"), requests=("https://www.google.com/recaptcha/api2/anchor",)),
    LabelledPage("shop's empty list", OK, page("Search: bread", f"{MENU}<h1>Search results</h1><p>No products were found for bread.</p>{FOOTER}")),
    LabelledPage("http to https", OK, article("Bread"), url="http://site.example/a-long-story-1.html", final_url="https://www.site.example/a-long-story-1.html"),
    LabelledPage("moved to a new address", OK, article("Bread"), final_url="https://new.example/bread"),
    LabelledPage("index to root", OK, article("Bread"), url=f"{SITE}/en/index.html", final_url=f"{SITE}/"),
    LabelledPage("page of a seller of domains", OK, page("Bread.example is a great name | Dan", f"<h1>How we price names</h1>{PARAGRAPH * 3}"), url="https://dan.com/blog/prices", requests=("https://cdn0.dan.com/a.js",)),
    LabelledPage("article that links to a seller", OK, page("Names", "<h1>Names</h1><p>I sold mine at <a href=https://sedo.com/>Sedo</a> last year.</p>")),
    LabelledPage("privacy policy", OK, page("Privacy policy", f"<h1>Privacy policy</h1><p>We use cookies, and ask for your consent before we do. {PARAGRAPH[3:-4]}</p>" * 5)),
    LabelledPage("free of charge in part", OK, article("A story", '<p>Subscribe to continue reading.</p><script type="application/ld+json">{"isAccessibleForFree": false}</script>')),
    LabelledPage("plain text", OK, "404 not found\naccess denied", mime="text/plain"),
    LabelledPage("json", OK, "{}", mime="application/json"),
    LabelledPage("pdf", OK, "%PDF", mime="application/pdf"),
    LabelledPage("image", OK, "", mime="image/png"),
    LabelledPage("japanese article", OK, page("パン", "<h1>パン</h1>" + "<p>谷のパン職人たちは二百年前からこの春も集まり、小麦粉や薪の値段、都会へ出ていく若者について話し合った。</p>" * 6)),
    LabelledPage("data without sentences", OK, page("Prices", "<table>" + "".join(f"<tr><td>Bread {n}<td>{n}.00" for n in range(60)) + "</table>")),
    LabelledPage("coming soon", OK, page("Example Bakery", "<h1>Example Bakery</h1><p>Our new website is coming soon. Call us at 555 0100.</p>")),
    LabelledPage("question about an error", OK, page("How do I fix “Checking your browser”? - Forum", f"{MENU}<h1>How do I fix “Checking your browser”?</h1><p>I see “Checking your browser before accessing” each time I open my own site, and it never ends. What should I do? I have tried two browsers and a telephone.</p><p>Answer: ask your host.</p>")),
)  # fmt: skip

# Each of these was once taken for something else, or is near a line that is drawn.
_CF_FOOTER = (
    "<p>Cloudflare Ray ID: 8a1b2c3d4e5f • Your IP: Click to reveal • Performance &amp; security by Cloudflare</p>"
)
NEAR = (
    LabelledPage("cloudflare cannot connect, signed", ERROR, page("site.example | 521: Web server is down", f"<div id=cf-error-details><h1>Web server is down Error code 521</h1><p>The web server is not returning a connection. As a result, the web page is not displaying.</p>{_CF_FOOTER}</div>"), 521, {"server": "cloudflare"}),
    LabelledPage("a 502 of cloudflare", ERROR, page("site.example | 502: Bad gateway", f"<div id=cf-error-details><h1>Bad gateway Error code 502</h1><p>Visit cloudflare.com for more information.</p>{_CF_FOOTER}</div>"), 502, {"server": "cloudflare"}),
    LabelledPage("an application's own refusal", ERROR, page("Access denied | Intranet", "<h1>Access denied</h1><p>You are not authorized to access this page.</p>"), 403),
    LabelledPage("please wait for maintenance", ERROR, page("Please wait", "<h1>Please wait</h1><p>We are upgrading our servers.</p>"), 503),
    LabelledPage("too many requests", ERROR, page("429 Too Many Requests", "<h1>429 Too Many Requests</h1>nginx"), 429),
    LabelledPage("reddit blocks", BOTS, page("Blocked", "<h1>You've been blocked by network security.</h1><p>To continue, log in to your Reddit account or use your developer token</p><p>If you think you've been blocked by mistake, file a ticket below.</p>"), 403),
    LabelledPage("walmart", BOTS, page("Robot or human?", "<h1>Robot or human?</h1><p>Activate and hold the button to confirm that you’re human. Thank You!</p><div id=px-captcha></div>"), final_url=f"{SITE}/blocked?url=LzIwMjE=&uuid=a"),
    LabelledPage("cloudflare's five seconds", BOTS, page("Just a moment...", "<h1>Checking your browser before accessing site.example.</h1><p>This process is automatic. Your browser will redirect to your requested content shortly. Please allow up to 5 seconds…</p><p>DDoS protection by Cloudflare Ray ID: 5f1</p>"), 503),
    LabelledPage("wordfence", BOTS, page("Your access to this site has been limited by the site owner", "<h1>Your access to this site has been limited by the site owner</h1><p>Generated by Wordfence at Mon, 1 Jan 2024. Your computer's time: Mon.</p>"), 503),
    LabelledPage("imunify", BOTS, page("One moment, please...", "<h1>Please wait while your request is being verified...</h1>")),
    LabelledPage("cloudfront refuses", BOTS, page("ERROR: The request could not be satisfied", "<h1>403 ERROR</h1><h2>The request could not be satisfied.</h2>Request blocked. We can't connect to the server for this app or website at this time. Generated by cloudfront (CloudFront) Request ID: a=="), 403),
    LabelledPage("imperva's frame", BOTS, page("", '<iframe id="main-iframe" src="/_Incapsula_Resource?CWUDNSAI=9"></iframe>'), 403),
    LabelledPage("akamai's bot manager", BOTS, page("", "<div id=sec-if-cpt-container></div><p>Powered and protected by Akamai</p>"), 428),
    LabelledPage("a waiting room", BOTS, page("Queue-it", "<h1>You are now in line</h1><p>Your turn will come.</p>"), final_url="https://site.queue-it.net/?c=site&e=sale"),
    LabelledPage("yandex", BOTS, page("Вы не робот?", "<p>Подтвердите, что запросы отправляли вы, а не робот</p>"), url="https://yandex.ru/search/?text=a", final_url="https://yandex.ru/showcaptcha?cc=1&retpath=a"),
    LabelledPage("kasada", BOTS, page("", "<script>window.KPSDK={};</script>"), 429, requests=("https://site.example/149e9513-01fa-4fb0-aad4-566afd725d1b/2d206a39-8ed7-437e-a3be-862e0f06eea3/ips.js",)),
    LabelledPage("a comment form behind a login", OK, page("Bread", f"<header>{_FORM}</header><h1>Bread</h1><p>Baked daily, with salt and water from the well.</p><p>You must be logged in to post a comment.</p>")),
    LabelledPage("a protected post", LOGIN, page("Protected: A story", "<h1>Protected: A story</h1><p>This content is password protected. To view it please enter your password below:</p><form><input type=password></form>")),
    LabelledPage("linkedin", LOGIN, page("Sign Up | LinkedIn", f"<h1>Join LinkedIn</h1>{_FORM}<p>Already on LinkedIn? Sign in</p>"), url="https://www.linkedin.com/in/someone/", final_url="https://www.linkedin.com/authwall?trk=a&sessionRedirect=https%3A%2F%2Fwww.linkedin.com%2Fin%2Fsomeone%2F"),
    LabelledPage("facebook", LOGIN, page("Log in to Facebook", f"<p>You must log in to continue.</p>{_FORM}"), url="https://www.facebook.com/groups/1/", final_url="https://www.facebook.com/login/?next=https%3A%2F%2Fwww.facebook.com%2Fgroups%2F1%2F"),
    LabelledPage("a member's account page, asked for", OK, page("Sign in", f"<h1>Sign in</h1>{_FORM}"), url=f"{SITE}/account/signin?next=/a"),
    LabelledPage("a blog called it works", OK, article("It works!", "<p>Powered by WordPress</p>")),
    LabelledPage("a guide to nginx's page", OK, article("Welcome to nginx!", "<p>If you see this page, the nginx web server is successfully installed and working.</p>")),
    LabelledPage("expired", PARKED, page("site.example has expired", "<h1>site.example</h1><p>This domain has expired. If you are the domain owner, please renew it now.</p>")),
    LabelledPage("dan.com under the domain's name", PARKED, page("site.example is for sale", "<h1>The domain name site.example is for sale!</h1><p>Make an offer</p>"), requests=("https://cdn1.dan.com/assets/a.js",)),
    LabelledPage("cpanel", PARKED, page("Default Web Site Page", "<h1>SORRY!</h1><p>If you are the owner of this website, please contact your hosting provider: webmaster@site.example</p>")),
    LabelledPage("squarespace expired", PARKED, page("Website Expired", "<h1>Website Expired</h1><p>This account has expired. If you are the site owner, click below to login.</p>")),
    LabelledPage("an open directory", OK, page("Index of /pub", "<h1>Index of /pub</h1><pre><a href=a.txt>a.txt</a> <a href=b.txt>b.txt</a></pre>")),
    LabelledPage("hello", OK, page("", "<p>Hello, world</p>")),
    LabelledPage("sorry in a sentence", SOFT, page("Example", f"{MENU}<h1>We're sorry, the page you requested could not be found.</h1><p>It may have been moved or deleted.</p>{FOOTER}")),
    LabelledPage("looking for it", SOFT, page("Error - Example", f"{MENU}<h2>The page you're looking for can't be found</h2><p>You may have mistyped the address.</p>{FOOTER}")),
    LabelledPage("a shop's lost product", SOFT, page("Product not found | Shop", f"{MENU}<h1>Product not found</h1>{FOOTER}")),
    LabelledPage("not right now", SOFT, page("Facebook", "<h2>This content isn't available right now</h2><p>When this happens, it's usually because the owner only shared it with a small group of people, changed who can see it or it's been deleted.</p><p>The page may have been removed.</p>")),
    LabelledPage("an error in the address", SOFT, article("Example"), final_url=f"{SITE}/?error=404"),
    LabelledPage("moved to a home page of its own", OK, article("The miller's daughter"), url=f"{SITE}/films/2019/millers-daughter-trailer.html", final_url="https://daughter.example/", title="Millers Daughter"),
    LabelledPage("login by a parameter", LOGIN, page("Log in", f"<h1>Log in</h1>{_FORM}"), final_url=f"{SITE}/index.php?action=login"),
    LabelledPage("iis", SOFT, page("404 - File or directory not found.", "<h1>Server Error</h1><h2>404 - File or directory not found.</h2><h3>The resource you are looking for might have been removed, had its name changed, or is temporarily unavailable.</h3>")),
    LabelledPage("tomcat", SOFT, page("HTTP Status 404 – Not Found", "<h1>HTTP Status 404 – Not Found</h1><p>Type Status Report</p>")),
    LabelledPage("drupal", SOFT, page("Page not found | Example", f"{MENU}<h1>Page not found</h1><p>The requested page could not be found.</p>{FOOTER}")),
    LabelledPage("french, again", SOFT, page("Oups, cette page n'existe pas - Exemple", f"{MENU}<h1>Oups, cette page n'existe plus</h1>{FOOTER}")),
    LabelledPage("german, again", SOFT, page("Fehler 404", f"{MENU}<h1>Diese Seite existiert nicht</h1>{FOOTER}")),
    LabelledPage("a captcha on show", OK, page("Captcha demo", "<h1>hCaptcha demo</h1><form><input name=email><div class=h-captcha></div><button>Submit</button></form>")),
    LabelledPage("above", PARKED, page("Loading...", "<script>window.park='x'</script>"), requests=("https://parking.above.com/a.js",)),
    LabelledPage("a number and an apology", SOFT, page("Example", f"{MENU}<h1>404</h1><p>Oops! We can't seem to find the page you're looking for.</p>{FOOTER}")),
    LabelledPage("a song", OK, page("Just a moment... - song lyrics", "<h1>Just a moment</h1><p>Just a moment, darling,<br>wait for me.</p>")),
    LabelledPage("recipes for cookies", OK, page("Cookies | Baker's recipes", "<h1>Cookies</h1><p>Accept all the butter you can get. Our cookies need 200 g of it.</p>")),
    LabelledPage("a house for sale", OK, page("Houses for sale", "<h1>Houses for sale</h1><p>This house is for sale. Make an offer.</p>")),
    LabelledPage("a search without results", OK, page("Search", "<h1>Nothing found</h1><p>Sorry, but nothing matched your search terms.</p>"), url=f"{SITE}/?s=bread"),
    LabelledPage("a home page with a login", OK, page("Home", f"<h1>Welcome</h1>{_FORM}{MENU}<p>News of today: we open at nine.</p>"), url=f"{SITE}/"),
    LabelledPage("bloomberg", BOTS, page("Bloomberg - Are you a robot?", "<h1>We've detected unusual activity from your computer network</h1><p>To continue, please click the box below to let us know you're not a robot.</p>")),
    LabelledPage("ncbi", BOTS, page("Checking your browser - reCAPTCHA", "<p>Checking your browser before accessing www.ncbi.nlm.nih.gov ...</p><p>Click here if you are not automatically redirected after 5 seconds.</p>")),
    LabelledPage("a board's own wall", LOGIN, page("Forum - Information", f"<h1>Information</h1><p>The board requires you to be registered and logged in to view profiles.</p>{_FORM}")),
    LabelledPage("x", LOGIN, page("X", "<p>Sign in to X</p><form><input></form>"), url="https://x.com/a/status/1", final_url="https://x.com/i/flow/login?redirect_after_login=%2Fa%2Fstatus%2F1"),
    LabelledPage("a test page of centos", PARKED, page("Apache HTTP Server Test Page powered by CentOS", "<h1>Testing 123..</h1><p>This page is used to test the proper operation of the Apache HTTP server after it has been installed.</p>")),
    LabelledPage("instagram's missing page", SOFT, page("Sorry, this page isn't available - Instagram", "<h2>Sorry, this page isn't available.</h2><p>The link you followed may be broken, or the page may have been removed.</p>")),
    LabelledPage("one sentence", BOTS, page("site.example", "<p>Enable JavaScript and cookies to continue</p>")),
    LabelledPage("imperva's script", BOTS, page("", "<script src='/_Incapsula_Resource?SWJIYLWA=719d'></script>"), requests=("https://site.example/_Incapsula_Resource?SWJIYLWA=719d",)),
    LabelledPage("imperva's script on a small page", OK, page("My cat", "<h1>My cat</h1><p>She is called Minka, and she likes fish. She is eleven.</p>"), requests=("https://site.example/_Incapsula_Resource?SWJIYLWA=719d",)),
    LabelledPage("a form and nothing else", LOGIN, page("Members", _FORM)),
    LabelledPage("a small page with a login box", OK, page("My cat", f"<header>{_FORM}</header><h1>My cat</h1><p>She is called Minka.</p><p>She likes fish.</p>")),
    LabelledPage("a band called 404", OK, page("404 | Bands of the valley", f"<h1>404</h1>{PARAGRAPH * 2}")),
    LabelledPage("a mobile home page", OK, article("Example"), url="https://www.site.example/", final_url="https://m.site.example/"),
    LabelledPage("a home page in a language", OK, article("Example"), url=f"{SITE}/", final_url=f"{SITE}/en/"),
    LabelledPage("www and a slash", OK, page("My cat", "<p>Minka likes fish, and so do I.</p>"), url="http://site.example", final_url="https://www.site.example/"),
    LabelledPage("a page about consent", OK, page("Consent in medicine", f"<h1>Consent</h1>{PARAGRAPH}<p>A doctor asks for consent before treatment. I agree, says the patient.</p>")),
    LabelledPage("an age gate", OK, page("Brewery", "<h1>Are you over 18?</h1><button>Yes</button><button>No</button><p>Enjoy responsibly.</p>")),
    LabelledPage("a newsletter over a page", OK, page("Bread", "<h1>Bread</h1><p>Baked daily.</p><div>Subscribe to our newsletter. By doing so you accept our privacy policy.</div>"), covered=1.0, over="Subscribe to our newsletter. By doing so you accept our privacy policy."),
)  # fmt: skip

LABELLED = (
    *CHALLENGES, *CONSENTS, *LOGINS, *PARKINGS, *MISSINGS, *EMPTIES, *ERRORS, *ORDINARY, *NEAR,
)  # fmt: skip
