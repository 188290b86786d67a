"""The CDX server, asked by pywb, cdx-toolkit and the wayback client, and by anybody."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import cdx_toolkit  # type: ignore[import-untyped]
import pytest
import wayback  # type: ignore[import-untyped]
from cdx_toolkit import myrequests

from core.timestamps import timestamp14
from playback.access.decision_store import open_decisions
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind, add_takedowns
from playback.web import cdx_query, cdx_server
from playback.web.cdx_query import parse_query, resume_key
from tests.support.playback_fixtures import NOW, PYWB_PYTHON, ROOT, ServedCollection, StoredReply, png
from warc.index.queries import CaptureQueries, IndexPosition, KeyRange

pytestmark = pytest.mark.playback

NAMES = ["urlkey", "timestamp", "url", "mime", "status", "digest", "length"]
ARCHIVE_NAMES = ["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length"]


def ask(served: ServedCollection, path: str = "/cdx", **parameters: Any) -> StoredReply:
    """Query the CDX server; underscores at the end of parameter names are removed."""
    given = {name.rstrip("_"): value for name, value in parameters.items()}
    return served.get(f"{path}?{urlencode(given, doseq=True)}")


def rows(reply: StoredReply) -> list[dict[str, str]]:
    """Return the rows of an answer in JSON Lines."""
    return [json.loads(line) for line in reply.text.splitlines()]


def stamps(reply: StoredReply) -> list[str]:
    """Return the timestamps of an answer in plain text."""
    assert reply.status == 200, reply.text
    return [line.split(" ")[1] for line in reply.text.splitlines() if line]


def captured(served: ServedCollection, site: str) -> list[str]:
    """Ten captures of one page, a day apart, and two of others; the ten's timestamps."""
    for day in range(10):
        body = f"<p>{day // 2}</p>".encode()
        served.builder.response(
            f"{site}/a?b=1&c=2", body, at=NOW + timedelta(days=day), status=404 if day == 3 else 200
        )
    served.builder.response(f"{site}/a/deeper", b"<p>x</p>", at=NOW)
    served.builder.response(f"{site}/i.png", png(), mime="image/png", at=NOW)
    return [timestamp14(NOW + timedelta(days=day)) for day in range(10)]


# ------------------------------------------------------------------------------- real clients


def test_pywb_reads_our_index(served: ServedCollection, site: str) -> None:
    """As its remote index, ``cdx+http://``: nearest first, then replayed from where it says."""
    times = captured(served, site)
    program = """
import json, sys
from pywb.warcserver.index.indexsource import RemoteIndexSource
from pywb.warcserver.index.query import CDXQuery
source = RemoteIndexSource.init_from_string(sys.argv[1])
query = CDXQuery({"url": sys.argv[2], "closest": sys.argv[3]})
print(json.dumps([dict(each) for each in source.load_index(query.params)]))
"""
    done = subprocess.run(
        [PYWB_PYTHON, "-c", program, f"cdx+{served.front}/cdx", f"{site}/a?b=1&c=2", times[4]],
        capture_output=True, text=True, check=True, cwd=ROOT, timeout=120,
    )  # fmt: skip
    captures = json.loads(done.stdout)

    assert [each["timestamp"] for each in captures][:3] == [times[4], times[3], times[5]]
    assert sorted(each["timestamp"] for each in captures) == times
    assert {each["url"] for each in captures} == {f"{site}/a?b=1&c=2"}
    assert captures[1]["status"] == "404"
    assert captures[0]["load_url"] == f"{served.front}/{times[4]}id_/{site}/a?b=1&c=2"


