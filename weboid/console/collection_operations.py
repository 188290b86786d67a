"""The collection in the console's API: texts, wikis and their feeds, presets, logins without secrets, storage."""

import hashlib
import threading
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from core.errors import ConfigError, InputError
from core.json_values import FactsOf, json_value
from core.layout import CONFIG_FILE
from core.timestamps import warc_date
from crawler.capture.site_logins import LoginFacts, login_facts, read_login, read_login_head
from crawler.profile_check import SettingFacts, list_presets, setting_rows
from crawler.profiles import builtin_profiles, chain_settings, load_chain
from crawler.status.collection_status import CollectionHoldings
from links.registry.farm_queries import count_contents
from links.registry.wikis import all_wikis, feeds_of
from playback.web.i18n import noop
from playback.web.text_search import TextSearch, parse_facets, parse_text_cursor
from warc.local_storage import DiskReserve
from warc.text_index.store import MEDIA, STATES
from weboid.app.collection_config import config_faults, file_values, parse_config, read_config_text, write_config
from weboid.app.wiki.wiki_clients import settings_of_wiki
from weboid.console import operations
from weboid.console.accounts import ConsoleRole
from weboid.console.page_frame import ConsoleStores
from wiki.settings import to_json

COUNTED_LIMIT = 1_000_000  # pages and links of a wiki
TEXT_LENGTH = 1_000_000  # of weboid.toml
_WRITING = threading.Lock()  # held while weboid.toml is compared and replaced
_SECRETS = ("account", "password_file", "basic_file")


FeedProgress = Annotated[dict[str, Any], FactsOf("FeedProgress", moment=datetime, trouble=str)]
WikiFacts = Annotated[dict[str, Any], FactsOf(
    "WikiFacts", wiki=str, url=str | None, pages=int, links=int, feeds=dict[str, FeedProgress],
    settings=dict[str, Any] | None, bot=NotRequired[bool], problem=str | None,
)]  # fmt: skip
WikiList = TypedDict("WikiList", {"wikis": list[WikiFacts], "counted_most": int})
ProfileSummary = TypedDict("ProfileSummary", {"name": str, "purpose": str})
ProfileList = TypedDict("ProfileList", {"profiles": list[ProfileSummary]})
ProfileFacts = TypedDict(
    "ProfileFacts", {"profile": str, "settings": list[SettingFacts], "sheets": list[dict[str, Any]]}
)
LoginStatus = Annotated[dict[str, Any], FactsOf("LoginStatus", LoginFacts, expired=bool)]
LoginList = TypedDict("LoginList", {"logins": list[LoginStatus]})
HoldingsFacts = Annotated[dict[str, Any], FactsOf("CollectionHoldings", CollectionHoldings)]
StorageFacts = TypedDict("StorageFacts", {
    "free_bytes": int, "reserve_bytes": int, "holdings": HoldingsFacts | None, "days_left": int | None,
    "bucket": str | None, "uploaded_warcs": int, "local_warcs": int,
})  # fmt: skip
SettingsText = TypedDict("SettingsText", {"text": str, "version": str, "faults": list[str]})
SavedSettings = TypedDict("SavedSettings", {"version": str, "message": str})
SnippetPart = TypedDict("SnippetPart", {"text": str, "hit": bool})
FoundText = Annotated[
    dict[str, Any], FactsOf("FoundText", operations.CaptureFacts, language=str, snippet=list[SnippetPart])
]
FoundTexts = TypedDict("FoundTexts", {
    "captures": list[FoundText], "total": int, "is_exact": bool, "facets": dict[str, dict[str, int]], "next": str | None,
})  # fmt: skip


