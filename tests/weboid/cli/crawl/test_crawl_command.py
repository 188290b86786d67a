"""`weboid crawl`, run as a user runs it: scope, depth, budgets, sitemaps, sheets, and going on."""

import gzip
import json
import os
import signal
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from core.clock import SystemClock
from core.config.database_urls import RedisUse, parse_redis_url
from core.layout import Layout
from core.page_manifest import parse_pageinfo
from crawler.collection import make_collection
from crawler.frontier.base import STOP_ORDER
from crawler.frontier.redis_frontier import RedisFrontier
from tests.support.commands import CommandResult, WeboidRunner
from tests.support.linked_site import Answer, LinkedSite, file, moved, page, weboid_for
from tests.support.services.redis_server import RedisServer
from tests.support.sites.web import TestWeb
from tests.support.stored_records import check, index, records

pytestmark = [pytest.mark.browser, pytest.mark.proxy]

SITE = {
    "a.example/docs/": page("one", "two", "/top", "http://www.a.example/", "http://b.example/x"),
    "a.example/docs/one": page("deep/1", "two", "#part", "mailto:a@b.example"),
    "a.example/docs/two": page("deep/2", "skip-me"),
    "a.example/docs/deep/1": page("../deeper"),
    "a.example/docs/deep/2": page("../"),
    "a.example/docs/deeper": page(),
    "a.example/docs/skip-me": page(),
    "a.example/top": page("/docs/"),
    "www.a.example/": page("http://sub.a.example/"),
    "sub.a.example/": page(),
    "b.example/x": page("/y"),
    "b.example/y": page("/z"),
    "b.example/z": page(),
}
SEED = "http://a.example/docs/"
FOLDER = {"/docs/", "/docs/one", "/docs/two"}
WHOLE_FOLDER = {path for key in SITE if (path := key.removeprefix("a.example")).startswith("/docs")}

PLAIN_VISITS = {"rendered_share": 0.0}  # only seeds are rendered

Start = Callable[..., tuple[WeboidRunner, LinkedSite]]


class WidenedCrawls(NamedTuple):
    """Three crawls of one collection."""

    weboid: WeboidRunner
    site: LinkedSite
    first: CommandResult
    deeper: CommandResult
    wider: CommandResult


@pytest.fixture
def start(web: TestWeb, tmp_path: Path) -> Iterator[Start]:
    """Yield a function that serves answers and returns runner and site; keyword arguments are groups of the profile."""
    with ExitStack() as stack:

        def begin(answers: dict[str, Answer], **groups: dict[str, Any]) -> tuple[WeboidRunner, LinkedSite]:
            site = stack.enter_context(LinkedSite(answers))
            return weboid_for(site, web, tmp_path, **groups), site

        yield begin


def crawl(weboid: WeboidRunner, *arguments: str) -> CommandResult:
    """Run `weboid crawl --json` with the profile; assert exit code 0."""
    ran = weboid.run("crawl", "--json", "--profile", str(weboid.profile), *arguments)
    assert ran.code == 0, ran.out[-2000:] + ran.err
    return ran


def paths(ran: CommandResult, host: str = "a.example") -> set[str]:
    """Return the paths of a host's pages that the run reports."""
    start = f"http://{host}"
    return {url.removeprefix(start) for url in ran.pages if url.startswith(f"{start}/")}


def test_scope_options_say_what_is_archived(start: Start) -> None:
    """Kind, depth and an included pattern, end to end."""
    weboid, _ = start(SITE, visit=PLAIN_VISITS)

    ran = crawl(weboid, SEED, "--scope", "host", "--depth", "1", "--include", r"b\.example/[xy]")

    urls = {f"http://a.example{path}" for path in (*FOLDER, "/top")}
    assert set(ran.pages) == urls | {"http://b.example/x"}


@pytest.mark.parametrize(
    ("options", "scope"),
    [
        (("--scope", "page", "--extra-hops", "1"), "The page of the seed alone, and 1 link beyond these."),
        (
            ("--scope", "domain", "--exclude", "docs/.|top"),
            "Pages of the host of the seed and of its subdomains; never URLs that match docs/.|top.",
        ),
    ],
)
def test_scope_options_reach_the_scope(weboid: WeboidRunner, options: tuple[str, ...], scope: str) -> None:
    """The others, as a dry run words them; what follows from a scope is tested with it."""
    ran = weboid.call("crawl", SEED, "--dry-run", "--json", *options)

    assert json.loads(ran.out)["scope"] == scope