@pytest.fixture
def toolkit(served: ServedCollection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a factory of cdx-toolkit fetchers without their wait of three seconds between requests."""
    monkeypatch.setitem(myrequests.retry_info["default"], "minimum_interval", 0.0)
    yield lambda path="/cdx": cdx_toolkit.CDXFetcher(source=f"{served.front}{path}")
    for name in list(myrequests.retry_info):
        if name.startswith("127."):
            del myrequests.retry_info[name]


@pytest.mark.filterwarnings("ignore:'count' is passed:DeprecationWarning")  # its own, with Python 3.13
@pytest.mark.parametrize("path", ["/cdx", "/cdx/search/cdx"])
def test_cdx_toolkit_reads_our_index(served: ServedCollection, site: str, toolkit: Any, path: str) -> None:
    """All at once and page by page, with filters; nothing where there is nothing."""
    times = captured(served, site)
    client = toolkit(path)
    url = f"{site}/a?b=1&c=2"

    assert [each["timestamp"] for each in client.get(url)] == times
    assert [each["timestamp"] for each in client.get(url, limit=3)] == times[:3]
    assert [each["timestamp"] for each in client.get(url, from_ts=times[2], to=times[4])] == times[2:5]
    captures = client.get(url, filter=["status:404" if path == "/cdx" else "statuscode:404"])
    assert [(each["timestamp"], each["status"]) for each in captures] == [(times[3], "404")]
    paged = client.iter(url, pageSize=4)
    assert [each["timestamp"] for each in paged] == times
    assert {each["url"] for each in client.iter(f"{site}/a*")} == {url, f"{site}/a/deeper"}
    assert client.get("https://never.example/") == []
    assert list(client.iter("https://never.example/")) == []
    assert client.get_size_estimate(url, as_pages=True, pageSize=4) == 3


@pytest.mark.parametrize("path", ["/cdx", "/cdx/search/cdx"])
def test_the_wayback_client_reads_our_index(
    served: ServedCollection, site: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By resumption keys, however few rows an answer has."""
    monkeypatch.setattr(wayback._client, "CDX_SEARCH_URL", f"{served.front}{path}")
    times = captured(served, site)
    url = f"{site}/a?b=1&c=2"
    session = wayback.WaybackSession(search_calls_per_second=0, retries=0)

    with wayback.WaybackClient(session) as client:
        captures: list[Any] = []
        for limit in (3, 1000):
            captures = list(client.search(url, limit=limit))
            assert [timestamp14(each.timestamp) for each in captures] == times
        assert [each.statuscode for each in captures].count(404) == 1
        assert {each.original for each in captures} == {url}
        several = client.search(url, from_date=NOW + timedelta(days=5), filter_field="statuscode:2..", limit=2)
        assert [timestamp14(each.timestamp) for each in several] == times[5:]
        last = client.search(url, limit=-2)
        assert [timestamp14(each.timestamp) for each in last] == times[-2:]
        once = client.search(url, collapse="digest")
        assert [timestamp14(each.timestamp) for each in once] == [
            times[0], times[2], times[4], times[6], times[8],
        ]  # fmt: skip
        deeper = client.search(f"{site}/a", match_type="prefix", limit=2)
        assert len(list(deeper)) == 11
        assert list(client.search("https://never.example/")) == []


# ------------------------------------------------------------------------------- forms


def test_rows_come_in_pywbs_forms(served: ServedCollection, site: str) -> None:
    """Text of seven fields, JSON lines, CDXJ and links, each with its type."""
    served.builder.page(f"{site}/", "<p>x</p>")
    one = served.builder.response(f"{site}/", b"<p>x</p>")
    facts = [one.urlkey, timestamp14(NOW), one.url, "text/html", "200", one.digest]
    whole = [*facts, str(one.location.length)]

    text = ask(served, url=f"{site}/")
    assert (text["Content-Type"], text.text) == ("text/plain; charset=utf-8", " ".join(whole) + "\n")
    lines = ask(served, url=f"{site}/", output="json")
    assert lines["Content-Type"] == "text/x-ndjson"
    assert [list(each.items()) for each in rows(lines)] == [list(zip(NAMES, whole, strict=True))]
    cdxj = ask(served, url=f"{site}/", output="cdxj")
    key, at, rest = cdxj.text.rstrip("\n").split(" ", 2)
    assert cdxj["Content-Type"] == "text/x-cdxj"
    assert ([key, at], list(json.loads(rest).items())) == (whole[:2], list(zip(NAMES[2:], whole[2:], strict=True)))
    links = ask(served, url=f"{site}/", output="link")
    assert links["Content-Type"] == "application/link-format"
    assert links.text == (
        f'<{served.replay}/c/{timestamp14(NOW)}/{site}/>; rel="memento"; datetime="Sun, 01 Mar 2026 12:00:00 GMT"\n'
    )


def test_rows_come_in_the_archives_form(served: ServedCollection, site: str) -> None:
    """A list of lists with the names first, and the key after an empty list."""
    times = captured(served, site)
    url = f"{site}/a?b=1&c=2"

    reply = ask(served, "/cdx/search/cdx", url=url, output="json", limit=2, showResumeKey="true")
    names, *capture_rows, gap, (key,) = json.loads(reply.text)
    assert (reply["Content-Type"], names, gap) == ("application/json", ARCHIVE_NAMES, [])
    assert [each[1] for each in capture_rows] == times[:2]
    more = ask(served, "/cdx/search/cdx", url=url, output="json", resumeKey=key)
    assert [each[1] for each in json.loads(more.text)[1:]] == times[2:]
    nothing = ask(served, "/cdx/search/cdx", url="never.example", output="json")
    assert (nothing.status, json.loads(nothing.text)) == (200, [])
    pages = ask(served, "/cdx/search/cdx", url=url, showNumPages="true", pageSize=4)
    assert pages.text == "3\n"


@pytest.mark.parametrize("output", ["text", "json", "cdxj"])
@pytest.mark.parametrize("path", ["/cdx", "/cdx/search/cdx"])
def test_nothing_tells_where_a_record_lies(served: ServedCollection, site: str, output: str, path: str) -> None:
    """Neither by name nor through a filter: no file, no offset, no folder."""
    captured(served, site)
    url = f"{site}/a?b=1&c=2"
    fields = "filename,offset,source,orig.filename,page_id,id,number,position,url"

    text = ask(served, path, url=url, output=output, fl=fields).text + ask(served, path, url=url, output=output).text
    assert ".warc" not in text
    assert str(served.builder.layout.root) not in text
    for name in ("filename", "offset"):
        assert ask(served, path, url=url, output=output, filter=f"~{name}:.*").status == 400
    assert ask(served, path, url=url, output=output, filter="~.*warc.*").text.strip() in {
        "", "[]", json.dumps({"message": f"No Captures found for: {url}"}),
    }  # fmt: skip


def test_a_url_cannot_forge_rows(served: ServedCollection, site: str) -> None:
    """Spaces and line breaks in what was archived stay inside their field."""
    url = f"{site}/a b\u2028c"
    served.builder.response(url, b"x", mime="text/x y\n")

    (line,) = ask(served, url=url).text.split("\n")[:-1]
    assert len(line.split(" ")) == 7


# ------------------------------------------------------------------------------- questions


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, range(10)),
        ({"limit": 3}, range(3)),
        ({"sort": "reverse", "limit": 3}, (9, 8, 7)),
        ({"limit": -3}, (7, 8, 9)),
        ({"offset": 8}, (8, 9)),
        ({"closest": "20260305", "limit": 3}, (3, 4, 2)),
        ({"from_": "20260303", "to": "20260305"}, (2, 3, 4)),
        ({"from_": "202603", "to": "2026"}, range(10)),
        ({"to": "202602"}, ()),
        ({"filter": "status:404"}, (3,)),
        ({"filter": "!status:404", "limit": 4}, (0, 1, 2, 4)),
        ({"filter": ["=mime:text/html", "~status:4.."]}, (3,)),
        ({"filter": "!~digest:sha256:.*"}, ()),
        ({"filter": "20260307"}, (6,)),
        ({"collapse": "digest"}, (0, 2, 4, 6, 8)),
        ({"collapse": "timestamp:6"}, (0,)),
        ({"collapseTime": 6}, (0, 3, 4)),
        ({"page": 1, "pageSize": 4}, (4, 5, 6, 7)),
        ({"page": 2, "pageSize": 4}, (8, 9)),
        ({"page": 0, "pageSize": 4, "sort": "reverse"}, (9, 8, 7, 6)),
        ({"unheard": "of", "gzip": "false", "allowFuzzy": "0", "crawl": ""}, range(10)),
        ({"closest": "", "sort": "closest"}, range(10)),
    ],
    ids=lambda value: urlencode(value) if isinstance(value, dict) else "",
)
def test_parameters_mean_what_they_mean_elsewhere(
    served: ServedCollection, site: str, parameters: dict[str, Any], expected: Any
) -> None:
    """Those of pywb and of the Internet Archive's server; unknown ones mean nothing."""
    times = captured(served, site)

    assert stamps(ask(served, url=f"{site}/a?c=2&b=1", **parameters)) == [times[n] for n in expected]


