"""`weboid wiki add`: add a wiki to be archived and watched, or change its settings."""

import asyncio
import json
import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from core.config.settings import Settings
from core.config.stored_level import DEFAULT_STORED_LEVEL, StoredLevel
from core.errors import InputError
from core.json_values import json_facts
from core.layout import Layout
from core.timestamps import format_duration, parse_duration
from links.check_history import day_of
from links.registry.database import RegistryStore
from links.registry.wikis import DEFAULT_FARM, Wiki, all_wikis
from weboid.app.collection_config import write_operator
from weboid.app.operator_identity import OperatorIdentity, check_operator, read_operator
from weboid.app.text_table import clean
from weboid.app.wiki.wiki_clients import open_api, open_items, settings_of_wiki, wiki_credentials
from weboid.app.wiki.wiki_intake import stored_level_of_wiki
from weboid.cli.support.commands import CLOCK, argument, cli_command, option, option_dict
from weboid.cli.support.options import WIKI_PROFILE, output, warn_missing_contact
from weboid.cli.support.stores import STORES, CollectionStores, registry_settings
from wiki.api.client import ApiSettings, WikiApi
from wiki.api.credentials import WikiCredentials, split_basic
from wiki.api.models import SiteFacts, WikiAwayError, WikiMovedError
from wiki.api.page_query import unknown_names
from wiki.api.site_info import OLDEST_VERSION, find_api, read_site_facts
from wiki.api.transport import is_same_server
from wiki.settings import GRACE_PRESETS_H, FeedSettings, replace_settings
from wiki.sync.registration import CLEARED, WikiRegistration, find_registered, namespace_ids, put_wiki

_GRACE_H: Final = " ".join(map(str, GRACE_PRESETS_H))


@dataclass(frozen=True)
class WikiProbe:
    """Answers of a wiki to its first queries."""

    address: str
    facts: SiteFacts
    user: str  # the logged-in user; empty: none
    has_high_limits: bool
    has_contact: bool  # the User-Agent names a contact address
    unknown: tuple[str, ...]  # titles in criteria that do not exist
    trouble: str  # why some of it could not be queried; empty if it could


_CRITERIA_OPTIONS: dict[str, Any] = {
    name: option(text, f"--{singular}", metavar=metavar, multiple=True)
    for name, singular, metavar, text in (
        ("categories", "category", "C", "Only pages in or below this category."),
        ("templates", "template", "T", "Only pages that use this template."),
        ("properties", "property", "P", "Only pages whose Wikidata item has this statement: P31, or P31=Q5."),
        ("not_categories", "not-category", "C", "Skip pages in or below this category."),
        ("not_templates", "not-template", "T", "Skip pages that use this template."),
        ("not_properties", "not-property", "P", "Skip pages whose Wikidata item has this statement."),
        ("not_pages", "not-page", "TITLE", "Never this page."),
    )
}