def test_a_crawl_archives_the_folder_of_its_seed_once_and_a_wider_budget_goes_on(start: Start) -> None:
    """Scope prefix is the default; a budget of pages is kept, and a larger one finishes the rest."""
    weboid, site = start(SITE, politeness={"visits_per_host": 4})

    first = crawl(weboid, SEED, "--limit", "3", "--workers", "4")
    again = crawl(weboid, SEED, "--limit", "3")
    rest = crawl(weboid, SEED)

    assert len(first.pages) == 3
    assert again.pages == {}
    assert paths(first) | paths(rest) == WHOLE_FOLDER
    assert not paths(first) & paths(rest)
    assert len(first.pages) + len(rest.pages) == len(WHOLE_FOLDER)
    assert {key for key in site.requests if key.startswith(("b.", "www."))} == set()
    assert max(site.requests[f"a.example{path}"] for path in WHOLE_FOLDER) == 1
    assert rest.summary["left"] == 0


def test_a_host_gets_no_more_pages_than_its_budget(start: Start) -> None:
    """`--host-limit` holds for each host by itself."""
    weboid, _ = start(SITE, politeness={"visits_per_host": 4}, visit=PLAIN_VISITS)

    ran = crawl(weboid, SEED, "--scope", "any", "--host-limit", "2", "--workers", "4")

    assert len(paths(ran)) == 2
    assert len(paths(ran, "b.example")) == 2


def test_a_seed_that_redirects_is_a_seed_where_it_leads(start: Start) -> None:
    """The scope is seen from the target, too, as browsertrix does."""
    weboid, _ = start(
        {
            "old.example/": moved("http://new.example/home/"),
            "new.example/home/": page("in", "/out"),
            "new.example/home/in": page(),
            "new.example/out": page(),
        }
    )

    ran = crawl(weboid, "http://old.example/")

    assert set(ran.pages) == {"http://old.example/", "http://new.example/home/in"}


def test_sitemaps_are_read_and_what_is_in_scope_joins(start: Start) -> None:
    """robots.txt names an index, that a gzipped file; pages that nothing links to are archived."""
    entries = "".join(f"<url><loc>http://a.example/{path}</loc></url>" for path in ("docs/hidden", "other/x"))
    weboid, site = start(
        {
            "a.example/robots.txt": file(b"User-agent: *\nSitemap: http://a.example/index.xml\n"),
            "a.example/index.xml": file(
                b"<sitemapindex><sitemap><loc>http://a.example/s.xml.gz</loc></sitemap>"
                b"<sitemap><loc>http://a.example/index.xml</loc></sitemap></sitemapindex>"
            ),
            "a.example/s.xml.gz": file(gzip.compress(f"<urlset>{entries}</urlset>".encode())),
            "a.example/docs/": page(),
            "a.example/docs/hidden": page(),
            "a.example/other/x": page(),
        }
    )

    ran = crawl(weboid, SEED, "--sitemaps")

    assert paths(ran) == {"/docs/", "/docs/hidden"}
    assert site.requests["a.example/index.xml"] == site.requests["a.example/s.xml.gz"] == 1


def test_a_dry_run_says_what_would_be_crawled_and_does_nothing(start: Start) -> None:
    """Seeds with what they span, the scope in words, the budgets."""
    weboid, site = start(SITE)

    ran = weboid.call("crawl", SEED, "--dry-run", "--depth", "2", "--size-limit", "5GB", "--time-limit", "2h")

    assert "a.example/docs/…" in ran.out
    assert "Pages in the folder of the seed, at most 2 links away." in ran.out
    assert "5.0 GB, 2 h" in ran.out
    assert not weboid.collection.exists()
    assert not site.requests


def test_a_crawl_that_is_handed_over_takes_an_order_to_stop_back(start: Start, redis_server: RedisServer) -> None:
    """Else the workers that wait for its end would never begin."""
    weboid, _ = start(SITE)
    url = f"{redis_server.url}?frontier=stopped"
    with RedisFrontier(parse_redis_url(url, RedisUse.FRONTIER)) as frontier:
        frontier.give_order(STOP_ORDER, "", "")
        ran = weboid.call("crawl", SEED, "--frontier", url)
        left = frontier.orders(STOP_ORDER)

    assert ran.code == 0, ran.err
    assert left == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("http://a.example/", "--exclude", "("), "cannot be run"),
        (("http://a.example/", "--include", "(?=x)"), "look-ahead"),
        (("http://a.example/", "--job", "no name"), "not a name for a crawl"),
        (("http://a.example/", "--size-limit", "much"), "not a size"),
        (("not a url",), "nothing to crawl"),
        ((), "Name what to crawl"),
    ],
)
def test_what_cannot_be_crawled_is_refused_with_a_sentence(
    weboid: WeboidRunner, arguments: tuple[str, ...], words: str
) -> None:
    """Exit code 2, nothing made."""
    ran = weboid.call("crawl", *arguments)

    assert ran.code == 2
    assert words in ran.err
    assert not weboid.collection.exists()


