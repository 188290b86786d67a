"""`weboid wiki set`, `weboid links add-page`, `import` and `interwiki`: input of the registry."""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from hashlib import blake2b
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

import click
from rich.progress import Progress

from core.errors import InputError
from core.json_values import json_facts
from links.check_history import date_of, day_of
from links.registry import wikis
from links.registry.link_import import LinkImporter, MalformedLine, PageSpool, read_links, sorted_links
from links.registry.lookups import links_of_page, pages_by_title
from links.registry.pages import PageName, PutPage, put_pages
from links.rules.exclusion_list import EntryForm
from links.rules.link_class import WATCHED, LinkClass
from links.rules.wiki_rules import RuleBook
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option
from weboid.cli.support.options import EXISTING_FILE, counted, named_file, output
from weboid.cli.support.progress import count_progress
from weboid.cli.support.stores import STORES, CollectionStores
from wiki.settings import WikiSettings

_WIKI_SETTINGS = ("feed", "bot", "templates", wikis.PUBLIC, "is_private", "servers", "registers_own", *EntryForm)


@cli_command("set")
def set_wiki_command(
    *,
    name: str = argument(),
    url: str | None = option("Its api.php.", metavar="URL"),
    pages_url: str | None = option("Address of its pages, with $1 for the title.", metavar="URL"),
    settings: tuple[str, ...] = option(
        "A setting of the wiki, such as public=false: the front shows its pages and links to internal callers only.",
        "--set",
        metavar="KEY=JSON",
    ),
    new_farm: bool = option("Create the farm named after the @ of NAME."),
    farm_hosts: str | None = option("RE2 pattern of the farm's own hosts.", metavar="REGEX"),
    farm_address: str | None = option("The farm's first page; its host is one of the farm's own.", metavar="URL"),
    stores: CollectionStores = STORES,
) -> int:
    """Change any setting of a wiki or farm, or add one that has no API.

    NAME is a database name and a farm's, such as dewiki@WMF; a farm is a project whose wikis belong
    together, and readers of one never see pages of another. Without @ the farm is WMF. `weboid wiki add`
    has options for most settings. See docs/how-to/wiki.md.
    """
    wanted = wikis.parse_wiki(name)
    changes = _settings(settings)
    if url and not url.startswith(("http://", "https://")):
        raise InputError(f"{clean(url)!r} is not the address of an api.php: write https://wiki.example.org/w/api.php.")
    with stores.registry(make=True) as store, store.writing() as connection:
        known_farm = wikis.find_farm(connection, wanted.farm)
        if known_farm is None and not new_farm:
            known = ", ".join(farm.name for farm in wikis.all_farms(connection))
            raise InputError(f"There is no farm {wanted.farm} (known: {known}); --new-farm creates it.")
        if known_farm is None or farm_hosts is not None or farm_address is not None:
            known_address, known_hosts = (known_farm.address, known_farm.internal) if known_farm else ("", "")
            address = known_address if farm_address is None else farm_address
            hosts = known_hosts if farm_hosts is None else farm_hosts
            wikis.put_farm(connection, wanted.farm, address=address, internal=hosts)
        wiki = wikis.ensure_wiki(connection, wanted, day=day_of(CLOCK.now()))
        merged = {**json.loads(wiki.settings), **changes} if changes else None
        wiki = wikis.change_wiki(connection, wiki, url=url, pages_url=pages_url, settings=merged)
    facts = {
        "wiki": str(wiki.name),
        **json_facts(wiki, "url pages_url"),
        "settings": json.loads(wiki.settings),
        "since": str(date_of(wiki.added_day)),
    }
    output.show(facts, f"The settings of {wiki.name} are stored.")
    return ExitCode.OK


def _settings(texts: tuple[str, ...]) -> dict[str, Any]:
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InputError(f"{text[:80]!r} is not a setting: write KEY=VALUE, such as {wikis.PUBLIC}=false.")
        try:
            settings[key.strip()] = json.loads(value)
        except ValueError as error:
            raise InputError(
                f"The value of {clean(key)} is not JSON: write true, false, a number, a list, or a text in double quotes."
            ) from error
    if unknown := sorted(settings.keys() - _WIKI_SETTINGS):
        raise InputError(f"{clean(unknown[0])!r} is not a setting of a wiki; there is {', '.join(_WIKI_SETTINGS)}.")
    if not isinstance(settings.get(wikis.PUBLIC, True), bool):
        raise InputError(f"{wikis.PUBLIC} is true or false; with false only internal callers see it.")
    groups = {key: settings[key] for key in ("feed", "bot", "templates") if key in settings}
    WikiSettings.parse(json.dumps(groups))  # report invalid settings now, not in the feed
    return settings


