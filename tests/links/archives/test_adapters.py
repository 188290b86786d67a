"""Asking archives: what they answer, in the forms of the real ones, held to what was asked about."""

import json
from datetime import UTC, datetime
from urllib.parse import parse_qs

import pytest

from core.errors import ConfigError
from links.archives.adapters import (
    KNOWN_ADAPTERS,
    KNOWN_TIMEMAPS,
    POLL_S,
    SESSION_TRIES,
    TRANSIENT_SAVE_ERRORS,
    WAYBACK_REDIRECT,
    AvailabilityAdapter,
    CdxAdapter,
    FallbackAdapter,
    SaveOutcome,
    SavePageNow,
    TimeGateAdapter,
    TimeMapAdapter,
    adapters_of,
)
from links.archives.archive_answers import ArchiveMemento
from links.archives.archive_client import ArchiveClient, ArchiveFailure, ArchiveUnavailableError
from tests.support.archive_server import ArchiveServer, ServiceAnswer, ServiceCall

A = "http://a.test/"
AT = datetime(2015, 6, 1, 12, tzinfo=UTC)
WAYBACK_2013 = "https://web.archive.org/web/20130115102033/http://a.test/"
WAYBACK_2016 = "https://web.archive.org/web/20160115102033/http://a.test/"
TODAY_2012 = "https://archive.today/20120918092600/http://a.test/"

LINK_TIMEMAP = """<http://a.test/>; rel="original",
<http://archive.md/timegate/http://a.test/>; rel="timegate",
<http://archive.md/20120918092600/http://a.test/>; rel="first memento"; datetime="Tue, 18 Sep 2012 09:26:00 GMT",
<http://archive.md/20140918092600/http://a.test/>; rel="last memento"; datetime="Thu, 18 Sep 2014 09:26:00 GMT",
<http://archive.md/20130918092600/http://evil.test/>; rel="memento"; datetime="Wed, 18 Sep 2013 09:26:00 GMT",
<http://archive.md/timemap/http://a.test/>; rel="self"; type="application/link-format"; from="Tue, 18 Sep 2012 09:26:00 GMT"; until="Thu, 18 Sep 2014 09:26:00 GMT"
"""
JSON_TIMEMAP = {
    "original_uri": A,
    "self": "https://aggregator.example/timemap/json/http://a.test/",
    "mementos": {
        "list": [
            {"datetime": "2013-01-15T10:20:33Z", "uri": WAYBACK_2013},
            {"datetime": "2012-09-18T09:26:00Z", "uri": "http://archive.is/20120918092600/http://a.test/"},
            {"datetime": "2014-01-01T00:00:00Z", "uri": "https://perma.cc/AB12-CD34"},
            {"datetime": "2014-01-01T00:00:00Z", "uri": "https://nobody.example/20140101000000/http://a.test/"},
        ],
        "first": {"datetime": "2012-09-18T09:26:00Z", "uri": "http://archive.is/20120918092600/http://a.test/"},
        "last": {"datetime": "2014-01-01T00:00:00Z", "uri": "https://perma.cc/AB12-CD34"},
    },
    "timemap_uri": {"link_format": "https://aggregator.example/timemap/link/http://a.test/"},
    "timegate_uri": "https://aggregator.example/timegate/http://a.test/",
}
AVAILABILITY = {
    "closest": {
        "status": "200",
        "available": True,
        "url": WAYBACK_2013.replace("https", "http", 1),
        "timestamp": "20130115102033",
    }
}
IA_CDX = [
    ["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length"],
    ["test,a)/", "20130115102033", "http://a.test:80/", "text/html", "200", "AAAA", "500"],
    ["test,a)/", "20140115102033", "http://www.a.test/", "text/html", "301", "BBBB", "500"],
    ["test,a)/", "20160115102033", "http://a.test/", "warc/revisit", "-", "AAAA", "500"],
    ["test,b)/", "20160115102033", "http://b.test/", "text/html", "200", "AAAA", "500"],
]  # fmt: skip
PYWB_CDX = (
    '{"urlkey": "test,a)/", "timestamp": "20130115102033", "url": "http://a.test/", "mime": "text/html",'
    ' "status": "200", "digest": "AAAA", "length": "500", "offset": "1", "filename": "x.warc.gz"}\n'
    '{"urlkey": "test,a)/", "timestamp": "20140115102033", "url": "http://a.test/", "mime": "text/html",'
    ' "status": "404", "digest": "CCCC", "length": "500", "offset": "2", "filename": "x.warc.gz"}\n'
)


