"""`weboid links spam`: spam lists, and accounts that add links."""

import re
from pathlib import Path

import click
from sqlalchemy import Connection

from core.errors import BadUrlError, InputError
from core.hosts import canonical_host, registrable
from core.json_values import json_facts
from links.check_history import date_of, day_of
from links.registry.citations import KEEP_DAYS, additions_of, domain_spreads
from links.registry.lookups import list_urls
from links.registry.wikis import all_farms, all_wikis
from links.rules.link_class import LinkClass, classify_link
from links.rules.spam_list import LIST_LIMIT_CHARS, SpamList, SpamListKind, SpamLists, list_kind
from links.rules.wiki_rules import FARM_WIDE, RuleBook, mark_pages_stale, put_list, read_lists, remove_list, spam_on
from links.url_parts import key_of
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, CommandGroup, ExitCode, argument, cli_command, made_by, option
from weboid.cli.support.options import EXISTING_FILE, named_file, output
from weboid.cli.support.progress import search_progress
from weboid.cli.support.stores import STORES, CollectionStores, farm_named, wiki_named

_PROBLEMS_SHOWN = 10
_URLS_AT_ONCE = 2_000
_WIKI_OPTION = option("The wiki.", required=True, metavar="DBNAME@FARM")


class _ListOwner:
    """Wiki or farm of a list."""

    def __init__(
        self,
        wiki: str | None = option("A wiki's own list.", metavar="DBNAME@FARM"),
        farm: str | None = option("A farm's list, which applies to all its wikis.", metavar="NAME"),
    ) -> None:
        self._wiki, self._farm = wiki, farm
        if (wiki is None) == (farm is None):
            raise InputError("Name the list's owner: --farm NAME, or --wiki DBNAME@FARM.")

    def ids(self, rows: Connection) -> tuple[int, int]:
        """Return the ids of farm and wiki; `FARM_WIDE` when the list is the farm's."""
        if self._wiki is None:
            return farm_named(rows, self._farm or "").id, FARM_WIDE
        wiki = wiki_named(rows, self._wiki)
        return wiki.farm_id, wiki.id


_OWNER = made_by(_ListOwner)


@click.group("spam", cls=CommandGroup)
def spam_group() -> None:
    """Manage the spam lists of farms and wikis; show listed links.

    A listed link is never requested; it is stored with the page and the matching line. See docs/how-to/link-search.md.
    """


@cli_command("add", spam_group)
def add_command(
    *,
    file: Path = argument(type=EXISTING_FILE),
    owner: _ListOwner = _OWNER,
    kind: str | None = option("Kind of the list.  [default: by the file's name]", choices=SpamListKind),
    name: str | None = option("Name of the list.  [default: the file's name]"),
    dry_run: bool = option("Report unusable lines, without storing the list."),
    stores: CollectionStores = STORES,
) -> int:
    """Add a list in a wiki's format, replacing the one of that name.

    `weboid wiki watch` fetches the lists of the wikis that it watches by itself.

    A blacklist or whitelist has a fragment of a regular expression per line, as MediaWiki's Spam
    blacklist; a list of domains is the JSON of MediaWiki:BlockedExternalDomains.json. Lines that
    cannot be run are reported, and the rest is used.
    """
    today = day_of(CLOCK.now())
    form = SpamListKind(kind or list_kind(file.name))
    with named_file(file):
        if file.stat().st_size > LIST_LIMIT_CHARS:
            raise InputError(f"{file} has more than {LIST_LIMIT_CHARS:,} bytes.")
        content = file.read_text(encoding="utf-8", errors="replace")
    spam_list = SpamList(name or file.name, form, content)
    with stores.registry() as store, store.writing() as rows:
        farm_id, wiki_id = owner.ids(rows)
        if dry_run:
            compiled = SpamLists([spam_list])
        else:
            compiled = put_list(rows, farm_id, spam_list, wiki_id=wiki_id, today=today)
    problems, would = compiled.problems, "would be used" if dry_run else "in use"
    document = {
        **json_facts(spam_list, "name kind"),
        "lines": compiled.size,
        "problems": [{"line": each.hit.line, "text": each.text, "reason": each.reason} for each in problems],
        "dry_run": dry_run,
    }
    output.show(document, f"{clean(spam_list.name)} ({spam_list.kind}), lines {would}: {compiled.size:,}.")
    for problem in problems[:_PROBLEMS_SHOWN]:
        output.say(f"line {problem.hit.line}: {clean(problem.reason)}", err=True)
    if len(problems) > _PROBLEMS_SHOWN:
        output.say(f"… and {len(problems) - _PROBLEMS_SHOWN:,} more (--json).", err=True)
    return ExitCode.SOME_FAILED if problems else ExitCode.OK


