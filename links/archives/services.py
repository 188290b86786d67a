r"""The web archives of the world, as a table: their hosts, the forms of their addresses, and the best form.

A form is an expression over path and query of an address, whose named groups say what stands where:

    ts     when: 4 to 14 digits, or a date as that service writes it
    mod    which face of the copy: ``id_``, ``if_``, ``mp_`` …; it is told, and left out of our address
    url    what was archived, as it stands there
    id     the service's own name for the copy
    coll   the collection, which belongs to the address

`Service.template` is the address that is kept and shown. https and the host that the service prefers;
plain http where its port or its host knows nothing else. ``{ts}/`` is left out when there is no moment.

Facts: hosts, forms and moved collections of InternetArchiveBot's list, and the services' own pages. That
list takes ``%m`` for minutes when it builds perma.cc's addresses; here nothing is built from a date.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

WEBOID: Final = "weboid"
OTHER: Final = "other"  # an address that reads like an archive's, of a host that nobody knows


class Fault(StrEnum):
    """Why an address is no copy that anybody can read."""

    NONE = ""
    GONE = "gone"  # the whole service is
    LIST = "list"  # it lists versions, and is none
    REQUEST = "request"  # it asks for a copy to be taken, or leads away from one
    NOT_WEB = "not-web"  # the original is no http(s) URL
    TOO_DEEP = "too-deep"  # archives within archives, too many


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a service's addresses.

    Attributes:
        pattern: over path and query; see the module.
        template: the address to keep, when it is not the service's.
        fault: why such an address is no copy.
        hosts: when only some of the service's have this form; empty: all.
        is_kept: the address is kept as it is, but for scheme and host.
        is_quoted: the original is a value in a query, escaped once more.
        original: where the original is made of an id: with ``{id}``.
    """

    pattern: str
    template: str = ""
    fault: Fault = Fault.NONE
    hosts: tuple[str, ...] = ()
    is_kept: bool = False
    is_quoted: bool = False
    original: str = ""


@dataclass(frozen=True, slots=True)
class Service:
    """One archive.

    Attributes:
        name: its name here, and in the registry.
        title: its name for people.
        hosts: canonical, without ``www.``; the first is the preferred one.
        template: the address of a copy: ``{ts}``, ``{url}``, ``{coll}``, ``{id}``.
        forms: of its addresses; the first that fits counts.
        coll: the collection to name when only original and moment are known; empty: it has none.
        zone_h: hours that its dates are ahead of UTC.
        fault: of all its addresses.
        is_made: whether an address can be made of an original and a moment.
    """

    name: str
    title: str
    hosts: tuple[str, ...]
    template: str
    forms: tuple[Form, ...]
    coll: str = ""
    zone_h: int = 0
    fault: Fault = Fault.NONE
    is_made: bool = True


_TS = r"(?P<ts>\d{4,14})\d{0,8}"
_MOD = r"-?(?P<mod>(?:[a-z]{2}_)?)"
_URL = r"(?P<url>/{0,3}[^/].*)"
_SURE = (
    r"(?P<url>(?:https?(?::|%3[Aa])|ftp:|//|www\.).+)"  # nothing else says that a URL stands there
)
_AT = rf"{_TS}{_MOD}/{_URL}"
_LIST = rf"[\d-]*\*/{_URL}"
_WEB = ("", "web.", "classic-web.", "replay.web.", "replayweb.", "replay.", "web-beta.")
_WAYBACK = (*_WEB, "web.wayback.", "wayback.", "liveweb.", "classic.")
_TODAY = ("today", "is", "fo", "li", "vn", "md", "ph")


def _plain(prefix: str) -> tuple[Form, ...]:
    """Moment and original behind a prefix (an expression): what most replays have."""
    return (Form(rf"{prefix}/{_AT}"), Form(rf"{prefix}/{_LIST}", fault=Fault.LIST))