@pytest.mark.parametrize("mark", ["*", "matchType"])
def test_prefixes_stop_where_they_should(served: ServedCollection, site: str, mark: str) -> None:
    """In the order of keys, then of time; forward and backward, by key and by page."""
    captured(served, site)
    given = {"url": f"{site}/a"} if mark == "matchType" else {"url": f"{site}/a*"}
    more = {"matchType": "prefix"} if mark == "matchType" else {}

    def listed(**others: Any) -> list[str]:
        return ask(served, **given, **more, **others).text.splitlines()

    everything = listed()
    assert everything == sorted(everything)
    assert len(everything) == 11
    assert listed(sort="reverse") == everything[::-1]
    assert [line for page in range(4) for line in listed(page=page, pageSize=3)] == everything
    all_lines: list[str] = []
    key = ""
    while key or not all_lines:
        lines = listed(limit=4, showResumeKey="true", resumeKey=key)
        key = lines[-1] if "" in lines else ""
        all_lines += lines[:-2] if key else lines
    assert all_lines == everything
    assert len(ask(served, url=f"{site}/a/", matchType="prefix").text.splitlines()) == 1


@pytest.mark.parametrize(
    ("parameters", "status", "word"),
    [
        ({"matchType": "host"}, 403, "matchType=host"),
        ({"matchType": "domain"}, 403, "matchType=domain"),
        ({"url": "*.example"}, 403, "matchType=domain"),
        ({"matchType": "range"}, 400, "matchType"),
        ({"url": ""}, 400, "url="),
        ({"url": "*"}, 400, "url="),
        ({"url": "https://a.example:99999/"}, 400, "url="),
        ({"url": "a" * 9_000}, 400, "url="),
        ({"limit": "many"}, 400, "limit="),
        ({"page": "-1"}, 400, "page="),
        ({"page": 7}, 400, "the last 0"),
        ({"page": 10**11}, 400, "the last 0"),
        ({"from_": "20260230"}, 400, "from="),
        ({"to": "00000101"}, 400, "to="),
        ({"closest": "never"}, 400, "closest="),
        ({"output": "xml"}, 400, "output"),
        ({"filter": "~url:("}, 400, "filter"),
        ({"filter": "filename:x"}, 400, "filter"),
        ({"filter": ["=status:1"] * 11}, 400, "filters"),
        ({"collapse": "offset"}, 400, "collapse="),
        ({"collapse": "digest:-1"}, 400, "number"),
        ({"resumeKey": "nonsense"}, 400, "resumeKey="),
        ({"matchType": "prefix", "output": "link"}, 400, "output=link"),
    ],
    ids=lambda value: urlencode(value)[:40] if isinstance(value, dict) else "",
)
def test_what_cannot_be_answered_is_said_clearly(
    served: ServedCollection, site: str, parameters: dict[str, Any], status: int, word: str
) -> None:
    """400 or 403, in text or JSON as the client reads it."""
    served.builder.response(f"{site}/", b"x")
    given = {"url": f"{site}/", **parameters}

    plain, as_json = ask(served, **given), ask(served, **{"output": "json", **given})
    assert plain.status == status
    assert word in plain.text
    if parameters.get("output") is None:
        assert as_json.status == status
        assert word in as_json.text
        assert as_json["Content-Type"] == "application/json"
        assert word in json.loads(as_json.text)["message"]