@cli_command("rm", spam_group, has_json=False)
def remove_command(*, name: str = argument(), owner: _ListOwner = _OWNER, stores: CollectionStores = STORES) -> None:
    """Delete a list."""
    with stores.registry() as store, store.writing() as rows:
        farm_id, wiki_id = owner.ids(rows)
        if not remove_list(rows, farm_id, name, wiki_id=wiki_id):
            raise InputError(f"There is no list {name[:80]!r}; `weboid links spam ls` shows all.")
    click.echo(f"Forgot {clean(name)}.")


@cli_command("ls", spam_group)
def list_command(*, stores: CollectionStores = STORES) -> None:
    """Show the stored lists."""
    with stores.registry() as store, store.reading() as rows:
        stored = read_lists(rows)
        names = {farm.id: farm.name for farm in all_farms(rows)}
        wikis = {wiki.id: str(wiki.name) for wiki in all_wikis(rows)}
    facts = [
        {
            "of": wikis.get(each.wiki_id, "?") if each.wiki_id else names.get(each.farm_id, "?"),
            **json_facts(each, "name kind"),
            "loaded": str(date_of(each.loaded_day)),
        }
        for each in stored
    ]
    head = ("of", "kind", "loaded", "name")
    empty = "There is no list: `weboid wiki watch` fetches those of its wikis, `weboid links spam add` adds one."
    output.table({"lists": facts}, head, [[each[name] for name in head] for each in facts], empty)


@cli_command("show", spam_group)
def show_command(
    *,
    urls: tuple[str, ...] = argument("[URL]..."),
    wiki: str = _WIKI_OPTION,
    limit: int = option(within=(1, 100_000), default=100),
    after: str = option("Continue at the place that an earlier answer ended with.", metavar="PLACE", default=""),
    stores: CollectionStores = STORES,
) -> None:
    """Show the pages of a wiki that have listed links.

    With URLs: how the wiki's rules classify each, watched, or why not.
    """
    with stores.registry() as store, store.reading() as rows:
        wiki_row = wiki_named(rows, wiki)
        if urls:
            rules = RuleBook().rules_of(rows, wiki_row.id)
            for each in (classify_link(url, rules) for url in urls):
                facts = json_facts(each, "sort identity note", url="text") | {"warnings": list(map(str, each.warnings))}
                odd = ", ".join(each.warnings)
                why = f" ({clean(each.note)})" if each.note else ""
                line = f"{clean(each.text)}: {each.sort}{why}" + (f"; {odd}" if odd else "")
                output.show(facts, line)
            return
        place = (0, b"")
        if after:
            if (named := re.fullmatch(r"(\d{1,18})-([0-9a-f]{32})", after, re.ASCII)) is None:
                raise InputError(f"{after[:80]!r} is not a position to continue from.")
            place = int(named[1]), bytes.fromhex(named[2])
        hits = spam_on(rows, wiki_row.id, limit=limit + 1, after=place)
    more = ""
    if len(hits) > limit:
        last = hits[limit - 1]
        more = f"{last.page}-{key_of(last.url).hex()}"
    hits = hits[:limit]
    document = {
        "wiki": str(wiki_row.name),
        "hits": [
            {
                **json_facts(hit, "page_id title url"),
                "list": hit.hit.list,
                "line": hit.hit.line,
                "first": str(date_of(hit.first_day)),
                "last": str(date_of(hit.last_day)),
            }
            for hit in hits
        ],
        "after": more,
    }
    rows_shown = [(each.title, date_of(each.first_day), date_of(each.last_day), each.url, each.hit) for each in hits]
    head = ("page", "first", "last", "link", "named by")
    output.table(document, head, rows_shown, f"No page of {wiki_row.name} has such a link.")
    if more:
        output.say(f"There are more: --after {more}", err=True)


