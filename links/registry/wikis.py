"""Farms and wikis of the registry, the interwiki map of each wiki, and the state of its synchronisation.

A link's URL is built from the map as MediaWiki does. Links to wikis of the same farm, wikis that belong together (W61),
are not watched, but missing targets are reported (`wiki.sync.wiki_source`). A wiki's settings (W35) are JSON that the
registry stores for synchronisation (W26).

Feed cursor and lease (a row of kind `LEASE`) are written and checked in the transaction that writes the data. Machines'
clocks may differ by less than a lease's length.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote

from sqlalchemy import Connection, delete, select, update

from core.errors import CollectionInUseError, InputError
from core.regexes import check_regex
from core.storable_text import storable
from links.registry.pages import LOCK_WIKI
from links.registry.schema import farms, feeds, webhook_signatures, wikis
from links.registry.statements import Reader, SqlStatement, insert_missing, insert_new, one, upsert

MAP_LIMIT = 20_000
URL_LIMIT_CHARS = 8_192
# What MediaWiki leaves as it is in the path of a page (wfUrlencode); with letters, digits and "_.-".
_KEPT = ";@$!*(),/~:"


@dataclass(frozen=True, slots=True)
class InterwikiPrefix:
    """Prefix of the map."""

    prefix: str  # lower case
    url: str  # with ``$1`` for the title; with a scheme
    is_local: bool = False  # it belongs to a wiki of the same farm


class InterwikiMap:
    """Interwiki prefixes of a wiki."""

    def __init__(self, prefixes: Iterable[InterwikiPrefix] = ()) -> None:
        """Store the prefixes; of duplicates the first counts."""
        self._prefixes: dict[str, InterwikiPrefix] = {}
        for each in prefixes:
            self._prefixes.setdefault(each.prefix, each)

    def __len__(self) -> int:
        """Return the number of prefixes."""
        return len(self._prefixes)

    def urls(self, links: Iterable[tuple[str, str]], *, is_local: bool = False) -> list[str]:
        """Return the URLs of links, of (prefix, title); or of those to the farm's own wikis: not watched (W50)."""
        urls: dict[str, None] = {}
        for prefix, title in links:
            known = self._prefixes.get(prefix.strip().lower())
            if known is not None and known.is_local is is_local:
                urls[known.url.replace("$1", encoded_title(title))] = None
        return list(urls)