@cli_command("add-page")
def add_page_command(
    *,
    wiki: str = argument("WIKI"),
    page: str = argument("PAGE"),
    urls: tuple[str, ...] = argument("[URL]..."),
    page_id: int | None = option("The page ID in the wiki.", "--id", within=(1, None)),
    namespace: int = option("The page's namespace.", default=0),
    keep: bool = option("Add to the page's links instead of replacing them.", "--add"),
    stores: CollectionStores = STORES,
) -> None:
    """Set the links of a page of a wiki.

    WIKI is a name such as dewiki@WMF, PAGE the page's title; the page ID is needed once, by --id. URLs are read from standard input, one a line, when there are none or one
    is -. Other links of the page are removed, unless --add is given.
    """
    page_urls = [url for url in urls if url != "-"]
    if not urls or "-" in urls:
        page_urls += [line.strip() for line in sys.stdin if line.strip()]
    day = day_of(CLOCK.now())
    with stores.registry(make=True) as store, store.writing() as connection:
        wiki_row = wikis.ensure_wiki(connection, wikis.parse_wiki(wiki), day=day)
        name = PageName(page_id or 0, page, namespace)
        if not page_id:
            known_page = pages_by_title(connection, wiki_row.id, [page]).get(page)
            if known_page is None:
                raise InputError(
                    f"{wiki_row.name} has no page {clean(page)!r}: give its page ID with --id, as `Page information` on the wiki shows it."
                )
            name = PageName(known_page.page_id, page, known_page.namespace)
        if keep:
            page_urls = [*links_of_page(connection, wiki_row.id, name.page_id), *page_urls]
        rules = RuleBook().rules_of(connection, wiki_row.id)
        links = sorted_links(dict.fromkeys(page_urls), rules)
        put_pages(connection, wiki_row.id, [PutPage(name, links)], day=day)
    facts = [{"url": each.text, "sort": str(each.sort), "note": each.note} for each in links]
    watched = sum(each.sort in WATCHED for each in links)
    noun = "link that is" if watched == 1 else "links that are"
    lines = [f"{clean(page)} has {watched} {noun} watched."]
    for each in links:
        if each.sort not in WATCHED:
            note = f", {clean(each.note)}" if each.note else ""
            lines.append(f"  {clean(each.text)[:500]}: {each.sort}{note}")
    output.show({"wiki": wiki, "page": page, "links": facts}, lines)


_BAD_SHOWN = 20  # bad lines reported individually


