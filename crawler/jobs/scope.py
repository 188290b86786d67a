"""Scope of a crawl: decision on each link, with its reason.

Kinds relative to a seed, as browsertrix's scope types; http and https are equal, and so is a default port:

    page      the seed itself
    prefix    its folder: all whose path begins with the seed's, up to the last slash
    host      its host
    domain    its host without www. and all hosts below it
    any       everything

A link is in scope when it is in the scope of any seed, or an include pattern is found in it, and no exclude pattern is.
Links outside the scope may still be followed for `extra_hops` links in a row.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from core.config.settings import ScopeSettings
from core.config.sheets import SurtPrefixMap
from core.errors import BadUrlError
from core.hosts import domains_of
from core.regexes import PatternList
from core.urls import authority_of, fetch_key, host_of, identity_key

WWW = "www."
# Beyond these a path is made by a mistake in links, such as a relative one that leads deeper each time
# it is followed (Heritrix: TooManyPathSegmentsDecideRule 20, PathologicalPathDecideRule 2). Wider, so
# that no true page is lost: what escapes ends at the crawl's depth or budget.
SEGMENTS_LIMIT = 40
REPEATS_LIMIT = 4  # maximum occurrences of a segment in a path
URL_LIMIT_CHARS = 8_000  # longest URL of a page (`render.visit`)


@dataclass(frozen=True, slots=True)
class LinkDecision:
    """Decision on a link, with its reason."""

    followed: bool  # whether it joins the crawl
    # A constant first: ``seed``, ``prefix``, ``host``, ``domain``, ``any``, ``include:``,
    # ``extra hop:``; or ``exclude:``, ``depth:``, ``outside``, ``trap:``, ``url:``.
    reason: str
    hops_off: int = 0  # links followed since leaving the scope; 0 within the scope


class SeedTerritory:
    """URLs spanned by seeds of one kind; a lookup costs the same for one seed and thousands."""

    def __init__(self, kind: str, seeds: Iterable[str]) -> None:
        """Compute the territory of the seeds (fetch keys) for a `ScopeSettings.kind`."""
        self._kind = kind
        self._seeds: set[str] = set()
        self._places: set[str] = set()
        folders: dict[str, set[str]] = {}
        for seed in seeds:
            self._seeds.add(_schemeless(seed))
            if kind == "prefix":
                authority, folder = _folder(seed)
                folders.setdefault(authority, set()).add(folder)
            elif kind == "host":
                self._places.add(authority_of(seed))
            elif kind == "domain":
                self._places.add(_without_www(host_of(seed)))
        self._folders = {authority: SurtPrefixMap((each, each) for each in some) for authority, some in folders.items()}

    def why(self, url: str) -> str | None:
        """Return ``seed`` or the scope kind when the fetch key is in scope, which includes the seeds; else None."""
        if _schemeless(url) in self._seeds:
            return "seed"
        match self._kind:
            case "prefix":
                authority, path = _split(url)
                folders = self._folders.get(authority)
                spans = folders is not None and bool(folders.of(path))
            case "host":
                spans = authority_of(url) in self._places
            case "domain":
                spans = any(each in self._places for each in domains_of(host_of(url)))
            case kind:
                spans = kind == "any"
        return self._kind if spans else None


class Scope:
    """Scope of one crawl; decides on its links."""

    def __init__(self, territory: SeedTerritory, settings: ScopeSettings) -> None:
        """Combine a territory with settings. Raises ConfigError if a pattern cannot be compiled."""
        self._territory = territory
        self._settings = settings
        self._include, self._exclude = _patterns(settings.include, settings.exclude)

    def holds(self, url: str) -> bool:
        """Return True when the fetch key is neither excluded nor outside; depth does not count."""
        return self.excluded(url) is None and self._why_in(url) is not None

    def excluded(self, url: str) -> str | None:
        """Return the exclude pattern that matches the URL, else None."""
        return self._exclude.first_in(url)

    def decide(self, url: str, *, hops: int, hops_off: int | None) -> LinkDecision:
        """Decide on a link: `hops` with it, `hops_off` since the scope was left up to its page; None: no extra hop."""
        excluded, extra = self.excluded(url), self._settings.extra_hops
        refused = ""
        if excluded is not None:
            refused = f"exclude: {excluded}"
        elif 0 <= self._settings.depth < hops:
            refused = f"depth: more than {self._settings.depth} links"
        elif trap := _trap_reason(url):
            refused = f"trap: {trap}"
        elif (why := self._why_in(url)) is not None:
            return LinkDecision(followed=True, reason=why)
        elif hops_off is not None and hops_off < extra:
            reason = f"extra hop: {hops_off + 1} of {extra}"
            return LinkDecision(followed=True, reason=reason, hops_off=hops_off + 1)
        return LinkDecision(followed=False, reason=refused or "outside")

    def _why_in(self, url: str) -> str | None:
        if (why := self._territory.why(url)) is None and (included := self._include.first_in(url)) is not None:
            why = f"include: {included}"
        return why


def link_key(text: str) -> str:
    """Return the fetch key of a link from the browser; BadUrlError if it is none, or longer than `URL_LIMIT_CHARS`."""
    if len(text) > URL_LIMIT_CHARS:
        raise BadUrlError(f"A link of {len(text)} characters.", reason="too-long")
    return fetch_key(text, allow_single_label=True)


def describe_span(kind: str, seed: str) -> str:
    """Describe the URLs that a seed brings into scope.

    >>> describe_span("prefix", "https://example.org/docs/intro"), describe_span("domain", "http://www.example.org/")
    ('example.org/docs/…', 'example.org and *.example.org')
    """
    match kind:
        case "page":
            return "this page alone"
        case "prefix":
            authority, folder = _folder(seed)
            return f"{authority}{folder}…"
        case "host":
            return f"{authority_of(seed)}/…"
        case "domain":
            host = _without_www(host_of(seed))
            return f"{host} and *.{host}"
        case _:
            return "anything"


def describe_scope(settings: ScopeSettings, seeds: int) -> str:
    """Describe the scope in a sentence.

    >>> describe_scope(ScopeSettings(kind="host", depth=2), 1)
    'Pages of the host of the seed, at most 2 links away.'
    """
    whose = "the seed" if seeds == 1 else f"any of the {seeds} seeds"
    text = {
        "page": f"The page of {whose} alone",
        "prefix": f"Pages in the folder of {whose}",
        "host": f"Pages of the host of {whose}",
        "domain": f"Pages of the host of {whose} and of its subdomains",
        "any": "All pages",
    }[settings.kind]
    if settings.include:
        text += f", and URLs that match {_named(settings.include)}"
    if settings.depth >= 0:
        text += f", at most {settings.depth} link{_plural(settings.depth)} away"
    if settings.extra_hops:
        text += f", and {settings.extra_hops} link{_plural(settings.extra_hops)} beyond these"
    if settings.exclude:
        text += f"; never URLs that match {_named(settings.exclude)}"
    return text + "."


def _named(patterns: tuple[str, ...]) -> str:
    return " or ".join(patterns[:5]) + (f" or one of {len(patterns) - 5} more" * (len(patterns) > 5))


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


@lru_cache(maxsize=256)
def _patterns(include: tuple[str, ...], exclude: tuple[str, ...]) -> tuple[PatternList, PatternList]:
    return PatternList(include, where="scope.include"), PatternList(exclude, where="scope.exclude")


def _schemeless(url: str) -> str:
    """Return the identity key without its scheme; a non-default port stays."""
    return identity_key(url).partition("://")[2]


def _split(url: str) -> tuple[str, str]:
    """Return authority and path."""
    authority, _, rest = _schemeless(url).partition("/")
    return authority, "/" + rest.partition("?")[0].partition("#")[0]


def _folder(seed: str) -> tuple[str, str]:
    """Return the seed's authority, and its path up to the last slash."""
    authority, path = _split(seed)
    return authority, path.rpartition("/")[0] + "/"


def _without_www(host: str) -> str:
    """Return the host without ``www.``, unless only a top-level domain would be left."""
    rest = host.removeprefix(WWW)
    return rest if "." in rest else host


def _trap_reason(url: str) -> str:
    """Return why the URL looks like part of an endless series (crawler trap); empty when it does not."""
    path = url.partition("://")[2].partition("?")[0].partition("#")[0]
    segments = [segment for segment in path.split("/")[1:] if segment]
    if len(segments) > SEGMENTS_LIMIT:
        return f"{len(segments)} folders in its path"
    if len(segments) > REPEATS_LIMIT:
        most = max(segments, key=segments.count)
        if segments.count(most) > REPEATS_LIMIT:
            return f"its path repeats {most[:80]!r}"
    return ""
