"""Settings: typed, frozen, units in their names, read from TOML; their comments make `docs/reference/settings.md`."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.config.sheets import Sheet

PICTURE_FORMATS = ("png", "jpeg", "webp")
LINK_MIRRORS = ("never", "failed", "always")
LINK_PRESETS = ("default", "iabot", "dewiki")
PURPOSE_PAGE = "https://www.mediawiki.org/wiki/Extension:Weboid"  # what Weboid is, for sites
CONNECTION_KINDS = ("auto", "recorder", "browser")
SCOPE_KINDS = ("page", "prefix", "host", "domain", "any")


@dataclass(frozen=True, slots=True)
class VisitSettings:
    """Visits: the browser, artifacts, and time limits."""

    timeout_s: float = 60.0  # deadline of a whole visit, from navigation to the last artifact
    settle_s: float = 0.25  # a page with scripts counts as settled after this time without requests and changes
    settle_limit_s: float = 15.0  # maximum time to wait for a page to settle
    patience_s: float = 2.0  # additional time for timers, and for places that keep changing
    viewport_width: int = 1280  # width of the window in CSS pixels
    viewport_height: int = 800  # height of the window in CSS pixels
    device_scale: float = 1.0  # device pixels per CSS pixel; 2 is a high-density screen
    mobile: bool = False  # emulate a phone: touch, viewport meta tag, mobile User-Agent and client hints
    colour_scheme: str = "light"  # value of prefers-color-scheme: "light" or "dark"
    reduced_motion: bool = False  # set prefers-reduced-motion, with which sites omit animations
    store: str = ""  # recording level: "text", "no-media" or "everything"; empty: as `weboid level` sets it
    view: bool = True  # keep a screenshot of the viewport
    full_page: bool = True  # keep a screenshot of the whole page
    thumbnail: bool = True  # keep a thumbnail for lists
    dom: bool = True  # keep the final DOM, from which copies are made
    text: bool = True  # keep the visible text
    pdf: bool = False  # keep the page as printed, as PDF
    favicon: bool = True  # load the page's icon, which this browser does not load by itself
    full_page_limit_px: int = 16_000  # maximum height of a full-page screenshot, in CSS pixels
    picture_format: str = "png"  # format of screenshots: "png", or the lossy "jpeg" or "webp"
    picture_quality: int = 80  # quality of "jpeg" and "webp", from 1 to 100
    refetch_requests: int = 30  # maximum number of missing resources requested again after a visit; 0: none
    refetch_bytes: int = 100_000_000  # maximum bytes of resources requested again
    refetch_s: float = 10.0  # maximum time for resources requested again
    # share of pages other than seeds that are rendered; the others are fetched without a browser
    rendered_share: float = 1.0
    # visit each page in a fresh browser context, without the cache, cookies and storage of earlier pages
    fresh: bool = False
    shared_pages: int = 100  # a browser context that pages of a site share is replaced after this number
    shared_age_s: float = 900.0  # and at this age; no cached resource is older
    # hosts may confirm what was archived within this time instead of sending it again; 0: fetch everything
    confirm_s: float = 2_592_000.0
    language: str = "en-US,en"  # Accept-Language, also visible to scripts
    locale: str = ""  # locale of dates and numbers, such as "de-DE"; empty: the first of `language`
    timezone: str = ""  # time zone, such as "Europe/Berlin"; empty: UTC
    user_agent: str = ""  # User-Agent; empty: the browser's own, without the word Headless
    contact: str = ""  # page or mail address of the operator, added to the User-Agent as "(+…)"
    # page that explains the visits, added to the User-Agent as "Weboid/0.2 (+…)"; unattended runs use the default of [links] purpose_page
    purpose_page: str = ""
    # connections to https sites: "recorder", the browser's own ("browser"), or those of the browser for hosts that refuse the recorder ("auto")
    connections: str = "auto"
    # headers sent with every request of a page, to every host; not for secrets
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BehaviourSettings:
    """Scripts that act on a page so that all of its content loads."""

    # names of behaviours (docs/reference/behaviours.md) in this order; an empty list: none
    run: tuple[str, ...] = ("consent", "scroll", "sites", "lazy", "details", "media", "candidates")
    limit_s: float = 30.0  # maximum time for all behaviours together
    scripts: tuple[str, ...] = ()  # files with behaviours of your own, run after these; relative to the profile
    # Python files that act on pages through Playwright, with `async def flow(page)`; relative to the profile
    flows: tuple[str, ...] = ()
    accept_cookies: bool = False  # accept cookies where a banner offers no way to refuse
    scroll_rounds: int = 10  # maximum number of times that a growing page is scrolled to its end
    scroll_px: int = 60_000  # maximum distance that a page is scrolled, in CSS pixels
    clicks: int = 30  # maximum number of clicks of `expand`, of `more`, and on "load more" of `sites`
    # maximum number of images of a document fetched by `lazy` and by `candidates`, each; a cut is noted
    fetches: int = 500
    hovers: int = 30  # maximum number of elements that `hover` points at
    routes: int = 20  # maximum number of routes that `routes` visits


@dataclass(frozen=True, slots=True)
class BrowserSettings:
    """Browser processes."""

    executable: str = ""  # path of the browser; empty: the first found of headless shell, Chromium, Chrome
    recycle_pages: int = 250  # a browser is replaced after this number of visits
    recycle_rss_mb: int = 3_000  # a browser is replaced when its processes use this much memory, in MB
    recycle_age_s: float = 3_600.0  # a browser is replaced at this age
    start_timeout_s: float = 30.0  # maximum time for a browser to start
    visits_per_browser: int = 8  # maximum number of simultaneous visits in one browser
    drain_limit_s: float = 600.0  # maximum time for visits in a browser that is being replaced
    hang_limit_s: float = 30.0  # a browser without an answer for this time is killed
    page_memory_mb: int = 2_000  # a renderer process with more memory is killed, in MB
    memory_reserve_mb: int = 500  # free memory that must remain when a visit starts, in MB; one visit may always run


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """WARC-writing proxy."""

    processes: int = 1  # number of proxies that share the load; a visit stays on one
    body_limit_bytes: int = 256 * 1024 * 1024  # a longer body is truncated and marked WARC-Truncated
    connect_timeout_s: float = 15.0  # timeout of name resolution, connection and TLS handshake together
    read_timeout_s: float = 30.0  # a response ends after this time without data
    response_limit_s: float = 600.0  # maximum time of one response; a longer one is truncated and marked
    warc_limit_bytes: int = 1_000_000_000  # a WARC is closed at this size
    warc_limit_s: float = 86_400.0  # a WARC is closed at this age; 0: never
    dedup_bucket: str = "default"  # captures in one bucket share their payloads
    dedup_also: tuple[str, ...] = ()  # further buckets whose payloads may be referred to, but to which none are added
    dedup_min_bytes: int = 1  # smaller payloads are not deduplicated
    dedup_url: str = ""  # address of a shared dedup index, "redis://host:port/number"; empty: the collection's own
    disk_reserve_bytes: int = 1_000_000_000  # archiving pauses when less than this is free
    disk_wait_s: float = 86_400.0  # maximum time to wait for free space before the run ends; 0: it ends at once
    seal_grace_s: float = 2.0  # time for responses in transfer at the end of a visit
    visit_limit_bytes: int = 2_000_000_000  # maximum bytes received by one visit
    visit_limit_requests: int = 10_000  # maximum number of requests of one visit
    crawl_limit_bytes: int = 0  # maximum bytes received by one run, through all proxies; 0: no limit
    whole_ranges: bool = True  # when a page requests a part (206), also fetch the whole once
    websockets: bool = True  # forward WebSocket connections unrecorded; false: refuse them
    title: str = ""  # of what is archived; written into `warcinfo` records as `isPartOf`
    description: str = ""  # of the same, in `warcinfo` records
    operator: str = ""  # name in `warcinfo` records; empty: `name` of [operator], or else the contact address
    profile: str = ""  # name of these settings in `warcinfo` records; empty: that of the profile


INDEX_URL = "WEBOID_DATABASE"  # environment variable with the address of a shared index


def store_environment(database_url: str, frontier_url: str = "") -> dict[str, str]:
    """Return the variables that name shared stores, for child commands; command lines expose passwords."""
    addresses = {INDEX_URL: database_url, "WEBOID_FRONTIER": frontier_url}
    return {name: value for name, value in addresses.items() if value}


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Captures index: captures and their WARC locations."""

    # address of a shared captures index, "postgresql://user:password@host:port/name", with [proxy] dedup_url; empty: the collection's own
    url: str = ""
    patience_s: float = 60.0  # maximum time to wait for an unavailable database; then the visits are repeated
    text: bool = True  # index the texts of pages for full-text search, while they are archived and imported


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Object storage (S3) for closed WARCs: the extra ``weboid[s3]``."""

    url: str = ""  # bucket and prefix that closed WARCs are uploaded to, "s3://bucket/prefix"; empty: none
    endpoint_url: str = ""  # address of the server, such as "https://s3.example.org"; empty: Amazon S3
    region: str = ""  # region of the bucket; empty: that of AWS_DEFAULT_REGION or ~/.aws/config
    addressing: str = "auto"  # form of requests: "path" (host/bucket), "virtual" (bucket.host) or "auto"
    checksum: str = "sha256"  # checksums sent with data: "sha256", or "md5" for servers that refuse the former
    # local files of uploaded WARCs: "always", or only for a time since the upload ("7d"; "0s": not at all) or up to a size ("500GB"), the oldest removed first
    keep_local: str = "always"
    cache_bytes: int = 1_000_000_000  # maximum size of the local cache of WARCs that are in the bucket alone


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """Network addresses that the proxy may connect to."""

    allow: tuple[str, ...] = ()  # networks that are allowed although they are not public, such as "127.0.0.0/8"
    # networks that are refused although they are public or allowed, such as your own servers'
    refuse: tuple[str, ...] = ()
    # addresses of hosts used instead of DNS: "host" or "host:port" = "address" or "address:port"
    resolve: dict[str, str] = field(default_factory=dict)
    ca_file: str = ""  # PEM file with certificates to trust in addition to the system's
    enforce_tls: bool = False  # refuse sites whose certificate does not verify
    # hosts that are never requested: "example.org", or "*.example.org" with all its subdomains
    block: tuple[str, ...] = ()
    # upstream proxies by host pattern: "socks5://…", "socks5h://…", "http://host:port" or "direct"; "*": all others
    via: dict[str, str] = field(default_factory=dict)
    via_unknown_names: bool = False  # let an HTTP proxy resolve names that do not resolve here, unchecked
    # send plain http requests to an HTTP proxy by name, which it resolves again, instead of through a tunnel
    via_absolute_form: bool = False
    connections_per_host: int = 12  # maximum number of connections of a proxy to one host and port


@dataclass(frozen=True, slots=True)
class PolitenessSettings:
    """Rate limits of hosts."""

    delay_factor: float = 1.0  # delay between two visits to a host, as a multiple of the last visit's duration
    min_delay_s: float = 1.0  # minimum delay between two visits to a host
    max_delay_s: float = 30.0  # maximum delay between two visits to a host
    visits_per_host: int = 1  # simultaneous visits to one host
    per_address: bool = False  # hosts with the same address share visits and delays
    crawl_delay_limit_s: float = 300.0  # maximum Crawl-delay that a robots.txt can request
    host_retry_s: float = 60.0  # back-off of a host that refused or failed; doubled each time in a row
    host_retry_limit_s: float = 86_400.0  # maximum back-off of a host
    host_failures: int = 5  # a host is considered down after this number of failures in a row
    host_down_s: float = 86_400.0  # time for which a host is considered down; its waiting URLs end unvisited


@dataclass(frozen=True, slots=True)
class FrontierSettings:
    """Queue of URLs to visit."""

    attempts: int = 3  # maximum number of attempts at a URL; then it is a dead letter
    lease_s: float = 60.0  # a claim that is not renewed for this time may be claimed again
    retry_delay_s: float = 30.0  # delay before the second attempt; doubled each time, at most a week
    wait_for_sites: bool = False  # retry the URLs of a host that is down instead of ending them
    order: str = "fifo"  # order within a lane: "fifo" or "random"
    high_every: int = 5  # every n-th claim takes the lane "high" first; 0: never
    standard_every: int = 10  # every n-th claim takes the lane "standard" first; 0: never
    url: str = ""  # address of a shared frontier, "redis://host:port/number?frontier=NAME"; empty: the collection's own


@dataclass(frozen=True, slots=True)
class ScopeSettings:
    """Links that a crawl follows, and its limits."""

    kind: str = "prefix"  # scope of each seed: "page", "prefix", "host", "domain" or "any"
    depth: int = -1  # maximum number of links followed from a seed; -1: no limit
    extra_hops: int = 0  # number of links followed beyond the scope
    include: tuple[str, ...] = ()  # patterns (RE2); a URL that contains a match is in scope
    exclude: tuple[str, ...] = ()  # patterns (RE2); a URL that contains a match is never visited
    sitemaps: bool = False  # read the sitemaps of the seeds' hosts, and add what is in scope
    link_decisions: bool = False  # log the decision on each link in reports/decisions-JOB.jsonl
    pages: int = 0  # maximum number of pages of the crawl; 0: no limit
    bytes: int = 0  # maximum bytes stored by the crawl; 0: no limit
    seconds: float = 0.0  # maximum duration of the crawl; 0: no limit
    host_pages: int = 0  # maximum number of pages of one host; 0: no limit
    host_bytes: int = 0  # maximum bytes of one host; 0: no limit
    host_seconds: float = 0.0  # maximum duration of all visits to one host; 0: no limit


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Rules that exclude requested URLs from archiving."""

    robots: str = "ignore"  # robots.txt (RFC 9309): "obey" or "ignore"
    robots_agent: str = "Weboid"  # product token for which robots.txt is read
    robots_lifetime_s: float = 86_400.0  # time after which a robots.txt is fetched again (RFC 9309, 2.4: 24 h)
    noarchive: str = "obey"  # noarchive and nocache in a page or its headers: "obey" or "ignore"
    ban_failures: int = 0  # a site is banned after this number of failed URLs in a row; 0: never
    ban_failures_s: float = 86_400.0  # duration of the ban after failures; waiting URLs are deferred
    ban_s: float = 604_800.0  # duration of the ban of a site that forbids archiving
    lists: tuple[str, ...] = ()  # files of hosts, URLs or patterns that are never visited, such as spam lists