@pytest.fixture(scope="module")
def widened(web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WidenedCrawls]:
    """Archive a page, crawl from it, then deeper, then wider; only seeds are rendered."""
    with LinkedSite(SITE) as site:
        weboid = weboid_for(site, web, tmp_path_factory.mktemp("widened"), visit=PLAIN_VISITS)
        weboid.archive(SEED)
        yield WidenedCrawls(
            weboid,
            site,
            crawl(weboid, SEED, "--depth", "1"),
            crawl(weboid, SEED, "--depth", "2"),
            crawl(weboid, SEED, "--depth", "2", "--scope", "host", "--exclude", "skip"),
        )


def test_a_list_that_was_archived_before_does_not_keep_a_crawl_from_its_seed(widened: WidenedCrawls) -> None:
    """The crawl takes its seeds over from whoever has them."""
    assert paths(widened.first) == FOLDER


def test_a_wider_scope_follows_the_links_of_pages_that_were_archived_before(widened: WidenedCrawls) -> None:
    """They are in the manifests: nothing is visited twice."""
    assert paths(widened.deeper) == {"/docs/deep/1", "/docs/deep/2", "/docs/skip-me"}
    assert paths(widened.wider) == {"/top"}
    visited = {*FOLDER, *paths(widened.deeper), "/top"} - {"/docs/"}
    assert {widened.site.requests[f"a.example{path}"] for path in visited} == {1}


def test_only_seeds_are_rendered_when_the_share_is_zero(widened: WidenedCrawls) -> None:
    """The other pages are fetched, kept and followed all the same."""
    collection = widened.weboid.collection
    check(collection)

    done = [page for ran in widened[2:] for page in ran.pages.values()]
    assert {page["outcome"] for page in done} == {"complete"}
    doms = index(collection, "SELECT DISTINCT url FROM captures WHERE url LIKE 'urn:dom:%'")
    assert doms == [(f"urn:dom:{SEED}",)]


def test_pages_of_a_crawl_are_exported(widened: WidenedCrawls) -> None:
    """All that it archived, and nothing else; one capture by its page id; no crawl of that name has any."""
    weboid = widened.weboid
    name = json.loads(weboid.call("queue", "show", f"{SEED}one", "--json").out)["job"]
    done = {path for ran in (widened.first, widened.deeper, widened.wider) for path in paths(ran)}

    exported = weboid.call("export", "crawl.wacz", "--job", name)
    assert exported.code == 0, exported.err
    with zipfile.ZipFile(weboid.folder / "crawl.wacz") as package:
        listed = [json.loads(line) for line in package.read("pages/pages.jsonl").splitlines()][1:]
    assert sorted(each["url"] for each in listed) == sorted(f"http://a.example{path}" for path in done)
    one = weboid.call("export", "one.wacz", "--page", listed[0]["id"], "--json")
    assert json.loads(one.out)["pages"] == 1
    assert "No crawl 'other'" in weboid.call("export", "other.wacz", "--job", "other").err


def test_a_sheet_that_is_set_holds_for_the_next_pages(start: Start) -> None:
    """`weboid sheet PREFIX` on a collection; without one it is listed, `--remove` takes it back."""
    weboid, _ = start(SITE, visit=PLAIN_VISITS)
    make_collection(Layout(weboid.collection), SystemClock())

    shown = weboid.call("sheet", "a.example/docs/deep", "scope.exclude=['.']")
    listed = weboid.call("sheet", "--json")
    ran = crawl(weboid, SEED)
    gone = weboid.call("sheet", "example,a,)/docs/deep", "--remove")

    assert shown.out == 'example,a,)/docs/deep\n  scope.exclude = ["."]\n'
    assert json.loads(listed.out) == {"prefix": "example,a,)/docs/deep", "scope": {"exclude": ["."]}}
    assert paths(ran) == {"/docs/", "/docs/one", "/docs/two", "/docs/skip-me"}
    assert gone.code == 0
    assert weboid.call("sheet").out.startswith("No sheets")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("org,example", "visit.timeout_s=1"), "inside a label"),
        (("a.example", "visit.timeout_s"), "GROUP.KEY=VALUE"),
        (("a.example", "proxy.processes=2"), "unknown keys"),
        (("a.example", "scope.pages=2"), "applies to the whole crawl"),
        (("b.example", "--remove"), "There is no sheet"),
        (("b.example",), "There is no sheet"),
        (("--remove",), "sheet PREFIX --remove"),
    ],
)
def test_a_sheet_that_cannot_be_is_refused_with_a_sentence(
    weboid: WeboidRunner, arguments: tuple[str, ...], words: str
) -> None:
    """Exit code 2."""
    make_collection(Layout(weboid.collection), SystemClock())
    weboid.call("crawl", "add", "http://a.example/")

    ran = weboid.call("sheet", *arguments)

    assert ran.code == 2
    assert words in ran.err