async def test_a_timemap_in_link_format(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """archive.today's: each copy at its preferred address, what is of another page left out."""
    archive_server.put("https://archive.ph/timemap/http://a.test/", LINK_TIMEMAP)

    copies = await TimeMapAdapter(client, "archive-today", KNOWN_TIMEMAPS["archive-today"]).find(A, AT)

    assert [(each.service, each.address, each.timestamp) for each in copies] == [
        ("archive-today", TODAY_2012, "20120918092600"),
        ("archive-today", "https://archive.today/20140918092600/http://a.test/", "20140918092600"),
    ]


async def test_a_timemap_of_an_aggregator(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """MemGator's and another Weboid's JSON: copies of many archives, none of hosts that nobody knows."""
    archive_server.put("https://aggregator.example/timemap/json/http://a.test/", json.dumps(JSON_TIMEMAP))

    copies = await TimeMapAdapter(client, "aggregator.example", "https://aggregator.example/timemap/json/{url}").find(
        A, AT
    )

    assert [(each.service, each.address) for each in copies] == [
        ("wayback", WAYBACK_2013),
        ("archive-today", TODAY_2012),
        ("perma", "https://perma.cc/AB12-CD34"),
    ]
    assert copies[2].timestamp == "20140101000000"


async def test_a_long_timemap_is_read_where_the_moment_is(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """Of an index of parts those that the moment lies in, and not all."""
    parts = [
        f'<https://other.example/timemap/link/{n}/{A}>; rel="timemap"; type="application/link-format";'
        f' from="{weekday}, 01 Jan {2000 + n} 00:00:00 GMT"; until="{last}, 31 Dec {2000 + n} 00:00:00 GMT"'
        for n, (weekday, last) in {
            10: ("Fri", "Fri"), 11: ("Sat", "Sat"), 12: ("Sun", "Mon"), 13: ("Tue", "Tue"),
            14: ("Wed", "Wed"), 15: ("Thu", "Thu"), 16: ("Fri", "Sat"),
        }.items()
    ]  # fmt: skip
    archive_server.put(
        "https://other.example/timemap/link/http://a.test/", ",\n".join([f'<{A}>; rel="original"', *parts])
    )
    archive_server.put(
        "https://other.example/timemap/link/15/http://a.test/",
        f'<{A}>; rel="original",\n<https://other.example/c/20150301000000/{A}>; rel="memento"; datetime="Sun, 01 Mar 2015 00:00:00 GMT"',
    )

    copies = await TimeMapAdapter(client, "other.example", "https://other.example/timemap/link/{url}").find(A, AT)

    assert copies == [ArchiveMemento("other.example", f"https://other.example/c/20150301000000/{A}", "20150301000000")]
    assert len(archive_server.requests) == 4
    assert "other.example/timemap/link/10/http://a.test/" not in archive_server.places


async def test_a_timegate_leads_to_the_copy(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """The redirect's target is the answer; it is not followed."""
    archive_server.put(
        "https://gate.example/http://a.test/",
        "",
        302,
        location="http://web.archive.org/web/20130115102033/http://a.test/",
        vary="accept-datetime",
    )

    copies = await TimeGateAdapter(client, "gate.example", "https://gate.example/{url}").find(A, AT)

    assert copies == [ArchiveMemento("wayback", WAYBACK_2013, "20130115102033")]
    assert archive_server.requests[0].headers["Accept-Datetime"] == "Mon, 01 Jun 2015 12:00:00 GMT"


async def test_time_travel_tells_of_one_moment(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """The Memento project's JSON, with several addresses for one copy."""
    document = {
        "original_uri": A,
        "mementos": {
            "last": {"datetime": "2016-01-15T10:20:33Z", "uri": [WAYBACK_2016]},
            "closest": {
                "datetime": "2013-01-15T10:20:33Z",
                "uri": [WAYBACK_2013, "http://archive.is/20130115102033/http://a.test/"],
            },
        },
        "timegate_uri": "http://timetravel.mementoweb.org/timegate/http://a.test/",
    }
    archive_server.put("http://tt.example/api/json/20150601120000/http://a.test/", json.dumps(document))

    copies = await TimeMapAdapter(client, "memento", "http://tt.example/api/json/{ts}/{url}").find(A, AT)

    assert [each.service for each in copies] == ["wayback", "archive-today", "wayback"]


async def test_availability_is_asked_before_the_moment_and_then_after_it(
    archive_server: ArchiveServer, client: ArchiveClient
) -> None:
    """Only for what has no copy before it; the request names the API's version."""

    def answer(call: ServiceCall) -> ServiceAnswer:
        values = {key: each[0] for key, each in parse_qs(call.body).items()}
        is_there = values["url"] == A or (values["url"] == "http://b.test/" and values["closest"] == "after")
        url = f"http://web.archive.org/web/20130115102033/{values['url']}"
        closest = {"closest": {**AVAILABILITY["closest"], "url": url}} if is_there else {}
        result = {"url": values["url"], "tag": values["tag"], "archived_snapshots": closest}
        return ServiceAnswer(body=json.dumps({"results": [result]}))

    archive_server.answers["archive.org/wayback/available"] = answer
    urls = [A, "http://b.test/", "http://c.test/"]

    copies_by_url = {url: await AvailabilityAdapter(client).find(url, AT) for url in urls}

    assert copies_by_url[A] == [ArchiveMemento("wayback", WAYBACK_2013, "20130115102033", 200)]
    assert [len(copies_by_url[url]) for url in urls] == [1, 1, 0]
    assert {each.headers["Wayback-Api-Version"] for each in archive_server.requests} == {"2"}
    closest = [parse_qs(each.body)["closest"] for each in archive_server.requests]
    assert closest == [["before"], ["before"], ["after"], ["before"], ["after"]]
    assert archive_server.requests[0].body.count("statuscodes=") == 3


async def test_the_wayback_machine_by_its_own_addresses(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """A redirect names the copy; 404 says that there is none."""
    archive_server.put("https://web.archive.org/web/20150601120000/http://a.test/", "", 302, location=WAYBACK_2013)

    assert await TimeGateAdapter(client, "wayback", WAYBACK_REDIRECT).find(A, AT) == [
        ArchiveMemento("wayback", WAYBACK_2013, "20130115102033")
    ]
    assert await TimeGateAdapter(client, "wayback", WAYBACK_REDIRECT).find("http://b.test/", AT) == []


async def test_captures_by_the_internet_archives_cdx(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """Statuses come along; captures of another page that the server merged are left out."""
    archive_server.put("https://web.archive.org/cdx/search/cdx", json.dumps(IA_CDX))

    copies = await CdxAdapter(client, "wayback", "https://web.archive.org/cdx/search/cdx").find(A, AT)

    assert [(each.timestamp, each.status) for each in copies] == [
        ("20130115102033", 200), ("20140115102033", 301), ("20160115102033", None),
    ]  # fmt: skip
    assert copies[0].address == WAYBACK_2013


async def test_captures_by_pywbs_cdx(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """JSON lines, at the place that the setting names."""
    archive_server.put("https://other.example/coll/cdx", PYWB_CDX)

    copies = await CdxAdapter(
        client, "other.example", "https://other.example/coll/cdx", copies="https://other.example/coll/{ts}/{url}"
    ).find(A, AT)

    assert [(each.service, each.address, each.status) for each in copies] == [
        ("other.example", f"https://other.example/coll/20130115102033/{A}", 200),
        ("other.example", f"https://other.example/coll/20140115102033/{A}", 404),
    ]


def _adapters(client: ArchiveClient) -> dict[str, tuple[object, str]]:
    return {
        "timemap": (TimeMapAdapter(client, "x.example", "https://x.example/timemap/{url}"), "x.example/timemap/http://a.test/"),
        "timegate": (TimeGateAdapter(client, "x.example", "https://x.example/gate/{url}"), "x.example/gate/http://a.test/"),
        "time-travel": (TimeMapAdapter(client, "x", "https://x.example/{ts}/{url}"), "x.example/20150601120000/http://a.test/"),
        "availability": (AvailabilityAdapter(client), "archive.org/wayback/available"),
        "latest": (TimeGateAdapter(client, "wayback", WAYBACK_REDIRECT), "web.archive.org/web/20150601120000/http://a.test/"),
        "cdx": (CdxAdapter(client, "wayback", "https://x.example/cdx"), "x.example/cdx"),
    }  # fmt: skip


WAYS = ["timemap", "timegate", "time-travel", "availability", "latest", "cdx"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (ServiceAnswer(200, "<html><title>Just a moment…</title>"), ArchiveFailure.NONSENSE),
        (ServiceAnswer(200, '{"a": ['), ArchiveFailure.NONSENSE),
        (ServiceAnswer(200, "[" * 100_000), ArchiveFailure.NONSENSE),
        (ServiceAnswer(200, b"\xff\xfe\x00"), ArchiveFailure.NONSENSE),
        (ServiceAnswer(403, "no"), ArchiveFailure.REFUSED),
        (ServiceAnswer(400, "bad request"), ArchiveFailure.NONSENSE),
        (ServiceAnswer(429, "", {"Retry-After": "120"}), ArchiveFailure.BUSY),
        (ServiceAnswer(503, ""), ArchiveFailure.BUSY),
        (ServiceAnswer(500, ""), ArchiveFailure.UNREACHABLE),
        (ServiceAnswer(200, "x" * 9_000_000), ArchiveFailure.TOO_LARGE),
    ],
    ids=["html", "half", "nested", "binary", "403", "400", "429", "503", "500", "huge"],
)
async def test_no_answer_is_told_from_no_copies(
    archive_server: ArchiveServer, client: ArchiveClient, way: str, answer: ServiceAnswer, trouble: ArchiveFailure
) -> None:
    """Whatever an archive says that is no answer: its kind is told, and nothing is said of copies."""
    adapter, place = _adapters(client)[way]
    archive_server.answers[place] = answer

    with pytest.raises(ArchiveUnavailableError) as caught:
        await adapter.find(A, AT)  # type: ignore[attr-defined]

    # Those that need no body do not read one.
    assert caught.value.failure is trouble or (way in ("timegate", "latest") and trouble is ArchiveFailure.TOO_LARGE)


@pytest.mark.parametrize("way", ["timemap", "timegate", "time-travel", "latest", "cdx"])
async def test_none_is_an_answer(archive_server: ArchiveServer, client: ArchiveClient, way: str) -> None:
    """404: the archive has no copy."""
    adapter, _ = _adapters(client)[way]

    assert await adapter.find(A, AT) == []  # type: ignore[attr-defined]


async def test_an_empty_list_of_captures_is_an_answer(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """The Internet Archive says so with [] or nothing at all."""
    cdx = CdxAdapter(client, "wayback", "https://web.archive.org/cdx/search/cdx")
    for body in ("[]", "", "\n"):
        archive_server.put("https://web.archive.org/cdx/search/cdx", body)
        assert await cdx.find(A, AT) == []


async def test_an_answer_about_another_page_is_none(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """A TimeMap, a TimeGate and Time Travel that speak of another original are not believed."""
    evil = "http://evil.test/"
    archive_server.put("https://x.example/timemap/http://a.test/", LINK_TIMEMAP.replace(A, evil))
    archive_server.put(
        "https://x.example/gate/http://a.test/", "", 302, location=WAYBACK_2013, link=f'<{evil}>; rel="original"'
    )
    archive_server.put(
        "https://x.example/20150601120000/http://a.test/", json.dumps({**JSON_TIMEMAP, "original_uri": evil})
    )

    for way in ("timemap", "timegate", "time-travel"):
        with pytest.raises(ArchiveUnavailableError) as caught:
            await _adapters(client)[way][0].find(A, AT)  # type: ignore[attr-defined]
        assert caught.value.failure is ArchiveFailure.NONSENSE


async def test_a_copy_of_another_page_is_dropped(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """Availability and redirects that name another page's copy bring nothing (B07, B13)."""
    other = "http://web.archive.org/web/20130115102033/http://b.test/"
    wrong = {"closest": {**AVAILABILITY["closest"], "url": other}}
    archive_server.put(
        "https://archive.org/wayback/available",
        json.dumps({"results": [{"tag": "0", "url": A, "archived_snapshots": wrong}]}),
    )
    archive_server.put("https://web.archive.org/web/20150601120000/http://a.test/", "", 302, location=other)

    assert await AvailabilityAdapter(client).find(A, AT) == []
    assert await TimeGateAdapter(client, "wayback", WAYBACK_REDIRECT).find(A, AT) == []


async def test_the_wayback_machine_is_asked_another_way_when_one_is_silent(
    archive_server: ArchiveServer, client: ArchiveClient
) -> None:
    """Availability is empty for pages that are there; what both ways fail at is a trouble."""
    archive_server.put(
        "https://archive.org/wayback/available",
        json.dumps({"results": [{"tag": "0", "url": A, "archived_snapshots": {}}]}),
    )
    archive_server.put("https://web.archive.org/web/20150601120000/http://a.test/", "", 302, location=WAYBACK_2013)
    adapter = KNOWN_ADAPTERS["wayback"](client)

    assert isinstance(adapter, FallbackAdapter)
    assert [each.address for each in await adapter.find(A, AT)] == [WAYBACK_2013]

    archive_server.put("https://archive.org/wayback/available", "<html>")
    with pytest.raises(ArchiveUnavailableError):
        await adapter.find("http://b.test/", AT)


@pytest.mark.parametrize(
    ("name", "service"),
    [
        *((name, None) for name in sorted((*KNOWN_ADAPTERS, *KNOWN_TIMEMAPS))),
        ("timemap https://x.example/timemap/link/{url}", "x.example"),
        ("timegate  https://x.example/gate/{url}", "x.example"),
        ("cdx https://x.example/cdx https://x.example/{ts}/{url}", "x.example"),
        ("weboid https://x.example:8443 https://copies.example", "x.example:8443"),
    ],
)
def test_archives_are_named_in_a_setting(client: ArchiveClient, name: str, service: str | None) -> None:
    """Known ones by their names, others by their addresses."""
    (adapter,) = adapters_of([name], client)

    assert service is None or adapter.name == service


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nobody",
        "timemap https://x.example/",
        "cdx https://x.example/cdx",
        "timegate mailto:{url}",
        "weboid",
        "weboid ftp://x",
    ],
)
def test_an_archive_that_there_is_not_is_told(client: ArchiveClient, name: str) -> None:
    """With those that there are."""
    with pytest.raises(ConfigError, match=r"\[links\] archives"):
        adapters_of([name], client)


async def test_another_weboid_is_asked_by_its_timemap(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """Its copies lie at another origin of its own, which the setting names."""
    timemap = {
        **JSON_TIMEMAP,
        "mementos": {
            "list": [
                {"datetime": "2013-01-15T10:20:33Z", "uri": "https://copies.example/c/20130115102033/http://a.test/"}
            ]
        },
    }
    archive_server.put("https://front.example/timemap/json/http://a.test/", json.dumps(timemap))
    (adapter,) = adapters_of(["weboid https://front.example https://copies.example"], client)

    assert await adapter.find(A, AT) == [
        ArchiveMemento("front.example", "https://copies.example/c/20130115102033/http://a.test/", "20130115102033")
    ]


JOB = "spn2-dea4b01e7c4ee7e3a3f2f3a7a3b1d2c4e5f60718"
PENDING = {"status": "pending", "job_id": JOB, "resources": []}
DONE = {
    "status": "success",
    "job_id": JOB,
    "original_url": "http://a.test/",
    "timestamp": "20261121120105",
    "http_status": 200,
    "duration_sec": 6.203,
    "resources": ["http://a.test/", "http://a.test/style.css"],
    "outlinks": {},
}


def _error(code: str, message: str = "It did not work.") -> dict[str, object]:
    return {"status": "error", "status_ext": f"error:{code}", "exception": "[…]", "message": message}


def _answers(*documents: object) -> list[ServiceAnswer]:
    return [ServiceAnswer(200, json.dumps(each), {"Content-Type": "application/json"}) for each in documents]


@pytest.fixture
def service(client: ArchiveClient, archive_server: ArchiveServer) -> SavePageNow:
    """Save Page Now with a key."""
    return SavePageNow(client, "key:secret", monotonic=archive_server.clock.monotonic)


def _script(archive_server: ArchiveServer, submitted: list[object], *states: object) -> None:
    archive_server.answers["web.archive.org/save"] = _answers(*submitted)
    archive_server.answers[f"web.archive.org/save/status/{JOB}"] = _answers(*states)


async def test_a_page_is_taken(archive_server: ArchiveServer, service: SavePageNow) -> None:
    """It is asked with the account's key, waited for, and its copy is at the Wayback Machine."""
    _script(
        archive_server,
        [{"url": A, "job_id": JOB, "message": "The same snapshot had been made 2 minutes ago."}],
        PENDING,
        PENDING,
        DONE,
    )

    saved = await service.take(A)

    assert saved.outcome is SaveOutcome.SAVED
    assert saved.copy == ArchiveMemento(
        "wayback", "https://web.archive.org/web/20261121120105/http://a.test/", "20261121120105", 200
    )
    assert [each.method for each in archive_server.requests] == ["POST", "GET", "GET", "GET"]
    assert {each.headers["Authorization"] for each in archive_server.requests} == {"LOW key:secret"}
    assert "url=http%3A%2F%2Fa.test%2F" in archive_server.requests[0].body
    assert archive_server.clock.slept == [POLL_S] * 3


@pytest.mark.parametrize("code", sorted(TRANSIENT_SAVE_ERRORS - {"user-session-limit"}))
@pytest.mark.parametrize("when", ["asked", "waited"])
async def test_what_passes_is_asked_for_again(
    archive_server: ArchiveServer, service: SavePageNow, code: str, when: str
) -> None:
    """Their own trouble, and limits of the day; also when it comes with status 200 and without a job."""
    _script(archive_server, [_error(code) if when == "asked" else {"job_id": JOB}], _error(code))

    saved = await service.take(A)

    assert (saved.outcome, saved.copy) == (SaveOutcome.LATER, None)
    assert saved.reason.startswith(code)


@pytest.mark.parametrize(
    "code", ["not-found", "no-access", "blocked-url", "invalid-host-resolution", "filesize-limit", "something-new"]
)
async def test_what_does_not_pass_is_not(archive_server: ArchiveServer, service: SavePageNow, code: str) -> None:
    """The page's own trouble, and codes that nobody knows."""
    _script(archive_server, [{"job_id": JOB}], PENDING, _error(code))

    assert (await service.take(A)).outcome is SaveOutcome.NEVER


async def test_a_full_line_is_waited_for(archive_server: ArchiveServer, service: SavePageNow) -> None:
    """So many captures at a time and no more: it is tried again after two seconds."""
    _script(archive_server, [_error("user-session-limit"), _error("user-session-limit"), {"job_id": JOB}], DONE)

    assert (await service.take(A)).outcome is SaveOutcome.SAVED
    assert len(archive_server.requests) == 4


async def test_the_wait_in_a_full_line_ends(archive_server: ArchiveServer, service: SavePageNow) -> None:
    """After so many tries it is for later."""
    _script(archive_server, [_error("user-session-limit")])

    assert (await service.take(A)).outcome is SaveOutcome.LATER
    assert len(archive_server.requests) == SESSION_TRIES


async def test_a_job_that_never_ends_is_left(archive_server: ArchiveServer, service: SavePageNow) -> None:
    """After four minutes it is for later."""
    _script(archive_server, [{"job_id": JOB}], PENDING)

    assert (await service.take(A)).outcome is SaveOutcome.LATER
    assert 100 < len(archive_server.requests) < 130


@pytest.mark.parametrize(
    ("done", "outcome"),
    [
        ({**DONE, "original_url": "http://evil.test/"}, SaveOutcome.NEVER),
        ({**DONE, "original_url": None}, SaveOutcome.LATER),
        ({**DONE, "timestamp": "soon"}, SaveOutcome.LATER),
        ({"status": "maybe"}, SaveOutcome.LATER),
        ({}, SaveOutcome.LATER),
        ({"status": "error"}, SaveOutcome.NEVER),
    ],
)
async def test_a_capture_of_another_page_is_none(
    archive_server: ArchiveServer, service: SavePageNow, done: object, outcome: SaveOutcome
) -> None:
    """A capture must be of the requested URL, and have a timestamp."""
    _script(archive_server, [{"job_id": JOB}], done)

    saved = await service.take(A)

    assert (saved.outcome, saved.copy) == (outcome, None)


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (ServiceAnswer(401, '{"message":"You need to be logged in to use Save Page Now."}'), ArchiveFailure.REFUSED),
        (ServiceAnswer(429, "", {"Retry-After": "60"}), ArchiveFailure.BUSY),
        (ServiceAnswer(520, ""), ArchiveFailure.UNREACHABLE),
        (ServiceAnswer(200, "<html>"), ArchiveFailure.NONSENSE),
    ],
    ids=["key", "busy", "down", "html"],
)
async def test_no_answer_is_told(
    archive_server: ArchiveServer, service: SavePageNow, answer: ServiceAnswer, trouble: ArchiveFailure
) -> None:
    """A wrong key, a service that is busy, down, or answers something else; the key is in no error."""
    archive_server.answers["web.archive.org/save"] = answer

    with pytest.raises(ArchiveUnavailableError) as caught:
        await service.take(A)

    assert caught.value.failure is trouble
    assert "secret" not in str(caught.value)
