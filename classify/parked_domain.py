"""Parked, expired, suspended and for-sale domains, and default pages of servers.

Parking services are recognised by the hosts that their pages request; a mere link to one does not count.
Default pages are recognised by their titles.
"""

import re2

from classify.evidence import ClassFindings, PageEvidence, host_in

# Parking services and sellers of domains.
PARKERS = frozenset({
    "sedoparking.com", "parkingcrew.net", "parkingcrew.com", "bodis.com", "bodiscdn.com",
    "parklogic.com", "above.com", "parking.above.com", "abovedomains.com", "afternic.com",
    "dan.com", "undeveloped.com", "hugedomains.com", "buydomains.com", "domainmarket.com",
    "uniregistry.com", "skenzo.com", "dsparking.com", "domainsponsor.com", "voodoo.com",
    "parkingpage.namecheap.com", "fabulous.com", "smartname.com", "trafficz.com",
    "rookmedia.net", "parking.reg.ru", "parked.com", "parkingpanel.com", "sedo.com", "efty.com",
    "brandpa.com", "squadhelp.com", "atom.com", "perfectdomain.com", "epik.com", "saw.com",
    "domainnamesales.com", "namedrive.com", "d38psrni17bvxu.cloudfront.net",
    "d1lxhc4jvstzrp.cloudfront.net", "dp.g.doubleclick.net", "parkweb.com", "zeropark.com",
    "teaminternet.com", "domainactive.co", "nicsell.com", "dropcatch.com", "snapnames.com",
    "godaddy.com", "mydomaincontact.com", "domainprofi.de", "fastpark.net", "ztomy.com",
    "expireddomains.com", "parkweb.net", "brandbucket.com", "domainname.de", "dynadot.com",
    "domain-for-sale.com", "thisdomainisforsale.com", "searchmagnified.com",
})  # fmt: skip
# These sell other things, too: they count only where a redirect leads there, at these paths.
_SHOPS = re2.compile(
    r"godaddy\.com/(?:domainsearch|domain-auctions|forsale|en(?:-\w\w)?/domainsearch)"
    r"|hugedomains\.com/domain_profile|dan\.com/buy-domain|sedo\.com/search/details"
    r"|afternic\.com/(?:forsale|domain)|namecheap\.com/market|porkbun\.com/checkout/search"
    r"|dynadot\.com/market|atom\.com/(?:name|domain)|squadhelp\.com/name|buydomains\.com/lander"
    r"|perfectdomain\.com/domain|domainmarket\.com/buynow|spaceship\.com/domain|/lander(?:\?|$)"
)
_PATHS = (
    ("www.google.com/adsense/domains/caf.js", "AdSense for Domains was loaded"),
    ("/adsense/domains/", "AdSense for Domains was loaded"),
    ("img1.wsimg.com/parking-lander/", "GoDaddy's parking page was loaded"),
    ("/parking-lander/", "GoDaddy's parking page was loaded"),
    ("parking.php?ses=", "A parking page was loaded"),
    ("/px.js?ch=", "Bodis's parking page was loaded"),
    ("/cgi-sys/suspendedpage.cgi", "The host's page of suspended accounts was shown"),
    ("/cgi-sys/defaultwebpage.cgi", "The server's default page was shown"),
)
_NOT_ALONE = frozenset({"godaddy.com", "sedo.com", "dan.com", "atom.com", "above.com", "epik.com"})
NEEDLES = {
    "window.park =": "a parking service",
    "window.park=": "a parking service",
    "window.LANDER_SYSTEM": "GoDaddy's parking page",
}
# Titles and headings of pages that no site has made.
_DEFAULTS = re2.compile(
    r"welcome to nginx(?: on .{1,40})?|welcome to openresty|apache2? (?:\w+ )?default page(?:: it works)?"
    r"|apache2 .{1,20} default page: it works|it works|test page for (?:the )?(?:apache|nginx|http).{0,60}"
    r"|(?:apache )?http server test page.{0,60}|iis windows(?: server)?|iis ?\d+(?:\.\d)?|internet information services"
    r"|microsoft internet information services \d|domain default page|web server's default page|default (?:web site|website|parallels plesk|plesk).{0,40}page"
    r"|default web ?site page|welcome to (?:centos|fedora|red hat|xampp|plesk|caddy|lighttpd).{0,40}"
    r"|placeholder page|caddy works|congratulations! your (?:web ?site|server|domain).{0,60}"
    r"|account suspended|this account has been suspended|(?:web)?site suspended|suspended domain|suspended page"
    r"|index of /cgi-sys.{0,10}|future home of something quite cool|parked domain.{0,60}|parking page|domain parked"
    r"|félicitations ?! votre domaine.{0,60}|default server page|apache is functioning normally|website expired|site expired|site en construction ovh|web hosting by.{0,60}"
)
_LONG_DEFAULTS = re2.compile(r"apache2? .{1,20}default page|test page|default page")
_SALE = re2.compile(
    r"(?:the |this )?domain (?:name )?[\w.-]{0,60} ?(?:is |may be |could be |might be )(?:available )?for sale"
    r"|\b[\w-]{1,60}\.[a-z]{2,12} (?:is (?:available )?for sale|has expired|is expired)|(?:buy|get|purchase) this (?:domain|website)"
    r"|this (?:web ?site|domain(?: name)?|web page|page) (?:is|has been|was) (?:currently )?(?:parked|registered (?:at|by|with|through)|suspended|expired|deactivated)"
    r"|(?:the |this )domain(?: name)? [\w.-]{0,60} ?(?:has|is) (?:recently )?(?:expired|been registered)"
    r"|domain (?:name )?(?:has )?expired|renew (?:it|your domain|this domain) now|domain is parked|is parked free"
    r"|parked free,? courtesy of|interested in (?:buying )?this domain|inquire about this domain|make an offer"
    r"|the owner of this domain has not yet uploaded|this domain (?:was|is) recently registered|premium domain"
    r"|contact your hosting provider for more information|if you are the owner of this (?:web)?site,? please contact|this account has (?:expired|been suspended)|domain has been (?:parked|registered)|happy to see your domain with|domain(?: name)? owner .{0,40}privacy"
    r"|domain (?:ist |steht )?zu(?:m)? verkauf(?:en)?|diese domain (?:steht|ist) (?:zum|zu|geparkt|registriert|käuflich)|domain kaufen"
    r"|(?:ce |le )?(?:nom de )?domaine [\w.-]{0,60} ?est à vendre|(?:este |el )?dominio [\w.-]{0,60} ?(?:está (?:a la|en) venta|está à venda|em venda)"
    r"|(?:questo |il )?dominio [\w.-]{0,60} ?è in vendita|(?:deze |dit )?domein(?:naam)? [\w.-]{0,60} ?(?:is )?te koop"
    r"|domena [\w.-]{0,60} ?(?:jest )?na sprzedaż|(?:этот )?домен [\w.-]{0,60} ?(?:продаётся|продается|припаркован|не продлён)"
    r"|срок регистрации домена|このドメインは.{0,20}(?:販売|取得|期限|お名前)|(?:此|该|本)域名.{0,12}(?:出售|转让|过期|可出售)|域名出售"
    r"|도메인.{0,12}판매|doména .{0,40} je na prodej|este domínio (?:está )?à venda"
)
_RELATED = re2.compile(
    r"related (?:searches|links)|relevant searches|top searches|sponsored (?:listings|links|ads)|verwandte suchbegriffe"
    r"|weitere links|recherches associées|búsquedas relacionadas|ricerche correlate|関連検索"
)
_BELOW_DEFAULT = re2.compile(
    r"nginx web server is successfully installed|further configuration is required|apache2? (?:web|http) ?server"
    r"|used to test the (?:proper|correct) operation|default welcome page|replace this file|contact your hosting provider"
    r"|generated by plesk|web site at this address|internet information services|no content has been (?:added|uploaded)"
)


def judge_parked(page: PageEvidence) -> ClassFindings:
    """Collect findings for a parked or unused domain."""
    case = ClassFindings()
    shop = _SHOPS.search(f"{page.final.hostname or ''}{page.final.path}")
    sold = host_in(page.final.hostname or "", PARKERS)
    if page.has_moved and (page.final.hostname != page.wanted.hostname) and (sold or shop):
        strong = shop or sold not in _NOT_ALONE
        case.add(
            0.85 if strong else 0.3, f"Redirects led to {page.final.hostname}, a seller of domains."
        )
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
