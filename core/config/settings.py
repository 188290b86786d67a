"""Settings: typed, frozen, with units in their names.

A profile is a TOML file with one table a group, e.g. ``[visit]``. A function takes the group it
needs, never the whole bag. A `[[sheet]]` table changes some of it for a part of the web. Each
field's comment is its documentation (`docs/reference/settings.md` is made from it). `core.config.profile` reads them.
"""

from dataclasses import dataclass, field

from core.config.sheets import Sheet

PICTURE_FORMATS = ("png", "jpeg", "webp")
LINK_MIRRORS = ("never", "failed", "always")
LINK_PRESETS = ("default", "iabot", "dewiki")
PURPOSE_PAGE = "https://www.mediawiki.org/wiki/Extension:Weboid"  # what Weboid is, for sites
SCOPE_KINDS = ("page", "prefix", "host", "domain", "any")


@dataclass(frozen=True, slots=True)
class VisitSettings:
    """One visit: what the browser does with a page, and for how long."""

    timeout_s: float = 60.0  # the deadline of the whole visit, from navigation to artifacts
    settle_s: float = 0.25  # a page with scripts is at rest when nothing happened for so long
    settle_limit_s: float = 15.0  # stop waiting for rest after so long, and go on
    patience_s: float = 2.0  # wait so long for timers, and for what goes on changing on one spot
    viewport_width: int = 1280  # CSS pixels
    viewport_height: int = 800  # CSS pixels
    device_scale: float = 1.0  # device pixels to a CSS pixel: 2 is a sharp screen
    mobile: bool = False  # be a phone: touch, viewport meta, mobile User-Agent and client hints
    colour_scheme: str = "light"  # what prefers-color-scheme says: "light" or "dark"
    reduced_motion: bool = False  # prefers-reduced-motion: sites leave animations out
    store: str = (
        ""  # record only so much: "text", "no-media" or "everything"; empty: as `weboid level` says
    )
    view: bool = True  # keep a viewport screenshot
    full_page: bool = True  # keep a screenshot of the whole page
    thumbnail: bool = True  # keep a small picture for lists
    dom: bool = True  # keep the final DOM, which playback is made from
    text: bool = True  # keep the visible text
    pdf: bool = False  # keep the page as it would be printed, as PDF
    favicon: bool = True  # load the page's icon, which this browser does not do by itself
    full_page_limit_px: int = 16_000  # a full-page screenshot is cut at this height, in CSS pixels
    picture_format: str = "png"  # of screenshots: "png", or smaller and lossy "jpeg" or "webp"
    picture_quality: int = 80  # of "jpeg" and "webp", from 1 to 100
    refetch_requests: int = 30  # parts that did not come are asked for again, so many; 0: none
    refetch_bytes: int = 100_000_000  # … as long as no more than this comes of them
    refetch_s: float = 10.0  # … and no longer than this
    rendered_share: float = (
        1.0  # of pages that are no seeds, so many are rendered, the rest fetched
    )
    language: str = "en-US,en"  # Accept-Language, and what scripts are told
    locale: str = ""  # of dates and numbers, "de-DE"; empty: the first of `language`
    timezone: str = ""  # "Europe/Berlin"; empty: UTC
    user_agent: str = ""  # empty: the browser's own, without the word Headless
    contact: str = ""  # a page or mail address, added to the User-Agent as "(+…)"
    purpose_page: str = ""  # says why sites are visited, added to the User-Agent as "Weboid/0.1 (+…)"; unattended runs name [links] purpose_page's default
    headers: dict[str, str] = field(
        default_factory=dict
    )  # name -> value, sent with every request of a page, to every host: no place for secrets


@dataclass(frozen=True, slots=True)
class BehaviourSettings:
    """What is done on a page, as a reader would do it, so that everything loads that it has."""

    run: tuple[str, ...] = (
        "consent",
        "scroll",
        "lazy",
        "details",
        "media",
    )  # names (docs/reference/behaviours.md), in this order; an empty list: none
    limit_s: float = 10.0  # all of them together may take so long
    scripts: tuple[str, ...] = ()  # your own, run after these: files beside the profile
    accept_cookies: bool = False  # agree where a banner offers no way to refuse
    scroll_rounds: int = 10  # a page that grows when its end is in sight may do so so often
    scroll_px: int = 60_000  # … and is scrolled no further than this
    clicks: int = 30  # expand and more press so many things each
    fetches: int = 200  # lazy and candidates ask for so many pictures each
    hovers: int = 30  # hover leads the pointer to so many places
    routes: int = 20  # routes visits so many