def test_a_crawl_that_was_killed_goes_on_and_captures_every_page_once(start: Start) -> None:
    """Killed with all its children as soon as it has done a page, again and again, then left alone."""
    weboid, _ = start(SITE)
    arguments = ("crawl", "--json", "--profile", str(weboid.profile), SEED)
    for _ in range(2):
        process = weboid.start(*arguments)
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] in ("page", "summary"):
                break
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    crawl(weboid, SEED)

    times = Counter(
        parse_pageinfo(payload).url
        for _, target, _, payload in records(weboid.collection)
        if target.startswith("urn:pageinfo:")
    )
    assert times == {f"http://a.example{path}": 1 for path in WHOLE_FOLDER}


def test_a_crawl_with_a_shared_frontier_is_handed_to_its_workers(start: Start, redis_server: RedisServer) -> None:
    """The command adds the job and its seeds, and ends; nothing is made here."""
    weboid, site = start(SITE)
    shared = ("--frontier", f"{redis_server.url}?frontier=handed")

    job = ("crawl", SEED, "--job", "mine", "--limit", "7", *shared)
    first, again = weboid.call(*job), weboid.call(*job, "--json")
    archived = weboid.call("archive", "http://b.example/x", *shared)

    assert first.code == 0, first.err
    assert archived.code == 0, archived.err
    assert "1 added; 2 to archive." in archived.out
    assert "Waiting for workers of the shared frontier (`weboid worker`): 1." in first.out
    assert again.summary["duplicates"] == again.summary["left"] == 1
    assert not weboid.collection.exists()
    assert not site.requests


def test_a_continuous_crawl_visits_again_what_is_due_and_what_is_added(start: Start) -> None:
    """It does not end by itself; other links of a page join when it is visited again."""
    weboid, site = start(
        {"a.example/docs/": page(), "a.example/docs/new": page()}, recrawl={"first_s": 1.0, "min_s": 1.0, "max_s": 1.0}
    )
    process = weboid.start("crawl", "--json", "--profile", str(weboid.profile), SEED, "--continuous")
    assert process.stdout is not None
    seen: Counter[str] = Counter()
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "page":
            seen[event["url"]] += 1
            site.answers["a.example/docs/"] = page("new")
        if len(seen) == 2 and seen[SEED] >= 2:
            break
    process.send_signal(signal.SIGINT)
    process.communicate()

    assert set(seen) == {SEED, f"{SEED}new"}
    assert process.returncode in (0, 6)


def test_a_crawl_obeys_robots_unless_somebody_says_otherwise(start: Start) -> None:
    """With --robots ignore, the same crawl visits what it had skipped.

    Links are logged in reports/links-JOB.jsonl: a line a page, by reason, with examples of what was
    left out.
    """
    weboid, _ = start(
        {**SITE, "a.example/robots.txt": file(b"User-agent: *\nDisallow: /docs/one\n")}, visit=PLAIN_VISITS
    )
    options = ("--depth", "1", "--exclude", "skip", "--job", "mine")

    obeying = crawl(weboid, SEED, *options)
    ignoring = crawl(weboid, SEED, *options, "--robots", "ignore")

    text = (weboid.collection / "reports" / "links-mine.jsonl").read_text()
    lines = {line["page"]: line for line in map(json.loads, text.splitlines())}
    assert lines[SEED]["decided"] == {"prefix": 2, "outside": 3}
    assert lines[SEED]["examples"]["outside"] == ["http://a.example/top", "http://www.a.example/"]
    assert lines[f"{SEED}two"]["decided"] == {"depth: more than 1 links": 1, "exclude: skip": 1}

    assert paths(obeying) == FOLDER - {"/docs/one"}
    skipped = [each for each in obeying.events if each["event"] == "skipped"]
    assert [each["url"] for each in skipped] == [f"{SEED}one"]
    assert skipped[0]["reason"].startswith("robots:")
    assert paths(ignoring) == {"/docs/one"}