def read_interwikis(text: str | bytes) -> InterwikiMap:
    """Parse the map from an API answer in either format, or from its list alone; else InputError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"The interwiki map is not JSON: {error}.") from error
    entries = document
    if isinstance(document, dict):
        query = document.get("query")
        entries = (query if isinstance(query, dict) else document).get("interwikimap")
    if not isinstance(entries, list):
        raise InputError(
            "It contains no interwiki map: query the wiki's API for "
            "action=query&meta=siteinfo&siprop=interwikimap&format=json."
        )
    prefixes = []
    for entry in entries[:MAP_LIMIT]:
        fields = entry if isinstance(entry, dict) else {}
        prefix, url = fields.get("prefix"), fields.get("url")
        if not isinstance(prefix, str) or not isinstance(url, str) or not prefix.strip():
            continue
        url = f"https:{url}" if url.startswith("//") else url
        if len(url) > URL_LIMIT_CHARS or not url.lower().startswith(("http://", "https://")):
            continue
        # In the API's first format a flag is there, though empty, or not; in the second it is a boolean.
        is_local = fields.get("local", False) not in (False, None, 0)
        prefixes.append(InterwikiPrefix(prefix.strip().lower(), url, is_local))
    return InterwikiMap(prefixes)


def encoded_title(title: str) -> str:
    """Encode a title as MediaWiki does in URLs.

    >>> encoded_title("10.1000/a b?c+d")
    '10.1000/a_b%3Fc%2Bd'
    """
    return quote("_".join(title.split(" ")).encode("utf-8", "replace"), safe=_KEPT)


DEFAULT_FARM = "WMF"
PUBLIC = "public"  # the setting; true by default
_DBNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}", re.ASCII)
_FARM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}", re.ASCII)


class WikiName(NamedTuple):
    """Name of a wiki: its database's, and its farm's."""

    dbname: str
    farm: str = DEFAULT_FARM

    def __str__(self) -> str:
        return f"{self.dbname}@{self.farm}"

    @property
    def in_levels(self) -> str:
        """Return the name in levels and addresses, without the default farm and ``@``: ``dewiki``, ``osmwiki.OSM``."""
        return self.dbname if self.farm == DEFAULT_FARM else f"{self.dbname}.{self.farm}"


class WikiFarm(NamedTuple):
    """Farm of wikis."""

    id: int
    name: str
    address: str  # of its main page, whose host is the farm's own; empty when unknown
    internal: str  # an expression (RE2) that matches the hosts of its own wikis; empty: none


class Wiki(NamedTuple):
    """Wiki of the registry; `is_public` controls the visibility of its pages and links."""

    id: int
    name: WikiName
    farm_id: int
    url: str  # of its api.php; empty when unknown
    pages_url: str  # of a page, with ``$1`` for its title; empty when unknown
    settings: str  # a JSON object
    added_day: int

    def page_address(self, title: str) -> str:
        """Return the address of the page with that title; empty when `pages_url` is unknown."""
        return self.pages_url.replace("$1", encoded_title(title)) if title else ""

    @property
    def is_public(self) -> bool:
        """Return True when its pages and links are public; else only internal callers may see them."""
        return json.loads(self.settings or "{}").get(PUBLIC, True) is not False


_WIKI = select(
    *(wikis.c.id, wikis.c.dbname, farms.c.name, wikis.c.farm_id),
    *(wikis.c.url, wikis.c.pages_url, wikis.c.settings, wikis.c.added_day),
).select_from(wikis.join(farms, farms.c.id == wikis.c.farm_id))
ALL_FARMS = SqlStatement(select(*(farms.c[name] for name in WikiFarm._fields)).order_by(farms.c.id))
FIND_WIKI = SqlStatement(_WIKI.where(farms.c.name == one("farm"), wikis.c.dbname == one("dbname")))
WIKI_BY_ID = SqlStatement(_WIKI.where(wikis.c.id == one("id")))
CHANGE_FARM = SqlStatement(
    update(farms).where(farms.c.id == one("of")).values(address=one("new_address"), internal=one("new_internal"))
)
CHANGE_WIKI = SqlStatement(
    update(wikis)
    .where(wikis.c.id == one("of"))
    .values(url=one("new_url"), pages_url=one("new_pages_url"), settings=one("new_settings"))
)
ALL_WIKIS = SqlStatement(_WIKI.order_by(wikis.c.farm_id, wikis.c.dbname))


def observed_namespaces(wiki: Wiki) -> tuple[int, ...]:
    """Return the namespaces whose pages the wiki's settings observe; articles by default (W35)."""
    feed = json.loads(wiki.settings or "{}").get("feed", {})
    namespaces = feed.get("namespaces", [0]) if isinstance(feed, dict) else [0]
    return tuple(each for each in namespaces if isinstance(each, int)) or (0,)


def parse_wiki(text: str) -> WikiName:
    """Parse the name of a wiki, by default of the farm `DEFAULT_FARM`; InputError when it is not valid.

    >>> parse_wiki("dewiki"), str(parse_wiki("osmwiki@OSM"))
    (WikiName(dbname='dewiki', farm='WMF'), 'osmwiki@OSM')
    """
    dbname, at, farm = text.strip().partition("@")
    if not at:
        farm = DEFAULT_FARM
    if not _DBNAME.fullmatch(dbname) or not _FARM.fullmatch(farm):
        raise InputError(
            f"{text[:80]!r} is not a wiki's name: write its database's name and its farm's, such as dewiki@WMF."
        )
    return WikiName(dbname, farm)


def all_farms(reader: Reader) -> list[WikiFarm]:
    """Return all farms."""
    return [WikiFarm(*row) for row in ALL_FARMS.rows(reader, {})]


def find_farm(reader: Reader, name: str) -> WikiFarm | None:
    """Return the farm of that name; None when it is unknown."""
    return next((farm for farm in all_farms(reader) if farm.name == name), None)