@dataclass(frozen=True, slots=True)
class RecrawlSettings:
    """Schedule of recaptures."""

    enabled: bool = False  # queue archived pages again on schedule
    every: str = ""  # interval such as "90d", which enables recrawls; empty: the adaptive interval below
    per_hour: int = 600  # maximum number of recaptures per hour and process; 0: no limit
    first_s: float = 604_800.0  # interval after the first capture
    min_s: float = 86_400.0  # minimum interval
    max_s: float = 7_776_000.0  # maximum interval
    changed_factor: float = 0.5  # factor of the interval of a page that has changed
    unchanged_factor: float = 1.5  # factor of the interval of a page that has not changed


@dataclass(frozen=True, slots=True)
class LoginSettings:
    """Logins in use, of those that `weboid login` made; each applies to its hosts only."""

    names: tuple[str, ...] = ()  # names of logins; if two include the same host, the first is used
    key_file: str = ""  # file with the key of the logins; empty: a passphrase, which is requested


@dataclass(frozen=True, slots=True)
class MediaSettings:
    """Video and audio behind players, fetched by yt-dlp: the extra ``weboid[media]``."""

    players: bool = False  # look for media on pages with a player, and keep it
    # hosts, with their subdomains, that indicate a player, as pages and as frames; HLS and DASH always do
    hosts: tuple[str, ...] = (
        *("youtube.com", "youtube-nocookie.com", "youtu.be", "vimeo.com", "dailymotion.com"),
        *("twitch.tv", "soundcloud.com", "tiktok.com", "rumble.com", "odysee.com"),
    )
    max_height: int = 720  # maximum height in pixels; if there is none up to it, the best version
    limit_bytes: int = 500_000_000  # maximum bytes of one file
    limit_s: float = 180.0  # maximum time for all media of a page
    shared_age_s: float = 86_400.0  # until then, further pages of a run refer to media that one has downloaded