@dataclass(frozen=True, slots=True)
class BrowserSettings:
    """The browser process."""

    executable: str = ""  # empty: the first found of headless shell, Chromium, Chrome
    recycle_pages: int = 250  # a browser is replaced after so many visits
    recycle_rss_mb: int = 3_000  # … or when its processes hold so much memory
    recycle_age_s: float = 3_600.0  # … or when it is so old
    start_timeout_s: float = 30.0  # a browser that does not answer by then is given up
    visits_per_browser: int = 8  # when more visits run at the same time there are more browsers
    drain_limit_s: float = 600.0  # visits in a browser that is replaced may take so long
    hang_limit_s: float = 30.0  # a browser that does not answer for so long is killed
    page_memory_mb: int = 2_000  # a process of a page that holds more is killed
    memory_reserve_mb: int = (
        500  # a visit is begun when it will leave so much memory; one may always
    )


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The WARC-writing proxy."""

    processes: int = 1  # proxies that share the load; a visit stays on one
    body_limit_bytes: int = 256 * 1024 * 1024  # a longer body is cut and marked WARC-Truncated
    connect_timeout_s: float = 15.0  # name, addresses and TLS handshake together
    read_timeout_s: float = 30.0  # silence on a connection for so long ends the response
    response_limit_s: float = 600.0  # one response may take so long, then it is cut and marked
    warc_limit_bytes: int = 1_000_000_000  # a WARC is closed when it has reached this size
    warc_limit_s: float = 86_400.0  # … or when it has been open for so long; 0: never
    dedup_bucket: str = "default"  # captures in one bucket share their payloads
    dedup_also: tuple[str, ...] = ()  # buckets whose payloads may be referred to, but not added to
    dedup_min_bytes: int = 1  # a smaller payload is written each time it is met
    dedup_url: str = ""  # "redis://host:port/number" for several machines; empty: this collection
    disk_reserve_bytes: int = 1_000_000_000  # archiving pauses when less than this is free
    disk_wait_s: float = 86_400.0  # wait so long for space, then end the run; 0: end it at once
    seal_grace_s: float = 2.0  # what is still in flight at the end of a visit may take so long
    visit_limit_bytes: int = 2_000_000_000  # all that one visit may receive
    visit_limit_requests: int = 10_000  # all that one visit may ask for
    crawl_limit_bytes: int = 0  # all that one run may receive, through all proxies; 0: no limit
    whole_ranges: bool = True  # when a page asks for a part (206), fetch the whole once, too
    websockets: bool = True  # lead them through, unrecorded; false: refuse them


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The captures index: what was captured, and in which WARC it lies."""

    url: str = ""  # "postgresql://user:password@host:port/name", with [proxy] dedup_url; empty: this collection
    patience_s: float = 60.0  # wait so long for a database that is gone, then visits are made again


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """Where the proxy may connect to."""

    allow: tuple[str, ...] = ()  # networks allowed although they are not public, e.g. "127.0.0.0/8"
    refuse: tuple[str, ...] = ()  # networks refused although public or allowed: your own servers'
    resolve: dict[str, str] = field(
        default_factory=dict
    )  # "host" or "host:port" -> "address" or "address:port", asked before DNS
    ca_file: str = ""  # certificates to trust besides the system's, as a PEM file
    enforce_tls: bool = False  # refuse origins whose certificate does not verify
    block: tuple[str, ...] = ()  # hosts never asked: "example.org", "*.example.org": all in it, too
    via: dict[str, str] = field(
        default_factory=dict
    )  # host pattern -> "socks5://…", "socks5h://…", "http://host:port" or "direct"; "*": all others
    via_unknown_names: bool = (
        False  # leave names that do not resolve here to an HTTP proxy, unchecked
    )
    via_absolute_form: bool = (
        False  # ask an HTTP proxy for plain http by name, which it resolves again, without a tunnel
    )
    connections_per_host: int = 12  # open to one host and port at the same time, by each proxy