@cli_command("add")
def command(
    *,
    url: str = argument("URL"),
    name: str = option("Name of the wiki, such as mywiki@myfarm.", default="", metavar="NAME"),
    farm: str = option("Project that the wiki belongs to.", default="", metavar="FARM"),
    namespaces: tuple[str, ...] = option("Namespace to observe, by number or name.", "--namespace", metavar="N"),
    criteria: dict[str, tuple[str, ...]] = option_dict(_CRITERIA_OPTIONS),
    item_api: str | None = option(
        "The api.php to query for Wikidata items, if it is not the one that the wiki names.", metavar="URL"
    ),
    grace_h: float | None = option(
        f"Archive a new link if it is still on the page after this time ({_GRACE_H}, or any).",
        "--grace",
        type=click.FloatRange(0, 8760),
        metavar="HOURS",
    ),
    archive: bool | None = option("Archive new links, or only watch them.", "--archive/--no-archive"),
    store: str | None = option(
        "Recording level of pages that the wiki cites.  [default: as set by `weboid level`]", choices=StoredLevel
    ),
    account: str | None = option("Account that reads the wiki: USER@APP of a bot password.", metavar="NAME"),
    password_file: str | None = option("Its bot password, or an OAuth 2 token.", metavar="FILE"),
    basic_file: str | None = option("File with user:password of the wiki's web server.", metavar="FILE"),
    contact: str | None = option(
        "Contact page or mail address, sent in every User-Agent of this collection; prompted for at a terminal if "
        "missing.",
        metavar="ADDRESS",
    ),
    recrawl: str | None = option(
        "Archive live pages of this collection again after this time: 90d; - for never. Prompted for at a terminal.",
        metavar="DURATION",
    ),
    stores: CollectionStores = STORES,
    profile: str = WIKI_PROFILE,
) -> None:
    """Add a wiki, by any address of it, or change its settings.

    Its API is found and queried; nothing has to be installed there. For a known wiki the given options change and the
    rest stays; - in place of a list empties it. Without --namespace pages of the main namespace are observed.
    """
    operator = _operator(stores.root, profile, contact, recrawl)
    settings = registry_settings(profile, stores.database_url, stores.root)
    if operator.contact:
        settings = replace(settings, links=replace(settings.links, contact=operator.contact))
    if split_basic(url)[1]:
        raise InputError(
            "A password in an address would be stored where others can read it: write user:password into a "
            "file and name that with --basic-file."
        )
    changes: dict[str, Any] = {
        **{name: _listed(values) for name, values in criteria.items()},
        "item_api": "" if item_api == CLEARED else item_api,
        "grace_h": grace_h,
        "archive": archive,
        "account": account,
        "password_file": _place(password_file),
        "basic_file": _place(basic_file),
    }
    with stores.registry(make=True) as registry:
        if operator != read_operator(stores.root):
            write_operator(stores.root, operator)
        feed = replace_settings(_known_feed(registry, url, name), "feed", **changes)
        probe = asyncio.run(_probe(url, feed, settings))
        if namespaces:
            changes["namespaces"] = namespace_ids(namespaces, probe.facts.namespaces)
        wanted = WikiRegistration(probe.address, probe.facts, name, farm, changes)
        with registry.writing() as connection:
            wiki = put_wiki(connection, wanted, day=day_of(CLOCK.now()))
    level = None if store is None else StoredLevel(store)
    stored = stored_level_of_wiki(Layout(stores.root), stores.database_url, wiki.name.in_levels, level, CLOCK)
    if not output.json({**_facts(wiki, probe), "store": stored}):
        _report(wiki, probe, operator.recrawl, stored)
        warn_missing_contact(settings.links.contact or settings.visit.contact)


def _operator(root: Path, profile: str, contact: str | None, recrawl: str | None) -> OperatorIdentity:
    """Return the collection's operator as changed by the options, or by answers at a terminal."""

    def ask(question: str) -> str:
        return str(click.prompt(question, default="", show_default=False, err=True))

    operator = read_operator(root)
    if not output.is_json and sys.stdin.isatty():
        if contact is None:
            settings = registry_settings(profile, "", root)
            if not (settings.links.contact or settings.visit.contact):
                contact = ask("A page or mail address for sites that want to ask about visits (empty: none)")
        if recrawl is None and not Layout(root).links_db.exists():
            recrawl = ask("Archive live pages again after how long, such as 90d (empty: never)")
    if contact is not None:
        operator = replace(operator, contact=contact.strip())
    if recrawl is not None:
        operator = replace(operator, recrawl="" if recrawl == CLEARED else recrawl.strip())
    check_operator(operator)
    days = FeedSettings().archived_days  # for which a page counts as archived (A02)
    is_changed = operator.recrawl not in {"", read_operator(root).recrawl}
    if is_changed and parse_duration(operator.recrawl) < timedelta(days=days):
        raise InputError(
            f"Pages archived in the last {days} days are not archived again: write --recrawl {days}d or more."
        )
    return operator


async def _probe(url: str, feed: FeedSettings, settings: Settings) -> WikiProbe:
    account = wiki_credentials(feed)

    def opened(address: str) -> WikiApi:
        # Secrets are sent only to the named server, not to redirect targets.
        anywhere = is_same_server(_with_scheme(url), address)
        return open_api(address, account if anywhere else WikiCredentials(), settings, ApiSettings(attempts=1))

    address = await find_api(url, opened)
    if account.has_secret and not is_same_server(_with_scheme(url), address):
        raise WikiMovedError(address)
    async with open_api(address, account, settings, ApiSettings(attempts=2)) as api:
        facts = await read_site_facts(api)
        user = ""
        if account.is_anybody:
            answer = await api.get(action="query", meta="userinfo")
            user = str(answer.get("query", {}).get("userinfo", {}).get("name", ""))
        unknown, trouble = await unknown_names(api, facts, feed), ""
        if entries := [*feed.properties, *feed.not_properties]:
            try:
                async with open_items(api, settings, ApiSettings(attempts=1)) as items:
                    unknown += await items.unknown(entries, feed.item_api)
            except WikiAwayError as error:
                trouble = str(error)
        has_limits = account.is_anybody and await api.has_right("apihighlimits")
        has_contact = bool(settings.links.contact or settings.visit.contact)
        return WikiProbe(address, facts, user, has_limits, has_contact, tuple(unknown), trouble)