def test_an_expensive_filter_costs_nothing_more(served: ServedCollection, site: str) -> None:
    """Expressions that make others hang are searched for in linear time."""
    served.builder.response(f"{site}/{'a' * 5_000}", b"x")

    for each in ("~url:.*(a+)+b", "~url:(.*)*(.*)*(.*)*x", "~url:(a|aa)+$b"):
        assert ask(served, url=f"{site}/*", filter=each).status == 200
    assert ask(served, url=f"{site}/", filter="~url:((a{100}){100}){100}").status == 400


# ------------------------------------------------------------------------------- limits


def test_an_answer_that_ends_early_says_where_to_go_on(
    served: ServedCollection, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a key for who asked for one, by a link for everybody; nothing is told twice or left out."""
    monkeypatch.setattr(cdx_query, "MOST_ROWS", 4)
    times = captured(served, site)
    timestamps: list[str] = []
    target = f"/cdx?{urlencode({'url': f'{site}/a?b=1&c=2'})}"
    while target:
        reply = served.get(target)
        timestamps += stamps(reply)
        link = dict(reply.headers).get("link", "")
        target = link.partition(">")[0].removeprefix(f"<{served.front}")
    assert timestamps == times

    parameters = {"url": f"{site}/a?b=1&c=2", "showResumeKey": "true"}
    *lines, gap, key = ask(served, **parameters).text.splitlines()
    assert ([line.split(" ")[1] for line in lines], gap) == (times[:4], "")
    *lines, gap, key = ask(served, **parameters, resumeKey=key).text.splitlines()
    assert [line.split(" ")[1] for line in lines] == times[4:8]


def test_time_is_bounded(served: ServedCollection, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit, requests for a resume key get one; others get an error rather than a partial list."""
    monkeypatch.setattr("playback.web.cdx_server.ANSWER_LIMIT_S", -1.0)
    captured(served, site)

    assert ask(served, url=f"{site}/*").status == 503
    late = ask(served, url=f"{site}/a?b=1&c=2", showResumeKey="true", resumeKey=_key(site))
    assert late.text == f"\n{_key(site)}\n"


def _key(site: str) -> str:
    keys = parse_query([("url", f"{site}/a?b=1&c=2")]).keys
    return resume_key(IndexPosition(keys.low, 0, 0))


def test_a_large_prefix_is_read_a_chunk_at_a_time(
    served: ServedCollection, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question to the index ends at its LIMIT, and there are as many as are needed."""
    monkeypatch.setattr(cdx_server, "_CHUNK", 5)
    with served.builder._database:
        for number in range(23):
            served.builder.response(f"{site}/p/{number:03}", b"x")
    questions: list[int] = []
    original = CaptureQueries.of_range

    def counted(self: Any, keys: KeyRange, **rest: Any) -> Any:
        capture_rows = original(self, keys, **rest)
        questions.append(len(capture_rows))
        return capture_rows

    monkeypatch.setattr(CaptureQueries, "of_range", counted)
    assert len(stamps(ask(served, url=f"{site}/p*", limit=7))) == 7
    assert questions == [5, 5]
    questions.clear()
    assert len(stamps(ask(served, url=f"{site}/p*"))) == 23
    assert questions == [5, 5, 5, 5, 3]


def test_take_downs_hold_in_lists_of_captures(served: ServedCollection, site: str) -> None:
    """Hidden captures are listed neither by URL nor by prefix; blocked ones still are."""
    for name in ("shown", "hidden", "blocked"):
        served.builder.response(f"{site}/{name}", name.encode())
    with closing(open_decisions(served.builder.layout)) as store:
        for name, effect in (("hidden", TakedownEffect.HIDE), ("blocked", TakedownEffect.BLOCK)):
            url = f"{site}/{name}"
            taken = Takedown(0, TakedownKind.URL, url, "", effect, "", "", "test", NOW, None)
            add_takedowns(store, [taken])

    listed = [each["url"] for each in rows(ask(served, url=f"{site}/*", output="json"))]
    assert listed == [f"{site}/blocked", f"{site}/shown"]
    assert ask(served, url=f"{site}/hidden", output="json").status == 404
    assert ask(served, url=f"{site}/hidden", closest="2026").text == ""


# ------------------------------------------------------------------------------- fuzz