@dataclass(frozen=True, slots=True)
class LinksSettings:
    """Link registry: when links are checked, and when they are dead."""

    preset: str = "default"  # threshold of failures: "default", "iabot" (3 failures), or "dewiki" (4, two weeks apart)
    trust_tags: bool = False  # a link that a page tags as dead, other than by our bot, is dead at its first failure
    connections: int = 500  # maximum number of simultaneous checks, each at another host
    host_gap_s: float = 6.0  # minimum time between two requests to one host
    timeout_s: float = 60.0  # timeout of one check, with all redirects
    # use GET for the first check and every fourth, and compare one in 16 with an invented URL of its host
    closer: bool = True
    browser: bool = True  # a browser must confirm that a link is dead
    contact: str = ""  # page or mail address of the operator, sent to checked sites
    purpose_page: str = PURPOSE_PAGE  # page that explains the checks, sent to checked sites; empty: none
    user_agent: str = ""  # User-Agent; empty: Weboid's, with contact and purpose page
    pass_days: int = 28  # a warning is printed when checking all links once takes longer
    keep_days: int = 100  # data of a URL that no page cites is deleted after this time
    reports_per_day: int = 3_000  # maximum number of reports from all readers, and of proposed replacements
    # archives that are queried for copies, the preferred first (docs/how-to/archives.md); empty: none
    archives: tuple[str, ...] = ()
    verify_copies: bool = True  # fetch each chosen copy of an archive, and reject errors and challenges
    archive_living: bool = False  # also look for copies of working links, and request missing ones
    mirror: str = "never"  # have other archives keep what could not be visited ("failed"), or everything ("always")
    save_key_file: str = ""  # file with "key:secret" of Save Page Now; empty: it is not used


@dataclass(frozen=True, slots=True)
class QualitySettings:
    """Checks of copies during a run, and recaptures of broken ones."""

    check: bool = False  # check the copies of pages during a run, as `--qa` does
    share: float = 1.0  # share of the pages of a run that is checked; suspicious pages more often
    backlog: int = 100  # maximum number of pages waiting for a check; the least suspicious are left out
    repairs: int = 100  # maximum number of broken pages captured again in a run; 0: none
    repair_profile: str = "thorough"  # profile applied to the visits that capture again


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Operator's console."""

    audit_days: int = 730  # time for which the log of changes is kept; 0: forever


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a profile can say."""

    visit: VisitSettings = field(default_factory=VisitSettings)
    behaviours: BehaviourSettings = BehaviourSettings()
    browser: BrowserSettings = BrowserSettings()
    proxy: ProxySettings = ProxySettings()
    index: IndexSettings = IndexSettings()
    storage: StorageSettings = StorageSettings()
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
    console: ConsoleSettings = ConsoleSettings()
    sheets: "tuple[Sheet, ...]" = ()  # changes for a part of the web; see `core.config.sheets`