def put_farm(connection: Connection, name: str, *, address: str = "", internal: str = "") -> WikiFarm:
    """Add or update a farm; InputError when the name or the expression is invalid."""
    if not _FARM.fullmatch(name):
        raise InputError(f"{name[:80]!r} is not a name for a farm: use letters, digits, '.', '-' and '_'.")
    if internal:
        check_regex(internal)
    stored_farm = find_farm(connection, name)
    if stored_farm is None:
        number = max((farm.id for farm in all_farms(connection)), default=0) + 1
        insert_missing(connection, farms, [WikiFarm(number, name, address, internal)._asdict()])
    else:
        CHANGE_FARM.run(connection, {"of": stored_farm.id, "new_address": address, "new_internal": internal})
    return next(farm for farm in all_farms(connection) if farm.name == name)


def all_wikis(reader: Reader) -> list[Wiki]:
    """Return all wikis, those of a farm together."""
    return [_wiki(row) for row in ALL_WIKIS.rows(reader, {})]


def find_wiki(reader: Reader, name: WikiName) -> Wiki | None:
    """Return the wiki of that name; None when it is unknown."""
    rows = FIND_WIKI.rows(reader, {"farm": name.farm, "dbname": name.dbname})
    return _wiki(rows[0]) if rows else None


def wiki_of(reader: Reader, wiki_id: int) -> Wiki:
    """Return the wiki of that number."""
    return _wiki(WIKI_BY_ID.rows(reader, {"id": wiki_id})[0])


def known_wiki(reader: Reader, name: WikiName) -> Wiki:
    """Return the wiki of that name; InputError when the registry does not know it."""
    wiki = find_wiki(reader, name)
    if wiki is None:
        raise InputError(f"The registry has no wiki {name}; `weboid wiki ls` shows those it knows.")
    return wiki


def ensure_wiki(connection: Connection, name: WikiName, *, day: int) -> Wiki:
    """Return the wiki of that name; add it when it is new; InputError when its farm is unknown."""
    wiki = find_wiki(connection, name)
    if wiki is not None:
        return wiki
    farm = find_farm(connection, name.farm)
    if farm is None:
        known = ", ".join(each.name for each in all_farms(connection))
        raise InputError(
            f"There is no farm {name.farm} (known: {known}). `weboid wiki set {name} --new-farm` creates it with its "
            "first wiki."
        )
    insert_missing(connection, wikis, [{"farm_id": farm.id, "dbname": name.dbname, "added_day": day}])
    return known_wiki(connection, name)


