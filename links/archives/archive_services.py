"""Table of web archives: hosts, address forms, preferred form.

A form is an expression over path and query of an address, with named groups: ``ts``, the capture time
(4 to 14 digits, or a date in the service's format); ``mod``, the replay modifier (``id_``, ``if_``),
which our address omits; ``url``, the original as written; ``id``, the service's name for the copy;
``coll``, the collection. `ArchiveService.template` is the address that is stored and shown, without
``{ts}/`` when the time is unknown.

Sources: InternetArchiveBot's list, and the services' own pages. That list takes ``%m`` for minutes when
it builds perma.cc's addresses; here nothing is built from a date.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

WEBOID: Final = "weboid"
OTHER: Final = "other"  # an address that reads like an archive's, of a host that nobody knows


class AddressFault(StrEnum):
    """Reason that an archive address is no readable copy."""

    NONE = ""
    GONE = "gone"  # the whole service is
    LIST = "list"  # it lists versions, and is none
    REQUEST = "request"  # it asks for a copy to be taken, or leads away from one
    NOT_WEB = "not-web"  # the original is no http(s) URL
    TOO_DEEP = "too-deep"  # archives within archives, too many


@dataclass(frozen=True, slots=True)
class AddressForm:
    """Form of a service's addresses."""

    pattern: str  # over path and query; see the module
    template: str = ""  # the address to store, when it differs from the service's
    fault: AddressFault = AddressFault.NONE  # reason that such an address is no copy
    hosts: tuple[str, ...] = ()  # the service's hosts with this form; empty: all
    is_kept: bool = False  # the address is kept as it is, except for scheme and host
    is_quoted: bool = False  # the original is a query value, escaped once more
    original: str = ""  # template with ``{id}`` where the original is derived from an id


@dataclass(frozen=True, slots=True)
class ArchiveService:
    """Web archive in the table."""

    name: str  # its name here and in the registry
    title: str  # its display name
    hosts: tuple[str, ...]  # canonical, without ``www.``; the first is the preferred one
    template: str  # the address of a copy: ``{ts}``, ``{url}``, ``{coll}``, ``{id}``
    forms: tuple[AddressForm, ...]  # of its addresses; the first match wins
    coll: str = ""  # the default collection when only original and time are known; empty: none
    zone_h: int = 0  # hours that its dates are ahead of UTC
    fault: AddressFault = AddressFault.NONE  # applies to all its addresses
    is_made: bool = True  # an address can be built from an original and a time


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


def _plain(prefix: str) -> tuple[AddressForm, ...]:
    """Build the usual replay forms: time and original behind a prefix (an expression)."""
    return (
        AddressForm(rf"{prefix}/{_AT}"),
        AddressForm(rf"{prefix}/{_LIST}", fault=AddressFault.LIST),
    )