@operations.resource("/wikis")
def list_wikis(context: operations.OperationContext) -> WikiList:
    """Return the wikis with their numbers of pages and links, the pages that are followed, and the progress of their feeds."""
    wikis = []
    with context.registry.reading() as rows:
        for wiki in all_wikis(rows):
            facts: dict[str, Any] = {"settings": None, "problem": None}
            try:
                settings = settings_of_wiki(wiki)
                facts["settings"] = {k: v for k, v in to_json(settings.feed).items() if k not in _SECRETS}
                facts["bot"] = settings.bot.enabled
            except ConfigError as error:
                facts["problem"] = str(error)
            feeds = {
                kind: {"moment": warc_date(feed.moment), "trouble": feed.trouble}
                for kind, feed in feeds_of(rows, wiki.id).items()
            }
            wikis.append(
                {
                    "wiki": str(wiki.name),
                    "url": wiki.url or None,
                    **count_contents(rows, wiki.id, limit=COUNTED_LIMIT),
                    "feeds": feeds,
                    **facts,
                }
            )
    return {"wikis": wikis, "counted_most": COUNTED_LIMIT}


@operations.resource("/profiles")
def list_profiles(_context: operations.OperationContext) -> ProfileList:
    """Return the presets for crawls, with their purpose."""
    return {"profiles": [{"name": name, "purpose": purpose} for name, purpose in list_presets()]}


@operations.resource("/profiles/profile", ConsoleRole.OPERATOR)
def read_profile(
    _context: operations.OperationContext,
    *,
    name: operations.Name,
    changed: Annotated[bool, Field(description="Only settings that differ from the defaults.")] = False,
) -> ProfileFacts:
    """Return the settings of a preset with their sources; passwords in addresses are left out."""
    if name not in builtin_profiles():  # a file's name is not one
        raise operations.UnknownThingError(f"There is no preset {name[:100]!r}.")
    chain = load_chain(name)
    settings = chain_settings(chain)
    rows = [each for each in setting_rows(settings, chain) if not changed or each["value"] != each["default"]]
    sheets = [{"prefix": each.prefix, **each.changes()} for each in settings.sheets]
    return {"profile": name, "settings": json_value(rows), "sheets": sheets}


@operations.resource("/logins", ConsoleRole.OPERATOR)
def list_logins(context: operations.OperationContext) -> LoginList:
    """Return the logins for sites with their hosts and ages; never a cookie or a stored item."""
    logins = []
    for path in sorted(context.stores.layout.logins.glob("*.login"))[:1_000]:
        with suppress(InputError):  # of another version, or being written
            login = read_login_head(read_login(path.parent, path.stem))
            is_over = login.expires_at is not None and login.expires_at <= context.now
            logins.append({**login_facts(login), "expired": is_over})
    return {"logins": logins}


@operations.resource("/storage")
def read_storage(context: operations.OperationContext) -> StorageFacts:
    """Return free space, days left at the last hour's rate, and the content of the bucket.

    `holdings`, the sizes of the collection, is null until they have been counted.
    """
    stores = context.stores
    status, storage = stores.status.status(), stores.settings.storage
    holdings = status.holdings
    archive = stores.layout.archive
    disk = DiskReserve(stores.layout.root, stores.settings.proxy.disk_reserve_bytes)
    return {
        "free_bytes": disk.free_bytes,
        "reserve_bytes": disk.reserve_bytes,
        "holdings": None if holdings is None else json_value(asdict(holdings)),
        "days_left": status.days_left,
        "bucket": storage.url or None,
        "uploaded_warcs": sum(1 for _ in archive.glob("*.s3.json")),
        "local_warcs": sum(1 for _ in archive.glob("*.warc.gz")),
    }


@operations.resource("/settings", ConsoleRole.ADMIN)
def read_settings(context: operations.OperationContext) -> SettingsText:
    """Return the text of weboid.toml, its version, and its errors with their lines."""
    text = read_config_text(context.stores.layout.root / CONFIG_FILE) or ""
    return {"text": text, "version": text_version(text), "faults": settings_faults(context.stores, text)}