_SERVICES: tuple[Service, ...] = (
    Service(
        "wayback",
        "Internet Archive's Wayback Machine",
        tuple(f"{sub}{host}" for host in ("archive.org", "waybackmachine.org") for sub in _WAYBACK),
        "https://web.archive.org/web/{ts}/{url}",
        (
            Form(rf"/web/(?:_embed/)?{_TS}{_MOD}(?:/_embed)?/{_URL}"),
            Form(rf"/(?P<ts>\d{{8,14}})\d{{0,8}}{_MOD}(?:/_embed)?/{_URL}"),
            Form(rf"/(?:web/)?{_LIST}", fault=Fault.LIST),
            Form(rf"/save/(?:_embed/)?{_SURE}", fault=Fault.REQUEST),
            Form(rf"/web/\d{{1,3}}{_MOD}/{_URL}"),
            Form(rf"/(?:web/)?(?:screenshot/)?{_SURE}"),
        ),
    ),
    Service(
        "archive-today",
        "archive.today",
        tuple(f"archive.{end}" for end in _TODAY),
        "https://archive.today/{ts}/{url}",
        (
            Form(rf"/(?P<ts>\d{{4}}[\d.-]{{0,18}})/{_URL}"),
            Form(rf"/(?:newest|latest|oldest)/{_URL}"),
            Form(rf"/o/(?P<id>\w{{4,8}})/{_URL}", fault=Fault.REQUEST),
            Form(
                r"/(?:submit/?)?\?(?:.*&)?url=(?P<url>[^&]+).*", fault=Fault.REQUEST, is_quoted=True
            ),
            Form(r"/(?:wip/)?(?P<id>[A-Za-z0-9]{4,6})(?:[/?#].*)?", "https://archive.today/{id}"),
            Form(rf"/(?:\*/)?{_SURE}", "https://archive.today/{url}", fault=Fault.LIST),
        ),
    ),
    Service(
        "webcite",
        "WebCite",
        ("webcitation.org",),
        "https://www.webcitation.org/{id}?url={url}",
        (
            Form(r"/query\?.+", is_kept=True),
            Form(r"/(?P<id>[0-9A-Za-z]{9})\?(?:.*&)?url=(?P<url>.+)", is_quoted=True),
            Form(r"/(?P<id>[0-9A-Za-z]{6,20})/?(?:\?.*)?", "https://www.webcitation.org/{id}"),
        ),
        fault=Fault.GONE,
        is_made=False,
    ),
    Service(
        "google-cache",
        "Google's cache",
        ("webcache.googleusercontent.com", "google.com"),
        "",
        (
            Form(
                r"/search\?(?:.*?&)?q=cache(?::|%3[Aa])(?:[\w-]{12}(?::|%3[Aa]))?(?P<url>[^&+]+).*",
                is_kept=True,
                is_quoted=True,
            ),
        ),
        fault=Fault.GONE,
        is_made=False,
    ),
    Service(
        "archive-it",
        "Archive-It",
        ("wayback.archive-it.org", "archive-it.org"),
        "https://wayback.archive-it.org/{coll}/{ts}/{url}",
        (
            # Both have moved here, with what they held.
            Form(
                rf"/{_AT}",
                "https://wayback.archive-it.org/11112/{ts}/{url}",
                hosts=("webarchive.proni.gov.uk",),
            ),
            Form(
                rf"/nli/{_AT}",
                "https://wayback.archive-it.org/10702/{ts}/{url}",
                hosts=("collection.europarchive.org", "collections.internetmemory.org"),
            ),
            *_plain(r"/(?P<coll>\d+|all|org-\d+)"),
            Form(rf"/(?P<coll>\d+|all|org-\d+)/{_SURE}"),
        ),
        coll="all",
    ),
    Service(
        "internet-memory",
        "Internet Memory Foundation",
        ("collections.internetmemory.org", "collection.europarchive.org", "internetmemory.org"),
        "https://collections.internetmemory.org/{coll}/{ts}/{url}",
        _plain(r"/(?P<coll>[\w-]{1,40})"),
        fault=Fault.GONE,
        is_made=False,
    ),
    Service(
        "arquivo",
        "Arquivo.pt",
        ("arquivo.pt",),
        "https://arquivo.pt/wayback/{ts}/{url}",
        _plain(r"/(?:wayback(?:/wayback)?|noFrame/replay)"),
    ),
    Service(
        "loc",
        "Library of Congress",
        ("webarchive.loc.gov",),
        "https://webarchive.loc.gov/all/{ts}/{url}",
        _plain(r"/(?:all|legacy|lcwa[A-Z]?\d{4})"),
    ),
    Service(
        "webharvest",
        "National Archives, United States: Congressional and Federal",
        ("webharvest.gov",),
        "https://www.webharvest.gov/{coll}/{ts}/{url}",
        _plain(r"/(?P<coll>[\w-]{1,40})"),
        is_made=False,
    ),
    Service(
        "bibalex",
        "Bibliotheca Alexandrina",
        (
            "web.archive.bibalex.org",
            "archive.bibalex.org",
            "web.petabox.bibalex.org",
            "petabox.bibalex.org",
        ),
        "http://web.archive.bibalex.org/web/{ts}/{url}",
        _plain(r"(?:/web)?"),
    ),
    Service(
        "bac-lac",
        "Library and Archives Canada",
        (
            *("webarchive.bac-lac.gc.ca", "webarchiveweb.bac-lac.canada.ca"),
            *(
                "webarchiveweb.wayback.bac-lac.canada.ca",
                "collectionscanada.gc.ca",
                "collectionscanada.ca",
            ),
        ),
        "http://webarchive.bac-lac.gc.ca:8080/wayback/{ts}/{url}",
        _plain(r"/(?:wayback|web|archivesweb|webarchives)"),
    ),
    Service(
        "veebiarhiiv",
        "Estonian Web Archive",
        ("veebiarhiiv.digar.ee",),
        "https://veebiarhiiv.digar.ee/a/{ts}/{url}",
        _plain("/a"),
    ),
    Service(
        "vefsafn",
        "Vefsafn, Iceland",
        ("wayback.vefsafn.is", "vefsafn.is"),
        "https://wayback.vefsafn.is/wayback/{ts}/{url}",
        _plain("(?:/is)?/wayback"),
    ),
    Service(
        "uni-lj",
        "Spletni arhiv, Slovenia",
        ("nukrobi2.nuk.uni-lj.si",),
        "http://nukrobi2.nuk.uni-lj.si:8080/wayback/{ts}/{url}",
        _plain("/wayback"),
    ),
    Service(
        "stanford",
        "Stanford Web Archive Portal",
        (
            "swap.stanford.edu",
            "sul-swap-prod.stanford.edu",
            "swap-prod.stanford.edu",
            "sul-swap.stanford.edu",
        ),
        "https://swap.stanford.edu/{ts}/{url}",
        _plain("(?:/was)?"),
    ),
    Service(
        "uk-national-archives",
        "The National Archives, United Kingdom",
        ("webarchive.nationalarchives.gov.uk", "yourarchives.nationalarchives.gov.uk"),
        "https://webarchive.nationalarchives.gov.uk/ukgwa/{ts}/{url}",
        (
            *_plain("(?:/ukgwa|/tna)?"),
            Form(rf"(?:/ukgwa)?/\+/{_URL}"),
            Form(rf"(?:/ukgwa)?/{_SURE}"),
        ),
    ),
    Service(
        "uk-parliament",
        "UK Parliament Web Archive",
        ("webarchive.parliament.uk",),
        "https://webarchive.parliament.uk/{ts}/{url}",
        _plain("(?:/ukpwa)?"),
    ),
    Service(
        "nlb-singapore",
        "Web Archive Singapore",
        ("eresources.nlb.gov.sg",),
        "https://eresources.nlb.gov.sg/webarchives/wayback/{ts}/{url}",
        _plain("/webarchives/wayback"),
    ),
    Service(
        "perma",
        "Perma.cc",
        ("perma.cc", "perma-archives.org"),
        "https://perma-archives.org/warc/{ts}/{url}",
        (
            Form(rf"/warc/{_AT}"),
            Form(
                rf"(?:/warc)?/(?P<id>[0-9A-Za-z]{{4}}-[0-9A-Za-z]{{4}})(?:{_MOD})?/{_SURE}",
                "https://perma.cc/{id}",
            ),
            Form(
                r"(?:/warc)?/(?P<id>[0-9A-Za-z]{4}-[0-9A-Za-z]{4}|0[0-9A-Za-z]{8,11})(?:[/?].*)?",
                "https://perma.cc/{id}",
            ),
        ),
    ),
    Service(
        "nla",
        "National Library of Australia: Pandora, Trove",
        (
            *("webarchive.nla.gov.au", "content.webarchive.nla.gov.au", "pandora.nla.gov.au"),
            *("trove.nla.gov.au", "nla.gov.au"),
        ),
        "https://webarchive.nla.gov.au/awa/{ts}/{url}",
        (
            Form(rf"/nph-wb/{_AT}", is_kept=True),
            Form(
                rf"/nph-arch/(?:\d{{4}}/)?[A-Z]?(?P<ts>\d{{4}}-(?:[A-Za-z]{{3,9}}|\d\d?)-\d\d?|\d{{4,14}})/{_URL}",
                is_kept=True,
            ),
            Form(rf"/pan/\d{{2,8}}/(?P<ts>\d{{8}}-\d{{4}}|\d{{4,14}})/{_URL}", is_kept=True),
            Form(
                rf"/(?P<coll>awa|gov|tep)/(?:wayback/)?{_AT}",
                "https://webarchive.nla.gov.au/{coll}/{ts}/{url}",
            ),
            Form(r"/(?:tep|pan|col)/(?P<id>\d{2,8})/?", fault=Fault.LIST, is_kept=True),
            Form(rf"/(?:awa|gov|tep)/(?:wayback/)?{_LIST}", fault=Fault.LIST, is_kept=True),
        ),
    ),
    Service(
        "wikiwix",
        "Wikiwix",
        ("archive.wikiwix.com", "wikiwix.com"),
        "https://archive.wikiwix.com/cache/{ts}/{url}",
        (
            Form(rf"/cache/{_AT}"),
            Form(
                r"/cache/(?:(?:index|display)2?\.php)?\?(?:.*?&)?url=(?P<url>.+)",
                "https://archive.wikiwix.com/cache/?url={url}",
                is_quoted=True,
            ),
        ),
    ),
    Service(
        "freezepage",
        "FreezePage",
        ("freezepage.com",),
        "https://www.freezepage.com/{id}",
        (Form(r"/(?P<id>\d{10}[A-Z]{10})(?:[/?].*)?"),),
        is_made=False,
    ),
    Service(
        "conifer",
        "Conifer, once Webrecorder.io",
        ("conifer.rhizome.org", "webrecorder.io"),
        "",
        (
            Form(
                rf"/[\w.%-]{{1,80}}/[\w.%-]{{1,160}}/(?:list/[^/]+/[^/]+/)?{_TS}{_MOD}(?:\$[\w:.-]+)?/{_URL}",
                is_kept=True,
            ),
        ),
        is_made=False,
    ),
    Service(
        "ukwa",
        "UK Web Archive",
        ("webarchive.org.uk",),
        "https://www.webarchive.org.uk/wayback/archive/{ts}/{url}",
        (
            *_plain(r"/wayback(?:/[a-z]{2})?/archive"),
            Form(rf"/wayback(?:/[a-z]{{2}})?/archive/{_SURE}"),
        ),
    ),
    Service(
        "ghostarchive",
        "Ghost Archive",
        ("ghostarchive.org",),
        "https://ghostarchive.org/archive/{ts}/{url}",
        (
            Form(rf"/archive/{_AT}"),
            Form(
                r"/archive/(?P<id>[A-Za-z0-9]{4,12})(?:[/?].*)?",
                "https://ghostarchive.org/archive/{id}",
            ),
            Form(
                r"/varchive/youtube/(?P<ts>\d{8})/(?P<id>[\w-]{11})(?:[/?&].*)?",
                "https://ghostarchive.org/varchive/youtube/{ts}/{id}",
                original="https://www.youtube.com/watch?v={id}",
            ),
            Form(
                r"/varchive/(?P<id>[\w-]{11})(?:[/?&].*)?",
                "https://ghostarchive.org/varchive/{id}",
                original="https://www.youtube.com/watch?v={id}",
            ),
        ),
        is_made=False,
    ),
    Service(
        "memento",
        "Memento Time Travel",
        ("timetravel.mementoweb.org", "mementoweb.org"),
        "https://timetravel.mementoweb.org/memento/{ts}/{url}",
        (
            Form(rf"/(?:memento|reconstruct|api/json)/{_AT}"),
            Form(
                rf"/(?:list/(?:{_TS}/)?|timemap/(?:link|json)/|timegate/|memento/){_URL}",
                "https://timetravel.mementoweb.org/timemap/link/{url}",
                fault=Fault.LIST,
            ),
        ),
    ),
    Service(
        "yorku",
        "York University Libraries",
        ("digital.library.yorku.ca",),
        "https://digital.library.yorku.ca/wayback/{ts}/{url}",
        _plain("/wayback"),
    ),
    Service(
        "padicat",
        "Padicat, Catalonia",
        ("padi.cat",),
        "http://padi.cat:8080/wayback/{ts}/{url}",
        _plain("/wayback"),
    ),
    Service(
        "megalodon",
        "Megalodon, Japan",
        ("megalodon.jp", "gyo.tc"),
        "https://megalodon.jp/{ts}/{url}",
        (Form(rf"(?:/ref)?/(?P<ts>\d{{4}}-\d{{4}}-\d{{4}}(?:-\d\d)?)/{_URL}", is_kept=True),),
        zone_h=9,
        is_made=False,
    ),
    Service(
        "webarchiv-cz",
        "Webarchiv, Czech Republic",
        ("wayback.webarchiv.cz",),
        "https://wayback.webarchiv.cz/wayback/{ts}/{url}",
        _plain("/wayback"),
    ),
)
SERVICES: Final[Mapping[str, Service]] = MappingProxyType({each.name: each for each in _SERVICES})
# Our own pages and copies, at origins that the caller names; `#` is escaped there (docs/memento.md).
OWN_FORMS: Final = (
    Form(
        r"(?:/w/[^/]+)?/(?:page|c|screenshot|text)/(?P<ts>\d{14})(?P<mod>(?:[a-z]{2}_)?)/(?P<url>.+)"
    ),
    Form(
        r"(?:/w/[^/]+)?/(?:page|timegate|timemap/(?:link|json|cdxj)|calendar)/(?P<url>.+)",
        fault=Fault.LIST,
    ),
)
# Any other replay: a whole moment and a whole URL behind it (pywb, OpenWayback, and who copies them).
OTHER_FORM: Final = Form(
    r"(?:/[^/]{1,80}){0,4}/(?P<ts>(?:19|20)\d{12})(?P<mod>(?:[a-z]{2}_)?)/(?P<url>https?:/{1,2}[^/].*)",
    is_kept=True,
)