@cli_command("import")
def import_command(
    *,
    file: str = argument("FILE|-"),
    wiki_name: str | None = option("The wiki with these links: dewiki@WMF.", "--wiki", metavar="NAME"),
    restart: bool = option("Start from the first page, even if a run was interrupted."),
    dry_run: bool = option("Show what the file contains; import nothing."),
    stores: CollectionStores = STORES,
) -> int:
    """Import the links of wikis from FILE, or from standard input.

    \b
    JSON lines     {"wiki": "dewiki@WMF", "page_id": 7, "title": "Foo",
                   "url": "https://..."} or "urls": [...]
    tabs between   wiki, page id, title, namespace, URL; no wiki with --wiki
    MediaWiki's    el_from, el_to; or el_from, el_to_domain_index, el_to_path;
    externallinks  with --wiki; a first line may name the columns; or its SQL dump

    Files may be compressed by gzip. The file must have all links of each page that it names.
    An interrupted run continues where it stopped when the same file is imported again.
    """  # noqa: D301 a sign for click
    wiki = None if wiki_name is None else wikis.parse_wiki(wiki_name)
    with ExitStack() as stack:
        store = stack.enter_context(stores.registry(make=not dry_run))
        # The digest identifies an import; that of input that cannot be read again is empty.
        stream, digest = cast("BufferedIOBase", sys.stdin.buffer), b""
        if file != "-":
            path = Path(file)
            with named_file(file):
                stream = stack.enter_context(path.open("rb"))
            stat = path.stat()
            place = (str(path.absolute()), stat.st_size, stat.st_mtime_ns, str(wiki or ""))
            digest = blake2b(repr(place).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        spool = stack.enter_context(closing(PageSpool()))
        progress = stack.enter_context(count_progress())
        bad = _read(stream, spool, wiki, progress)
        task = progress.add_task("writing", total=spool.pages())
        importer = LinkImporter(store, day=day_of(CLOCK.now()), digest=digest)
        run = importer.preview if dry_run else partial(importer.run, restart=restart)
        done = run(spool, progress=lambda more: progress.advance(task, more))
    sorts = {str(sort): done.sorts[sort] for sort in LinkClass if done.sorts[sort]}
    facts = {
        "wikis": [str(name) for name in spool.names],
        **json_facts(done, "pages links added gone", resumed_after="resumed"),
        "sorts": sorts,
        "bad_lines": bad,
        "dry_run": dry_run,
    }
    would = "Would write" if dry_run else "Wrote"
    lines = [f"{would} {counted(done.pages, 'page')} with {counted(done.links, 'link')}."]
    if done.resumed:
        lines.insert(0, f"Continued after {done.resumed:,} pages that were written before.")
    output.show(facts, lines + [f"  {count:,} {sort}" for sort, count in sorts.items()])
    return ExitCode.SOME_FAILED if bad else ExitCode.OK


def _read(stream: BufferedIOBase, spool: PageSpool, wiki: wikis.WikiName | None, progress: Progress) -> int:
    """Spool all rows of the file; return the number of invalid lines."""
    bad, size = 0, None
    with suppress(OSError):
        size = os.fstat(stream.fileno()).st_size or None
    task = progress.add_task("reading", total=size)
    rows = read_links(stream, one_wiki=wiki is not None, progress=lambda more: progress.advance(task, more))
    for number, row in enumerate(rows, 1):
        if isinstance(row, MalformedLine):
            place, why = f"Line {row.number}", row.why
        else:
            try:
                spool.add(row, wiki)
            except InputError as error:
                place, why = f"Link {number}", str(error)
            else:
                continue
        bad += 1
        if bad <= _BAD_SHOWN:
            click.echo(f"{place} is skipped: {clean(why).rstrip('.')}.", err=True)
    if bad > _BAD_SHOWN:
        click.echo(f"… and {bad - _BAD_SHOWN} more lines.", err=True)
    progress.remove_task(task)
    return bad


_HEAD = "iwl_from"
_WRONG_SHOWN = 10
_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "r": "\r"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@cli_command("interwiki", has_json=False)
def interwiki_command(*, known: Path = argument("MAP", type=EXISTING_FILE), file: str = argument("FILE|-")) -> int:
    """Write the interwiki links in FILE as URLs, which `weboid links import` reads.

    MAP is the wiki's answer to api.php?action=query&meta=siteinfo&siprop=interwikimap&format=json.
    FILE has iwl_from, iwl_prefix and iwl_title between tabs, as MediaWiki's table of interwiki
    links. Links to wikis of the same farm are left out.

    \b
    weboid links interwiki map.json iwlinks.tsv > iwlinks.jsonl
    cat externallinks.tsv iwlinks.jsonl | weboid links import - --wiki dewiki
    """  # noqa: D301 a sign for click
    with named_file(known):
        prefixes = wikis.read_interwikis(known.read_bytes())
    bad = 0
    with ExitStack() as stack:
        lines: Iterable[str] = sys.stdin
        if file != "-":
            with named_file(file):
                lines = stack.enter_context(Path(file).open(encoding="utf-8", errors="replace"))
        for line in _converted(lines, prefixes):
            if isinstance(line, str):
                click.echo(line)
                continue
            bad += 1
            if bad <= _WRONG_SHOWN:
                click.echo(f"Line {line} is not a page ID, prefix and title separated by tabs.", err=True)
    if bad > _WRONG_SHOWN:
        click.echo(f"… and {bad - _WRONG_SHOWN:,} more.", err=True)
    return ExitCode.SOME_FAILED if bad else ExitCode.OK


def _converted(lines: Iterable[str], prefixes: wikis.InterwikiMap) -> Iterator[str | int]:
    for number, line in enumerate(lines, start=1):
        cells = line.rstrip("\r\n").split("\t")
        if cells == [""] or (number == 1 and cells[0].strip().lower() == _HEAD):
            continue
        if len(cells) != 3 or not re.fullmatch(r"\d{1,12}", cells[0], re.ASCII):
            yield number
            continue
        prefix, title = (_ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), cell) for cell in cells[1:])
        for url in prefixes.urls([(prefix, title)]):
            yield json.dumps({"page_id": int(cells[0]), "url": url}, ensure_ascii=False)
