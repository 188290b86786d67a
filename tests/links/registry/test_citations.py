"""Tests of `links.registry.citations`."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import func, select

from core.clock import SystemClock
from core.config.settings import LinksSettings
from core.layout import COLLECTION_VERSION, Layout
from links.check_history import day_of
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.checker.check_worker import plan_from_settings
from links.checker.due_urls import ALL_HOSTS
from links.checker.result_store import UrlCheckResult, record_results
from links.registry.citations import (
    CitationFlag,
    CitationRow,
    PageRevision,
    additions_of,
    domain_spreads,
    note_additions,
    put_citations,
)
from links.registry.database import RegistryStore
from links.registry.pages import LinkRef, PageName, PutPage, number_of, put_pages
from links.registry.retention import purge
from links.registry.schema import additions
from links.registry.wikis import ensure_wiki, parse_wiki
from links.rules.link_class import classify_link
from links.states import LinkState
from tests.support.check_rows import watch
from tests.support.server_farm import DayClock
from tests.support.services.registries import open_registry
from weboid.cli.main import weboid

FINE = CheckResult(StatusCode.FINE, CheckVerdict.OK, CheckMethod.GET, http=200, mime="text/html")


GONE = CheckResult(StatusCode.NOT_FOUND, CheckVerdict.GONE, CheckMethod.GET, http=404)


URL = "http://a.example/x"


@pytest.mark.parametrize(
    ("trusts", "flag", "state"),
    [
        (True, CitationFlag.DEAD | CitationFlag.REFERENCE, LinkState.DEAD),
        (True, CitationFlag.LIVE | CitationFlag.REFERENCE, LinkState.DYING),
        (False, CitationFlag.DEAD, LinkState.DYING),
    ],
)
def test_a_pages_dead_link_tag_counts_where_it_is_trusted(
    store: RegistryStore, trusts: bool, flag: CitationFlag, state: LinkState
) -> None:
    """B10: at the link's first own failure; a look that finds it alive says otherwise."""
    url_id = watch(store, [URL])[URL]
    said_so = LinksSettings(preset="iabot", trust_tags=trusts, browser=False)
    rules = plan_from_settings(said_so, ALL_HOSTS).rules
    with store.writing() as rows:
        put_citations(rows, [1], [CitationRow(LinkRef(1, url_id), "citation", flags=flag)], day=100)
        fine, gone = (
            record_results(rows, [UrlCheckResult(url_id, each, DayClock(day).now())], rules)[0]
            for day, each in ((100, FINE), (107, GONE))
        )

    assert (fine.after, gone.after) == (LinkState.ALIVE, state)


def add(store: RegistryStore, wiki: str, page_id: int, url: str, account: str, *, day: int) -> None:
    """Add a page of one revision, with one link."""
    with store.writing() as rows:
        wiki_id = ensure_wiki(rows, parse_wiki(wiki), day=0).id
        page = PutPage(PageName(page_id, f"Page {page_id}"), (classify_link(url),))
        written = put_pages(rows, wiki_id, [page], day=day)
        revision = PageRevision(number_of(wiki_id, page_id), 70 + page_id, 0, account, day)
        note_additions(rows, [revision], written.new, day=day)


def fill(store: RegistryStore, day: int) -> None:
    """Add links by two accounts, one of which adds a domain on two wikis."""
    add(store, "dewiki", 1, "https://www.firm.net/a", "192.0.2.7", day=day)
    add(store, "enwiki", 2, "https://firm.net/b", "192.0.2.7", day=day - 1)
    add(store, "enwiki", 3, "https://firm.net/b", "192.0.2.7", day=day)
    add(store, "enwiki", 4, "https://firm.net/c", "Other", day=day)
    add(store, "dewiki", 5, "https://own.net/", "Other", day=day)


def test_one_domain_by_one_account_on_several_wikis_is_listed(store: RegistryStore) -> None:
    """With how many pages and links; what is on one wiki alone is not."""
    fill(store, 500)
    with store.reading() as rows:
        spreads = domain_spreads(rows, since_day=400, least_wikis=2, limit=10)
        all_ = domain_spreads(rows, since_day=400, least_wikis=1, limit=10)
        late = domain_spreads(rows, since_day=501, least_wikis=1, limit=10)
        own = additions_of(rows, since_day=400, domain="firm.net", account="Other", limit=10)

    assert [tuple(each) for each in spreads] == [("WMF", "192.0.2.7", "firm.net", 2, 3, 3, 499, 500)]
    assert (len(all_), late) == (3, [])
    assert [(each.wiki, each.url, each.rev_id) for each in own] == [("enwiki@WMF", "https://firm.net/c", 74)]


def test_additions_leave_after_90_days(store: RegistryStore) -> None:
    """Addresses of people are not kept for longer than they are of use."""
    fill(store, 500)
    purge(store, day=589)
    with store.reading() as rows:
        count = rows.execute(select(func.count()).select_from(additions)).scalar_one()
    purge(store, day=590)
    with store.reading() as rows:
        assert (count, rows.execute(select(additions)).all()) == (4, [])


def test_the_command_shows_both(tmp_path: Path) -> None:
    """Accounts that added a domain on several wikis are shown; and each link, with its revision."""
    today = day_of(SystemClock().now())
    Layout(tmp_path).marker.write_text(f"version = {COLLECTION_VERSION}\n")
    with closing(open_registry(Layout(tmp_path))) as store:
        fill(store, today)

    def shown(*words: str) -> str:
        done = CliRunner().invoke(weboid, ["links", "spam", "additions", "--collection", str(tmp_path), *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    (spread,) = json.loads(shown("--json"))["spreads"]
    assert (spread["account"], spread["domain"], spread["wikis"]) == ("192.0.2.7", "firm.net", 2)
    by_domain = json.loads(shown("--domain", "www.firm.net", "--json"))["additions"]
    assert [each["revision"] for each in by_domain].count("74") == 1
    assert len(by_domain) == 4
    assert "192.0.2.7" in shown()
    assert "own.net" in shown("--user", "Other")
    assert "No such links" in shown("--user", "Nobody")