def _with_scheme(url: str) -> str:
    return url if "://" in url else f"https://{url}"


def _known_feed(store: RegistryStore, url: str, name: str) -> FeedSettings:
    """Return the stored settings of the wiki at that address: its account is needed for queries."""
    with store.reading() as connection:
        wikis = all_wikis(connection)
    wanted = WikiRegistration(url, SiteFacts("", "", (), "", "", "", {}), name)
    named = find_registered(wikis, wanted) if name else None
    same = [each for each in wikis if each.url and is_same_server(each.url, _with_scheme(url))]
    known = named or (same[0] if len(same) == 1 else None)
    return settings_of_wiki(known).feed if known is not None else FeedSettings()


def _listed(values: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the list; None when the option is omitted, empty for ``-``."""
    if not values:
        return None
    return () if values == (CLEARED,) else tuple(dict.fromkeys(each.strip() for each in values))


def _place(text: str | None) -> str | None:
    if text is None or text in {"", CLEARED}:
        return None if text is None else ""
    return str(Path(text).expanduser().absolute())


def _facts(wiki: Wiki, probe: WikiProbe) -> dict[str, Any]:
    return {
        "wiki": str(wiki.name),
        **json_facts(wiki, "url pages_url"),
        **json_facts(probe.facts, "language dbname", site="name"),
        "mediawiki": ".".join(map(str, probe.facts.version)),
        "interwikis": len(probe.facts.interwikis),
        "user": probe.user or None,
        "high_limits": probe.has_high_limits,
        "read_only": probe.facts.read_only_reason or probe.facts.is_read_only,
        "unknown": list(probe.unknown),
        "settings": json.loads(wiki.settings),
    }


def _report(wiki: Wiki, probe: WikiProbe, recrawl: str, stored: StoredLevel) -> None:
    facts, feed = probe.facts, settings_of_wiki(wiki).feed
    version = ".".join(map(str, facts.version)) or "of an unknown version"
    click.echo(f"{clean(facts.name)} is known as {wiki.name}: MediaWiki {version}, {wiki.url}")
    spaces = [
        facts.namespaces[each].name or "articles" if each in facts.namespaces else str(each) for each in feed.namespaces
    ]
    parts = (
        ("in", feed.categories),
        ("using", feed.templates),
        ("whose item says", feed.properties),
        ("not in", feed.not_categories),
        ("without", feed.not_templates),
        ("whose item does not say", feed.not_properties),
        ("except", feed.not_pages),
    )
    criteria = [f", {word} {' or '.join(map(clean, names))}" for word, names in parts if names]
    click.echo(f"Observed: {clean(', '.join(spaces))}{''.join(criteria)}.")
    when = f"if they are still on the page after {format_duration(feed.grace_h * 3600)}" if feed.grace_h else "at once"
    click.echo(f"New links are archived {when}." if feed.archive else "New links are watched, and not archived.")
    if stored is not DEFAULT_STORED_LEVEL:
        click.echo(f"Pages that it cites are recorded at the level {stored}.")
    if recrawl:
        click.echo(f"Live pages are archived again after {clean(recrawl)}.")
    if probe.user:
        more = ", with a bot's limits" if probe.has_high_limits else ""
        click.echo(f"Read as {clean(probe.user)}{more}.")
    for warning in _warnings(wiki, probe):
        click.echo(f"Warning: {clean(warning)}")
    click.echo(
        "Next: `weboid wiki watch` reads all its pages once and then follows changes; `weboid wiki ls` shows its "
        "progress."
    )


def _warnings(wiki: Wiki, probe: WikiProbe) -> list[str]:
    facts = probe.facts
    warnings = [f"the wiki has no {name}: check its spelling" for name in probe.unknown]
    if probe.trouble:
        warnings.append(f"Wikidata's items cannot be read at present. {probe.trouble}")
    if facts.version and facts.version < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        warnings.append(f"this version of MediaWiki is older than {oldest}, the oldest that was tested.")
    if facts.is_read_only:
        warnings.append(f"the wiki is read-only: {facts.read_only_reason or 'no reason given'}")
    if wiki.name.farm == DEFAULT_FARM and not probe.has_contact:
        warnings.append(
            "Wikimedia refuses robots without a contact address: --contact sets the address of a page or for mail."
        )
    if wiki.name.dbname != facts.dbname:
        warnings.append(f"the wiki now calls itself {facts.dbname}; its name here stays the same.")
    return warnings