@dataclass(frozen=True, slots=True)
class PolitenessSettings:
    """How gently one host is asked."""

    delay_factor: float = 1.0  # wait so many times as long as the last visit took …
    min_delay_s: float = 1.0  # … but at least this
    max_delay_s: float = 30.0  # … and at most this
    visits_per_host: int = 1  # visits to one host at the same time
    per_address: bool = False  # hosts that resolve to one address take turns as if they were one
    crawl_delay_limit_s: float = 300.0  # what a robots.txt may ask for between two visits at most
    host_retry_s: float = (
        60.0  # a host that refused us or failed rests so long, doubled each time …
    )
    host_retry_limit_s: float = 86_400.0  # … and at most so long
    host_failures: int = 5  # a host that could not be reached so often in a row is given up …
    host_down_s: float = 86_400.0  # … for so long: what waits for it ends unvisited


@dataclass(frozen=True, slots=True)
class FrontierSettings:
    """The queue of URLs to visit."""

    attempts: int = 3  # a URL that failed so often goes to the dead letters
    lease_s: float = 60.0  # a claim not renewed for so long may be claimed by another
    retry_delay_s: float = 30.0  # before the second attempt; doubles with each, up to a week
    wait_for_sites: bool = False  # what waits for a host that is down is tried again after that
    order: str = "fifo"  # in a lane: "fifo", or "random"
    high_every: int = 5  # each so-many-th claim looks in the lane "high" first; 0: never
    standard_every: int = 10  # each so-many-th looks in the lane "standard" first; 0: never
    url: str = (
        ""  # "redis://host:port/number?frontier=NAME" for several machines; empty: this collection
    )


@dataclass(frozen=True, slots=True)
class ScopeSettings:
    """Which links a crawl follows."""

    kind: str = "prefix"  # "page", "prefix", "host", "domain" or "any", seen from each seed
    depth: int = -1  # links followed from a seed at most; -1: any number
    extra_hops: int = 0  # links followed beyond the scope
    include: tuple[str, ...] = ()  # patterns (RE2): a URL in which one is found is in scope, too
    exclude: tuple[str, ...] = ()  # patterns (RE2): a URL in which one is found is never visited
    sitemaps: bool = False  # read the sitemaps that a seed's host has, and add what is in scope
    link_decisions: bool = False  # log the decision on each link into reports/decisions-JOB.jsonl
    pages: int = 0  # pages that the crawl may archive; 0: no limit
    bytes: int = 0  # bytes that it may store; 0: no limit
    seconds: float = 0.0  # how long it may take; 0: no limit
    host_pages: int = 0  # pages of one host; 0: no limit
    host_bytes: int = 0  # bytes of one host; 0: no limit
    host_seconds: float = 0.0  # how long visits may keep one host busy, in all; 0: no limit


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """What is not archived although it is asked for."""

    robots: str = "ignore"  # robots.txt (RFC 9309): "obey", or "ignore"
    robots_agent: str = "Weboid"  # the product token that robots.txt is read for
    robots_lifetime_s: float = (
        86_400.0  # a robots.txt is asked for again after so long (24 h: RFC 9309, 2.4)
    )
    noarchive: str = "obey"  # noarchive and nocache in a page or its headers: "obey", or "ignore"
    ban_failures: int = (
        0  # a site at which so many URLs in a row failed is not asked for a while; 0: never (A07)
    )
    ban_failures_s: float = 86_400.0  # … for so long; what waits for it is put off until then
    ban_s: float = 604_800.0  # how long a site that forbids archiving is left alone
    lists: tuple[
        str, ...
    ] = ()  # files of hosts, URLs or patterns that are never visited: spam lists


@dataclass(frozen=True, slots=True)
class RecrawlSettings:
    """When a page is archived again."""

    enabled: bool = False  # queue what was archived again by itself
    every: str = ""  # "90d": switches it on, at this interval alone; empty: as the keys below say
    per_hour: int = 600  # captures made again in an hour at most, by each process; 0: no limit
    first_s: float = 604_800.0  # after the first capture
    min_s: float = 86_400.0  # never sooner
    max_s: float = 7_776_000.0  # never later
    changed_factor: float = 0.5  # the interval of a page that has changed is multiplied by this …
    unchanged_factor: float = 1.5  # … and of one that has not by this