@cli_command("run", spam_group, hidden=True)
def run_command(
    *,
    wiki: str = _WIKI_OPTION,
    dry_run: bool = option("List the links that would be found; mark nothing."),
    stores: CollectionStores = STORES,
) -> None:
    """Match all known links against the lists, after the lists have changed.

    Pages of the wiki that have such a link are marked, so that `weboid wiki watch` reads their links
    again and stores each with its line.
    """
    with stores.registry() as store:
        with store.reading() as rows:
            wiki_row = wiki_named(rows, wiki)
            rules = RuleBook().rules_of(rows, wiki_row.id)

        checked, marked, last = 0, 0, 0
        named: dict[str, str] = {}
        with search_progress("links checked") as progress:
            task = progress.add_task("")
            while True:
                with store.reading() as rows:
                    part = list_urls(rows, limit=_URLS_AT_ONCE, after=last)
                if not part:
                    break
                last = part[-1].id
                checked += len(part)
                progress.update(task, completed=checked)
                sorted_ = {row.id: classify_link(row.url, rules) for row in part}
                spam = {key: each for key, each in sorted_.items() if each.sort is LinkClass.SPAM}
                named |= {each.identity: each.note for each in spam.values()}
                if spam and not dry_run:
                    with store.writing() as rows:
                        marked += mark_pages_stale(rows, [wiki_row.id], spam)
    facts = {"wiki": str(wiki_row.name), "checked": checked, "links": named, "pages_marked": marked}
    lines = [f"Links checked: {checked:,}; on a list: {len(named):,}."]
    lines += [f"{clean(url)}: {clean(line)}" for url, line in list(named.items())[:20]]
    if not dry_run:
        lines.append(f"Pages newly marked to be read again: {marked:,}.")
    output.show({**facts, "dry_run": dry_run}, lines)


@cli_command("additions", spam_group, hidden=True)
def additions_command(
    *,
    domain: str | None = option("Each link to that domain, with its page.", metavar="DOMAIN"),
    account: str | None = option("Each link by that account.", "--user", metavar="NAME"),
    least_wikis: int = option(
        "Without --domain and --user: minimum number of wikis of a farm.", "--wikis", within=(1, None), default=2
    ),
    days: int = option("Number of days back from today.", within=(1, KEEP_DAYS), default=KEEP_DAYS),
    limit: int = option(within=(1, 100_000), default=100),
    stores: CollectionStores = STORES,
) -> None:
    """Show which accounts add links to one domain on several wikis.

    For investigations of conflicts of interest and spam. A link is attributed to an account only
    where the revision that added it is certain; look at the revision before you conclude anything.
    Additions are deleted after 90 days. See docs/how-to/link-search.md.
    """
    since = day_of(CLOCK.now()) - days + 1
    try:
        named = registrable(canonical_host(domain.strip())) if domain else ""
    except BadUrlError as error:
        raise InputError(f"{(domain or '')[:80]!r} is not a domain: {error}.") from error
    with stores.registry() as store, store.reading() as rows:
        if named or account:
            added = additions_of(rows, since_day=since, domain=named, account=account or "", limit=limit)
            facts: list[dict[str, int | str]] = [
                {
                    "day": str(date_of(each.day)),
                    **json_facts(each, "wiki title account url"),
                    "revision": str(each.rev_id),
                    "page_id": str(each.page_id),
                }
                for each in added
            ]
        else:
            facts = [
                {
                    **json_facts(each, "account domain farm wikis pages links"),
                    "first": str(date_of(each.first_day)),
                    "last": str(date_of(each.last_day)),
                }
                for each in domain_spreads(rows, since_day=since, least_wikis=least_wikis, limit=limit)
            ]
    heads = [f"{name}>" if isinstance(value, int) else name for name, value in (facts or [{}])[0].items()]
    key = "additions" if named or account else "spreads"
    output.table({key: facts}, heads, [list(fact.values()) for fact in facts], "No such links were added.")