_SERVICES: tuple[ArchiveService, ...] = (
    ArchiveService(
        "wayback",
        "Internet Archive's Wayback Machine",
        tuple(f"{sub}{host}" for host in ("archive.org", "waybackmachine.org") for sub in _WAYBACK),
        "https://web.archive.org/web/{ts}/{url}",
        (
            AddressForm(rf"/web/(?:_embed/)?{_TS}{_MOD}(?:/_embed)?/{_URL}"),
            AddressForm(rf"/(?P<ts>\d{{8,14}})\d{{0,8}}{_MOD}(?:/_embed)?/{_URL}"),
            AddressForm(rf"/(?:web/)?{_LIST}", fault=AddressFault.LIST),
            AddressForm(rf"/save/(?:_embed/)?{_SURE}", fault=AddressFault.REQUEST),
            AddressForm(rf"/web/\d{{1,3}}{_MOD}/{_URL}"),
            AddressForm(rf"/(?:web/)?(?:screenshot/)?{_SURE}"),
        ),
    ),
    ArchiveService(
        "archive-today",
        "archive.today",
        tuple(f"archive.{end}" for end in _TODAY),
        "https://archive.today/{ts}/{url}",
        (
            AddressForm(rf"/(?P<ts>\d{{4}}[\d.-]{{0,18}})/{_URL}"),
            AddressForm(rf"/(?:newest|latest|oldest)/{_URL}"),
            AddressForm(rf"/o/(?P<id>\w{{4,8}})/{_URL}", fault=AddressFault.REQUEST),
            AddressForm(
                r"/(?:submit/?)?\?(?:.*&)?url=(?P<url>[^&]+).*",
                fault=AddressFault.REQUEST,
                is_quoted=True,
            ),
            AddressForm(
                r"/(?:wip/)?(?P<id>[A-Za-z0-9]{4,6})(?:[/?#].*)?", "https://archive.today/{id}"
            ),
            AddressForm(
                rf"/(?:\*/)?{_SURE}", "https://archive.today/{url}", fault=AddressFault.LIST
            ),
        ),
    ),
    ArchiveService(
        *("webcite", "WebCite", ("webcitation.org",)),
        "https://www.webcitation.org/{id}?url={url}",
        (
            AddressForm(r"/query(?:\.php)?\?.+", is_kept=True),
            AddressForm(r"/(?P<id>[0-9A-Za-z]{9})\?(?:.*&)?url=(?P<url>.+)", is_quoted=True),
            AddressForm(
                r"/(?P<id>[0-9A-Za-z]{6,20})/?(?:\?.*)?", "https://www.webcitation.org/{id}"
            ),
            AddressForm(r"/cache/.+", is_kept=True),
        ),
        fault=AddressFault.GONE,
        is_made=False,
    ),
    ArchiveService(
        *("google-cache", "Google's cache", ("webcache.googleusercontent.com", "google.com")),
        "",
        (
            AddressForm(
                r"/search\?(?:.*?&)?q=cache(?::|%3[Aa])(?:[\w-]{12}(?::|%3[Aa]))?(?P<url>[^&+]+).*",
                is_kept=True,
                is_quoted=True,
            ),
        ),
        fault=AddressFault.GONE,
        is_made=False,
    ),
    ArchiveService(
        *("bing-cache", "Bing's cache", ("cc.bingj.com",)),
        "",
        (AddressForm(r"/cache\.aspx\?.+", is_kept=True),),
        fault=AddressFault.GONE,
        is_made=False,
    ),
    ArchiveService(
        *("archive-it", "Archive-It", ("wayback.archive-it.org", "archive-it.org")),
        "https://wayback.archive-it.org/{coll}/{ts}/{url}",
        (
            # Both have moved here, with what they held.
            AddressForm(
                rf"/{_AT}",
                "https://wayback.archive-it.org/11112/{ts}/{url}",
                hosts=("webarchive.proni.gov.uk",),
            ),
            AddressForm(
                rf"/nli/{_AT}",
                "https://wayback.archive-it.org/10702/{ts}/{url}",
                hosts=("collection.europarchive.org", "collections.internetmemory.org"),
            ),
            *_plain(r"/(?P<coll>\d+|all|org-\d+)"),
            AddressForm(rf"/(?P<coll>\d+|all|org-\d+)/{_SURE}"),
        ),
        coll="all",
    ),
    ArchiveService(
        "internet-memory",
        "Internet Memory Foundation",
        ("collections.internetmemory.org", "collection.europarchive.org", "internetmemory.org"),
        "https://collections.internetmemory.org/{coll}/{ts}/{url}",
        _plain(r"/(?P<coll>[\w-]{1,40})"),
        fault=AddressFault.GONE,
        is_made=False,
    ),
    ArchiveService(
        *("arquivo", "Arquivo.pt", ("arquivo.pt",)),
        "https://arquivo.pt/wayback/{ts}/{url}",
        _plain(r"/(?:wayback(?:/wayback)?|noFrame/replay)"),
    ),
    ArchiveService(
        *("loc", "Library of Congress", ("webarchive.loc.gov",)),
        "https://webarchive.loc.gov/all/{ts}/{url}",
        _plain(r"/(?:all|legacy|lcwa[A-Z]?\d{4})"),
    ),
    ArchiveService(
        "webharvest",
        "National Archives, United States: Congressional and Federal",
        ("webharvest.gov",),
        "https://www.webharvest.gov/{coll}/{ts}/{url}",
        _plain(r"/(?P<coll>[\w-]{1,40})"),
        is_made=False,
    ),
    ArchiveService(
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
    ArchiveService(
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
    ArchiveService(
        *("veebiarhiiv", "Estonian Web Archive", ("veebiarhiiv.digar.ee",)),
        "https://veebiarhiiv.digar.ee/a/{ts}/{url}",
        _plain("/a"),
    ),
    ArchiveService(
        *("vefsafn", "Vefsafn, Iceland", ("wayback.vefsafn.is", "vefsafn.is")),
        "https://wayback.vefsafn.is/wayback/{ts}/{url}",
        _plain("(?:/is|/en)?(?:/wayback)?"),
    ),
    ArchiveService(
        *("uni-lj", "Spletni arhiv, Slovenia", ("nukrobi2.nuk.uni-lj.si",)),
        "http://nukrobi2.nuk.uni-lj.si:8080/wayback/{ts}/{url}",
        _plain("/wayback"),
    ),
    ArchiveService(
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
    ArchiveService(
        "uk-national-archives",
        "The National Archives, United Kingdom",
        ("webarchive.nationalarchives.gov.uk", "yourarchives.nationalarchives.gov.uk"),
        "https://webarchive.nationalarchives.gov.uk/ukgwa/{ts}/{url}",
        (
            *_plain("(?:/ukgwa|/tna)?"),
            AddressForm(rf"(?:/ukgwa)?/\+/{_URL}"),
            AddressForm(rf"(?:/ukgwa)?/{_SURE}"),
        ),
    ),
    ArchiveService(
        *("uk-parliament", "UK Parliament Web Archive", ("webarchive.parliament.uk",)),
        "https://webarchive.parliament.uk/{ts}/{url}",
        _plain("(?:/ukpwa)?"),
    ),
    ArchiveService(
        *("nlb-singapore", "Web Archive Singapore", ("eresources.nlb.gov.sg",)),
        "https://eresources.nlb.gov.sg/webarchives/wayback/{ts}/{url}",
        _plain("/webarchives/wayback"),
    ),
    ArchiveService(
        *("perma", "Perma.cc", ("perma.cc", "perma-archives.org")),
        "https://perma-archives.org/warc/{ts}/{url}",
        (
            AddressForm(rf"/warc/{_AT}"),
            AddressForm(
                rf"(?:/warc)?/(?P<id>[0-9A-Za-z]{{4}}-[0-9A-Za-z]{{4}})(?:{_MOD})?/{_SURE}",
                "https://perma.cc/{id}",
            ),
            AddressForm(
                r"(?:/warc)?/(?P<id>[0-9A-Za-z]{4}-[0-9A-Za-z]{4}|0[0-9A-Za-z]{8,11})(?:[/?].*)?",
                "https://perma.cc/{id}",
            ),
        ),
    ),
    ArchiveService(
        "nla",
        "National Library of Australia: Pandora, Trove",
        (
            *("webarchive.nla.gov.au", "content.webarchive.nla.gov.au", "pandora.nla.gov.au"),
            *("trove.nla.gov.au", "nla.gov.au"),
        ),
        "https://webarchive.nla.gov.au/awa/{ts}/{url}",
        (
            AddressForm(rf"/nph-wb/{_AT}", is_kept=True),
            AddressForm(
                rf"/nph-arch/(?:\d{{4}}/)?[A-Z]?(?P<ts>\d{{4}}-(?:[A-Za-z]{{3,9}}|\d\d?)-\d\d?|\d{{4,14}})/{_URL}",
                is_kept=True,
            ),
            AddressForm(rf"/pan/\d{{2,8}}/(?P<ts>\d{{8}}-\d{{4}}|\d{{4,14}})/{_URL}", is_kept=True),
            AddressForm(
                rf"/(?P<coll>awa|gov|tep)/(?:wayback/)?{_AT}",
                "https://webarchive.nla.gov.au/{coll}/{ts}/{url}",
            ),
            AddressForm(
                r"/(?:tep|pan|col)/(?P<id>\d{2,8})/?", fault=AddressFault.LIST, is_kept=True
            ),
            AddressForm(r"/(?P<id>nla\.arc-[\w-]{1,40})/?", is_kept=True),
            AddressForm(
                rf"/(?:awa|gov|tep)/(?:wayback/)?{_LIST}", fault=AddressFault.LIST, is_kept=True
            ),
        ),
    ),
    ArchiveService(
        *("wikiwix", "Wikiwix", ("archive.wikiwix.com", "wikiwix.com")),
        "https://archive.wikiwix.com/cache/{ts}/{url}",
        (
            AddressForm(rf"/cache/{_AT}"),
            AddressForm(
                r"/cache/(?:(?:index|display)2?\.php)?\?(?:.*?&)?url=(?P<url>.+)",
                "https://archive.wikiwix.com/cache/?url={url}",
                is_quoted=True,
            ),
        ),
    ),
    ArchiveService(
        *("freezepage", "FreezePage", ("freezepage.com",)),
        "https://www.freezepage.com/{id}",
        (AddressForm(r"/(?P<id>\d{10}[A-Z]{10})(?:[/?].*)?"),),
        is_made=False,
    ),
    ArchiveService(
        *("conifer", "Conifer, once Webrecorder.io", ("conifer.rhizome.org", "webrecorder.io")),
        "",
        (
            AddressForm(
                rf"/[\w.%-]{{1,80}}/[\w.%-]{{1,160}}/(?:list/[^/]+/[^/]+/)?{_TS}{_MOD}(?:\$[\w:.-]+)?/{_URL}",
                is_kept=True,
            ),
        ),
        is_made=False,
    ),
    ArchiveService(
        *("ukwa", "UK Web Archive", ("webarchive.org.uk",)),
        "https://www.webarchive.org.uk/wayback/archive/{ts}/{url}",
        (
            *_plain(r"/wayback(?:/[a-z]{2})?/archive"),
            AddressForm(rf"/wayback(?:/[a-z]{{2}})?/archive/{_SURE}"),
        ),
    ),
    ArchiveService(
        *("ghostarchive", "Ghost Archive", ("ghostarchive.org",)),
        "https://ghostarchive.org/archive/{ts}/{url}",
        (
            AddressForm(rf"/archive/{_AT}"),
            AddressForm(
                r"/archive/(?P<id>[A-Za-z0-9]{4,12})(?:[/?].*)?",
                "https://ghostarchive.org/archive/{id}",
            ),
            AddressForm(
                r"/varchive/youtube/(?P<ts>\d{8})/(?P<id>[\w-]{11})(?:[/?&].*)?",
                "https://ghostarchive.org/varchive/youtube/{ts}/{id}",
                original="https://www.youtube.com/watch?v={id}",
            ),
            AddressForm(
                r"/varchive/(?P<id>[\w-]{11})(?:[/?&].*)?",
                "https://ghostarchive.org/varchive/{id}",
                original="https://www.youtube.com/watch?v={id}",
            ),
        ),
        is_made=False,
    ),
    ArchiveService(
        *("memento", "Memento Time Travel", ("timetravel.mementoweb.org", "mementoweb.org")),
        "https://timetravel.mementoweb.org/memento/{ts}/{url}",
        (
            AddressForm(rf"/(?:memento|reconstruct|api/json)/{_AT}"),
            AddressForm(
                rf"/(?:list/(?:{_TS}/)?|timemap/(?:link|json)/|timegate/|memento/){_URL}",
                "https://timetravel.mementoweb.org/timemap/link/{url}",
                fault=AddressFault.LIST,
            ),
        ),
    ),
    ArchiveService(
        *("yorku", "York University Libraries", ("digital.library.yorku.ca",)),
        "https://digital.library.yorku.ca/wayback/{ts}/{url}",
        _plain("/wayback"),
    ),
    ArchiveService(
        *("padicat", "Padicat, Catalonia", ("padi.cat",)),
        "http://padi.cat:8080/wayback/{ts}/{url}",
        _plain("/wayback"),
    ),
    ArchiveService(
        *("megalodon", "Megalodon, Japan", ("megalodon.jp", "gyo.tc")),
        "https://megalodon.jp/{ts}/{url}",
        (
            AddressForm(
                rf"(?:/ref)?/(?P<ts>\d{{4}}-\d{{4}}-\d{{4}}(?:-\d\d)?)/{_URL}", is_kept=True
            ),
        ),
        zone_h=9,
        is_made=False,
    ),
    ArchiveService(
        *("webarchiv-cz", "Webarchiv, Czech Republic", ("wayback.webarchiv.cz",)),
        "https://wayback.webarchiv.cz/wayback/{ts}/{url}",
        _plain("/wayback"),
    ),
)
SERVICES: Final[Mapping[str, ArchiveService]] = MappingProxyType(
    {each.name: each for each in _SERVICES}
)
# Our own pages and copies, at origins that the caller names; `#` is escaped there (docs/reference/memento.md).
OWN_FORMS: Final = (
    AddressForm(
        r"(?:/w/[^/]+)?/(?:page|c|screenshot|text)/(?P<ts>\d{14})(?P<mod>(?:[a-z]{2}_)?)/(?P<url>.+)"
    ),
    AddressForm(
        r"(?:/w/[^/]+)?/(?:page|timegate|timemap/(?:link|json|cdxj)|calendar)/(?P<url>.+)",
        fault=AddressFault.LIST,
    ),
)
# Any other replay: a whole moment and a whole URL behind it (pywb, OpenWayback, and who copies them).
OTHER_FORM: Final = AddressForm(
    r"(?:/[^/]{1,80}){0,4}/(?P<ts>(?:19|20)\d{12})(?P<mod>(?:[a-z]{2}_)?)/(?P<url>https?:/{1,2}[^/].*)",
    is_kept=True,
)