@dataclass(frozen=True, slots=True)
class LoginSettings:
    """Which logins are used, of those that `weboid login` made; each for the hosts it names alone."""

    names: tuple[str, ...] = ()  # of two that name one host, the first is used
    key_file: str = ""  # what they are encrypted with; empty: a passphrase, which is asked for


@dataclass(frozen=True, slots=True)
class MediaSettings:
    """Video and audio behind players, fetched by yt-dlp: the extra ``weboid[media]``."""

    players: bool = False  # look for media on pages that suggest a player, and keep it
    hosts: tuple[str, ...] = (
        *("youtube.com", "youtube-nocookie.com", "youtu.be", "vimeo.com", "dailymotion.com"),
        *("twitch.tv", "soundcloud.com", "tiktok.com", "rumble.com", "odysee.com"),
    )  # these and all hosts in them suggest one, as pages and as frames; so do HLS and DASH anywhere
    max_height: int = 720  # pixels: the best picture up to this, else the best there is
    limit_bytes: int = 500_000_000  # no file may be longer
    limit_s: float = 180.0  # … and all of a page's may take no longer


@dataclass(frozen=True, slots=True)
class LinksSettings:
    """The link registry: when a URL is looked at, and what it takes to be dead."""

    preset: str = "default"  # "default", "iabot" (3 failures), or "dewiki" (4, two weeks apart)
    trust_tags: bool = (
        False  # what a page calls dead, not by our bot, is dead at its first own failure
    )
    connections: int = 500  # URLs that are asked for at the same time, each at another host
    host_gap_s: float = 6.0  # between two requests to one host at least
    timeout_s: float = 60.0  # one look at a URL may take so long, with all its redirects
    closer: bool = (
        True  # a link's first look, and one in four, is by GET; one in 16 beside an invented page
    )
    browser: bool = True  # a browser has the last word before a link is called dead
    contact: str = ""  # a page or mail address, told to the sites that are asked
    purpose_page: str = PURPOSE_PAGE  # says why sites are asked, told to them; empty: not told
    user_agent: str = ""  # empty: our own, with the contact and the purpose page
    pass_days: int = 28  # looking at everything once should take no longer; else it is told
    keep_days: int = 100  # a URL that no page has had for so long is forgotten
    reports_per_day: int = 3_000  # of all readers together; as many replacements may be proposed
    archives: tuple[
        str, ...
    ] = ()  # who is asked for copies, the preferred first (docs/how-to/archives.md); empty: nobody
    verify_copies: bool = (
        True  # fetch each version of an archive that is chosen: errors and challenges are refused
    )
    archive_living: bool = False  # look for copies of living links, too, and have them taken
    mirror: str = (
        "never"  # "failed", "always": archives elsewhere keep what we could not visit, or all
    )
    save_key_file: str = ""  # "key:secret" of Save Page Now; empty: it is not asked to take copies


@dataclass(frozen=True, slots=True)
class QualitySettings:
    """Checks of copies while a run goes on, and what becomes of what they find broken."""

    check: bool = False  # look at the copies of pages that were just archived, as `--qa` does
    share: float = 1.0  # of the pages of a run so many are looked at; suspect ones more often
    backlog: int = 100  # when so many wait to be looked at, the least suspect are left out
    repairs: int = 100  # a run captures so many again at most, of those that are broken; 0: none
    repair_profile: str = "thorough"  # laid over the settings of visits that capture again


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a profile can say."""

    visit: VisitSettings = field(default_factory=VisitSettings)
    behaviours: BehaviourSettings = BehaviourSettings()
    browser: BrowserSettings = BrowserSettings()
    proxy: ProxySettings = ProxySettings()
    index: IndexSettings = IndexSettings()
    egress: EgressSettings = field(default_factory=EgressSettings)
    politeness: PolitenessSettings = PolitenessSettings()
    frontier: FrontierSettings = FrontierSettings()
    scope: ScopeSettings = ScopeSettings()
    policy: PolicySettings = PolicySettings()
    recrawl: RecrawlSettings = RecrawlSettings()
    login: LoginSettings = LoginSettings()
    media: MediaSettings = MediaSettings()
    links: LinksSettings = LinksSettings()
    quality: QualitySettings = QualitySettings()
    sheets: tuple[Sheet, ...] = ()  # changes for a part of the web; see `core.config.sheets`