def change_wiki(
    connection: Connection,
    wiki: Wiki,
    *,
    url: str | None = None,
    pages_url: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Wiki:
    """Update a wiki; None leaves a value as it is; InputError when `pages_url` lacks ``$1``."""
    if pages_url and "$1" not in pages_url:
        raise InputError("The address of pages needs $1 where the title goes.")
    text = None if settings is None else json.dumps(dict(settings), ensure_ascii=False, sort_keys=True)
    given = {"url": url, "pages_url": pages_url, "settings": text}
    new = {f"new_{name}": getattr(wiki, name) if value is None else value for name, value in given.items()}
    CHANGE_WIKI.run(connection, {"of": wiki.id, **new})
    return wiki_of(connection, wiki.id)


def _wiki(row: Any) -> Wiki:
    id_, dbname, farm, *rest = row
    return Wiki(id_, WikiName(dbname, farm), *rest)


TROUBLE_LIMIT_CHARS = 500
LEASE = "lease"


class FeedHeldError(CollectionInUseError):
    """Refusal of a lease because another process synchronises the wiki until that time."""

    def __init__(self, message: str, *, until: datetime) -> None:
        super().__init__(message)
        self.until = until


class FeedCursor(NamedTuple):
    """Position of a feed."""

    wiki_id: int
    kind: str  # ``changes``, ``sweep``, …
    cursor: str  # opaque text of the feed; empty: it has not begun
    moment: datetime  # time of the last progress
    trouble: str  # reason that it is stopped; empty: it runs


FEEDS = SqlStatement(
    select(*(feeds.c[name] for name in FeedCursor._fields)).where(feeds.c.wiki_id == one("wiki")).order_by(feeds.c.kind)
)


_IS_FEED = (feeds.c.wiki_id == one("of"), feeds.c.kind == one("which"))
FORGET_FEED = SqlStatement(delete(feeds).where(*_IS_FEED))
SET_TROUBLE = SqlStatement(update(feeds).where(*_IS_FEED).values(trouble=one("why")))


def feeds_of(reader: Reader, wiki_id: int) -> dict[str, FeedCursor]:
    """Return the wiki's feeds, by their kinds."""
    return {
        row[1]: FeedCursor(row[0], row[1], row[2], datetime.fromtimestamp(row[3], UTC), row[4])
        for row in FEEDS.rows(reader, {"wiki": wiki_id})
    }


def put_cursors(connection: Connection, wiki_id: int, cursors: Mapping[str, str], *, now: datetime) -> None:
    """Store the positions of feeds by kind, and clear their trouble."""
    row = {"wiki_id": wiki_id, "moment": int(now.timestamp()), "trouble": ""}
    upsert(
        connection, feeds, ["wiki_id", "kind"], [row | {"kind": kind, "cursor": text} for kind, text in cursors.items()]
    )


def forget_feed(connection: Connection, wiki_id: int, kind: str) -> None:
    """Delete the position of a feed."""
    FORGET_FEED.run(connection, {"of": wiki_id, "which": kind})


def put_trouble(connection: Connection, wiki_id: int, kinds: Iterable[str], why: str, *, now: datetime) -> None:
    """Set or clear the reason that feeds are stopped; cursors and times are kept."""
    # On one line, without characters that databases reject.
    plain = " ".join(storable(why).split())[:TROUBLE_LIMIT_CHARS]
    for kind in kinds:
        parameters = {"of": wiki_id, "which": kind, "why": plain}
        if not SET_TROUBLE.run(connection, parameters) and why:
            put_cursors(connection, wiki_id, {kind: ""}, now=now)
            SET_TROUBLE.run(connection, parameters)


def take_feed_lease(
    connection: Connection,
    wiki_id: int,
    holder: str,
    *,
    now: datetime,
    length: timedelta,
    is_gone: Callable[[str], bool] = lambda _holder: False,
) -> None:
    """Claim or renew the lease of a wiki; FeedHeldError when another has it, unless `is_gone`."""
    lease = _locked_lease(connection, wiki_id)
    is_free = lease is None or lease.cursor in ("", holder) or lease.moment <= now
    if lease is not None and not is_free and not is_gone(lease.cursor):
        raise FeedHeldError(
            "Another process watches this wiki, or did so a moment ago: stop it, or wait until "
            f"{lease.moment:%H:%M:%S} UTC.",
            until=lease.moment,
        )
    put_cursors(connection, wiki_id, {LEASE: holder}, now=now + length)


def _locked_lease(connection: Connection, wiki_id: int) -> FeedCursor | None:
    LOCK_WIKI.rows(connection, {"wiki": wiki_id})
    return feeds_of(connection, wiki_id).get(LEASE)


def hold_feed_lease(connection: Connection, wiki_id: int, holder: str) -> None:
    """Lock the lease until the commit; FeedHeldError when another has it by now: write nothing."""
    lease = _locked_lease(connection, wiki_id)
    if lease is None or lease.cursor != holder:
        raise FeedHeldError(
            "Another process now watches this wiki, because this one did not renew its lease in time.",
            until=lease.moment if lease else datetime.fromtimestamp(0, UTC),
        )


def release_feed_lease(connection: Connection, wiki_id: int, holder: str, *, now: datetime) -> None:
    """Release the lease, unless another process holds it."""
    lease = _locked_lease(connection, wiki_id)
    if lease is not None and lease.cursor == holder:
        put_cursors(connection, wiki_id, {LEASE: ""}, now=now)


FORGET_SIGNATURES = SqlStatement(delete(webhook_signatures).where(webhook_signatures.c.moment < one("before")))


def use_signature(connection: Connection, signature: bytes, moment: datetime, *, lifetime: timedelta) -> bool:
    """Record a signature as used, and delete those older than `lifetime`; True when it was not used before."""
    moment_s = int(moment.timestamp())
    FORGET_SIGNATURES.run(connection, {"before": moment_s - int(lifetime.total_seconds())})
    return insert_new(connection, webhook_signatures, {"signature": signature, "moment": moment_s})