def text_version(text: str) -> str:
    """Return a short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def settings_faults(stores: ConsoleStores, text: str) -> list[str]:
    """Return the faults of a text of weboid.toml, with their lines."""
    path = stores.layout.root / CONFIG_FILE
    try:
        faults = list(config_faults(parse_config(path, text)))
    except ConfigError as error:
        return [str(error)]
    with TemporaryDirectory() as folder:  # options are read from files
        Path(folder, CONFIG_FILE).write_text(text)
        return faults + [each.replace(folder, str(path.parent)) for each in stores.option_faults(Path(folder))]


@operations.operation("/settings", ConsoleRole.ADMIN, method="PUT", state=read_settings)
def write_settings(
    context: operations.OperationContext,
    text: Annotated[str, StringConstraints(strip_whitespace=False, max_length=TEXT_LENGTH)],
    version: Annotated[
        str, Field(max_length=100, description="`version` of the text that was edited; 409 if it has changed since.")
    ] = "",
) -> SavedSettings:
    """Replace weboid.toml if the text has no error; processes read it when they start.

    Names of programs and files of this machine, such as `[browser] executable`, are changed on the machine only.
    """
    root = context.stores.layout.root
    path, text = root / CONFIG_FILE, text.replace("\r\n", "\n").rstrip() + "\n"
    if faults := settings_faults(context.stores, text):
        raise InputError("\n".join(faults[:20]))
    with _WRITING:
        before = read_config_text(path) or ""
        if version not in ("", text_version(before)):
            raise operations.StateConflictError(
                f"{path} has changed since you opened it. Open it again, and repeat your changes."
            )
        own = dict[str, Any]()
        with suppress(ConfigError):
            own.update(file_values(parse_config(path, before).document))
        new = dict(file_values(parse_config(path, text).document))
        if changed := sorted(key for key in own | new if own.get(key) != new.get(key)):
            raise InputError(
                noop("%(name)s names a program or a file: change it in %(path)s on its machine."),
                name=changed[0],
                path=path,
            )
        write_config(root, text)
    return {"version": text_version(text), "message": f"{path} has been saved."}


@operations.resource("/texts")
def search_texts(
    context: operations.OperationContext,
    *,
    q: Annotated[
        str, Field(min_length=1, max_length=1_000, description='As in `weboid search`: dark "night sky" archiv* -film.')
    ],
    host: Annotated[str, Field(max_length=300, description="This host and its subdomains.")] = "",
    year: Annotated[str, Field(pattern=r"^([0-9]{4})?$")] = "",
    language: Annotated[str, Field(pattern=r"^([a-z]{2,3})?$")] = "",
    media: Literal["", *MEDIA] = "",  # type: ignore[valid-type]
    state: Literal["", *STATES] = "",  # type: ignore[valid-type]
    cursor: Annotated[
        str, Field(pattern=r"^([0-9]{1,19}\.[0-9]{1,4})?$", description="`next` of the previous answer.")
    ] = "",
    limit: Annotated[int, Field(ge=1, le=300)] = 20,
) -> FoundTexts:
    """Return the newest capture of each URL whose text has all words, with snippets, the best first.

    `total` and `facets` count a window of 300 URLs, and all results when `is_exact`.
    """
    search = TextSearch(context.stores.texts, context.stores.pages(context.user))
    facets = parse_facets({"host": host, "year": year, "language": language, "media": media, "state": state})
    hits = search.find(q, facets, at=parse_text_cursor(cursor), limit=limit)
    captures = [
        {
            **operations.capture_facts(each.page),
            "language": each.language,
            "snippet": [{"text": text, "hit": is_hit} for text, is_hit in each.snippet],
        }
        for each in hits.results
    ]
    counts = {name: dict(values) for name, values in hits.counts}
    following = str(hits.next) if hits.next else None
    return {"captures": captures, "total": hits.total, "is_exact": hits.is_exact, "facets": counts, "next": following}
