"""The link registry: pages looked up in a second, pages imported in a minute, bytes of a row.

Look-ups are what the front asks: a page by its wiki's id, with all that is known of its three URLs, each
in a snapshot of its own, from one process, in random order, from SQLite with 10^6 URLs (`--quick`:
2*10^5) and from PostgreSQL with a quarter of that; the best of three rounds counts, since others may use the machine. A tenth of the URLs have a
quirk, a copy or a report. The registry is filled without the code that writes one: that takes minutes.
What is imported is a file of tabs through that code, pages with three URLs each, of which a fifth are
on other pages, too.

Bytes are those of tables and indexes together, with URLs as they are on Wikipedia: 70 characters.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import io
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing

from sqlalchemy import text

from bench import report
from core.layout import Layout
from links.registry.database import RegistryStore, open_registry_store
from links.registry.link_import import LinkImporter, MalformedLine, PageSpool, read_links
from links.registry.lookups import page_facts
from links.registry.pages import number_of
from links.registry.wikis import ensure_wiki, parse_wiki
from links.url_parts import bucket_of, domain_index, key_of
from tests.support.services.postgres import PostgresServer

DAY = 3_000
URLS_A_PAGE = 3
WIKI = parse_wiki("dewiki")
_FIGURES = {False: (1_000_000, 20_000, 100_000), True: (200_000, 6_000, 10_000)}


def figures(*, quick: bool) -> dict[str, float]:
    """Measure everything, print a table and return the figures."""
    urls, lookups, pages = _FIGURES[quick]
    with tempfile.TemporaryDirectory() as folder:
        with closing(open_registry_store(Layout(Path(folder, "looked")))) as store:
            fill(store, urls)
            per_s, p99_ms = look(store, urls // URLS_A_PAGE, lookups)
        with closing(open_registry_store(Layout(Path(folder, "imported")))) as store:
            per_minute = bring_in(store, pages)
            of_url, of_ref, of_page = sizes(store)
    measurements = {
        "page_lookups_per_s": per_s,
        "page_lookup_p99_ms": p99_ms,
        "import_pages_per_minute": per_minute,
        "bytes_per_url": of_url,
        "bytes_per_ref": of_ref,
        "bytes_per_page": of_page,
    }
    measurements |= on_postgresql(urls // 4, lookups // 2, pages // 4)
    targets = {"page_lookups_per_s": ">= 5000", "page_lookup_p99_ms": "< 20", "import_pages_per_minute": ">= 100000"}
    rows = [("registry", "ours", "target")]
    rows += [(name, f"{value:,.1f}", targets.get(name, "")) for name, value in measurements.items()]
    report.table(rows)
    return measurements


def fill(store: RegistryStore, count: int) -> None:
    """Write `count` URLs, three to a page, into an empty registry."""
    with store.writing() as rows:
        wiki = ensure_wiki(rows, WIKI, day=DAY)
    with closing(store.engine.raw_connection()) as held:
        driver = held.driver_connection
        assert driver is not None
        write = _write_on_postgresql if store.is_shared else _write_on_sqlite
        write(driver, _tables(count, wiki.id))
        held.commit()
    if store.is_shared:
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as rows:
            rows.execute(text("VACUUM ANALYZE"))


_Rows = Iterator[tuple[object, ...]]


def _tables(count: int, wiki_id: int) -> Iterator[tuple[str, tuple[str, ...], _Rows]]:
    """Yield each table with its columns and rows; a quirk, a copy or a report for every tenth URL."""
    hosts, pages = max(count // 20, 1), range(count // URLS_A_PAGE)
    yield "link_hosts", ("id", "name", "domain_index", "domain", "bucket"), _hosts(hosts)
    of_url = ("id", "key", "host_id", "scheme", "path", "bucket", "added_day", "touched_day")
    state = ("checked_day", "due_day", "state", "code", "history")
    yield "link_urls", (*of_url, *state), _urls(count, hosts)
    yield (
        "link_pages",
        ("id", "wiki_id", "page_id", "title", "touched_day", "listed_day"),
        ((number_of(wiki_id, n + 1), wiki_id, n + 1, f"Title of page {n}", 9, 9) for n in pages),
    )
    yield (
        "link_refs",
        ("page", "url_id", "first_day"),
        ((number_of(wiki_id, n + 1), n * URLS_A_PAGE + place + 1, 9) for n in pages for place in range(URLS_A_PAGE)),
    )
    yield (
        "link_url_quirks",
        ("url_id", "kind", "value", "first_day", "last_day"),
        ((each, 1, "https://elsewhere.net/", 5, 9) for each in range(1, count, 30)),
    )
    copy = "https://web.archive.org/web/2020/https://a.net/"
    yield (
        "link_copies",
        ("url_id", "service", "address", "timestamp", "found_day", "checked_day"),
        ((each, "wayback", copy, "2020", 5, 9) for each in range(2, count, 30)),
    )
    yield (
        "link_reports",
        ("url_id", "host_id", "moment", "expires_day", "reporter"),
        ((each, 1, 1, 9999, b"\0") for each in range(3, count, 30)),
    )


def _write_on_sqlite(  # type: ignore[no-untyped-def]
    disk, tables: Iterator[tuple[str, tuple[str, ...], _Rows]]
) -> None:
    disk.execute("PRAGMA synchronous = OFF")
    indexes = disk.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall()
    disk.execute("BEGIN")
    for name, _ in indexes:
        disk.execute(f"DROP INDEX {name}")
    for table, columns, rows in tables:
        places = ", ".join("?" * len(columns))
        disk.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)
    for _, sql in indexes:
        disk.execute(sql)
    disk.execute("COMMIT")
    disk.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _write_on_postgresql(  # type: ignore[no-untyped-def]
    server, tables: Iterator[tuple[str, tuple[str, ...], _Rows]]
) -> None:
    for table, columns, rows in tables:
        with server.cursor() as cursor, cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


def _hosts(count: int) -> _Rows:
    for number in range(count):
        name = f"www.host-{number}.net"
        domain = name[4:]
        yield (number + 1, name, domain_index(name), domain, bucket_of(name))


def _urls(count: int, hosts: int) -> _Rows:
    history = bytes(15)
    for number in range(count):
        host = number % hosts
        path = f"/news/2019/03/an-article-about-something-{number}.html"
        key = key_of(f"https://www.host-{host}.net{path}")
        yield (number + 1, key, host + 1, 1, path, 5, 1, 9, 9, 9, 1, 1, history)


def look(store: RegistryStore, pages: int, count: int) -> tuple[float, float]:
    """Look up random pages; return look-ups per second (best round) and their p99 in ms (median of the rounds)."""
    with store.snapshot() as reader:
        wiki_id = ensure_known(reader)
    chosen = random.Random(1)
    taken = []
    for _ in range(3):  # rounds: others use this machine, too
        times = []
        for _ in range(count // 3):
            page_id = chosen.randrange(1, pages + 1)
            begun = time.perf_counter()
            with store.snapshot() as reader:
                facts = page_facts(reader, wiki_id, (page_id,), day=DAY)
            times.append(time.perf_counter() - begun)
            assert len(facts[page_id].links) == URLS_A_PAGE
        times.sort()
        taken.append((len(times) / sum(times), times[int(len(times) * 0.99)] * 1_000))
    return max(rate for rate, _ in taken), report.median([p99 for _, p99 in taken])


def ensure_known(reader) -> int:  # type: ignore[no-untyped-def]
    """Return the id of the wiki."""
    from links.registry.wikis import known_wiki

    return known_wiki(reader, WIKI).id


def lines(pages: int) -> Iterator[str]:
    """Yield the rows of a tab-separated file: three URLs a page, a fifth of them on other pages, too."""
    chosen = random.Random(2)
    for page in range(1, pages + 1):
        for place in range(URLS_A_PAGE):
            number = page * URLS_A_PAGE + place
            if chosen.random() < 0.2:
                number = chosen.randrange(number)
            host = number % max(pages // 7, 1)
            url = f"https://www.host-{host}.net/news/2019/03/an-article-about-something-{number}.html"
            yield f"{page}\tTitle of page {page}\t0\t{url}\n"


def bring_in(store: RegistryStore, pages: int) -> float:
    """Import so many pages; pages a minute."""
    stream = io.BytesIO("".join(lines(pages)).encode())
    begun = time.perf_counter()
    with closing(PageSpool()) as spool:
        for row in read_links(stream, one_wiki=True):
            assert not isinstance(row, MalformedLine)
            spool.add(row, WIKI)
        done = LinkImporter(store, day=DAY, digest=b"x" * 16).run(spool)
    assert done.pages == pages
    return pages / (time.perf_counter() - begun) * 60


def sizes(store: RegistryStore) -> tuple[float, float, float]:
    """Return the bytes of a URL with its share of a host, of a reference, of a page; with their indexes."""
    with store.reading() as rows:
        count = {
            table: rows.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()
            for table in ("link_urls", "link_refs", "link_pages")
        }
        if store.is_shared:
            size = dict(
                map(
                    tuple,
                    rows.execute(
                        text(
                            "SELECT relname, pg_total_relation_size(oid) FROM pg_class"
                            " WHERE relkind = 'r' AND relname LIKE 'link_%'"
                        )
                    ).all(),
                )
            )
        else:
            size = dict(
                map(
                    tuple,
                    rows.execute(
                        text(
                            "SELECT m.tbl_name, sum(d.pgsize) FROM dbstat d"
                            " JOIN sqlite_master m ON m.name = d.name GROUP BY 1"
                        )
                    ).all(),
                )
            )
    of_urls = (size["link_urls"] + size["link_hosts"]) / count["link_urls"]
    of_refs = size["link_refs"] / count["link_refs"]
    return float(of_urls), float(of_refs), float(size["link_pages"] / count["link_pages"])


def on_postgresql(urls: int, lookups: int, pages: int) -> dict[str, float]:
    """Measure the same on PostgreSQL, with fewer rows; each look-up is several queries over a socket."""
    server = PostgresServer()
    try:
        with tempfile.TemporaryDirectory() as folder:
            with closing(open_registry_store(Layout(Path(folder)), server.database())) as store:
                fill(store, urls)
                per_s, p99_ms = look(store, urls // URLS_A_PAGE, lookups)
            with closing(open_registry_store(Layout(Path(folder)), server.database())) as store:
                per_minute = bring_in(store, pages)
                of_url, of_ref, of_page = sizes(store)
    finally:
        server.stop()
    return {
        "postgresql_page_lookups_per_s": per_s,
        "postgresql_page_lookup_p99_ms": p99_ms,
        "postgresql_import_pages_per_minute": per_minute,
        "postgresql_bytes_per_url": of_url,
        "postgresql_bytes_per_ref": of_ref,
        "postgresql_bytes_per_page": of_page,
    }


def main() -> None:
    """Print them."""
    measurements = figures(quick=report.arguments(__doc__.splitlines()[0]).quick)
    report.figures("links_lookups", measurements)


if __name__ == "__main__":
    main()
