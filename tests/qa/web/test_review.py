"""Checks of copies on the front: what is listed, what a reviewer does, who may not, and what is kept back."""

import base64
import contextlib
import html
import io
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from PIL import Image

from core.clock import SystemClock
from core.errors import InputError, TransientError
from core.page_classes import PageClass
from core.playback_check import LostPart, PlaybackFault, QaVerdict, picture_name
from playback.access import takedowns
from playback.access.decision_store import open_decisions
from playback.access.levels import Level
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from qa.check_table import RepairState
from qa.web.check_pages import QualityContext
from tests.support.archive_openapi import check_response
from tests.support.playback_fixtures import NOW, decide, png
from tests.support.quality_builder import (
    STRANGER,
    TOKEN,
    QualityBuilder,
    fill_up,
    open_quality_builder,
    open_quality_pages,
    webp,
)
from tests.support.registry_builder import ORIGIN, FixedRegistry, RegistryFront, open_front

pytestmark = pytest.mark.slow

SITE = "https://quality.example"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\u202egnp.exe"


@pytest.fixture
def quality_builder(tmp_path: Path) -> Iterator[QualityBuilder]:
    """Open an empty collection and its registry."""
    with open_quality_builder(tmp_path) as it:
        yield it


@pytest.fixture
def front(quality_builder: QualityBuilder) -> Iterator[RegistryFront]:
    """Yield the front as a reviewer sees it."""
    with open_quality_pages(quality_builder) as it:
        yield it


@pytest.fixture
def strange(quality_builder: QualityBuilder) -> Iterator[RegistryFront]:
    """Yield the front as everybody else sees it."""
    with open_quality_pages(quality_builder, peer=STRANGER) as it:
        yield it


def urls(answer: httpx.Response) -> list[str]:
    """Return the URLs of a list, in its order."""
    return re.findall(r"data-row href=[^>]+>([^<]+)</a>", answer.text)


def fields(answer: httpx.Response) -> dict[str, str]:
    """Return the hidden fields of the form."""
    pairs = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', answer.text)
    return {name: html.unescape(value) for name, value in pairs}


def send(front: RegistryFront, path: str, act: str, **more: Any) -> httpx.Response:
    """Press a button of the page, as a browser does."""
    headers = more.pop("headers", {})
    values = {**fields(front.get(path)), "act": act, **more}
    return front.post(
        path.partition("?")[0],
        urlencode(values).encode(),
        {
            "Content_Type": "application/x-www-form-urlencoded",
            "Origin": ORIGIN,
            "Sec_Fetch_Site": "same-origin",
            **headers,
        },
    )


def take_down(
    quality_builder: QualityBuilder, effect: TakedownEffect, kind: TakedownKind, what: str, stamp: str = ""
) -> None:
    """Take something down."""
    takedown = Takedown(
        number=0, kind=kind, what=what, timestamp=stamp, effect=effect, reason="By order.",
        ticket="T", actor="anna", decided_at=SystemClock().now() - timedelta(days=400), expires_at=None,
    )  # fmt: skip
    with contextlib.closing(open_decisions(quality_builder.builder.layout)) as store:
        takedowns.add_takedowns(store, [takedown])


def test_the_worst_come_first(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """Broken before doubtful before good, and of each the lowest score first."""
    for name, verdict, score in (
        ("d", QaVerdict.GOOD, 0.99),
        ("c", QaVerdict.DOUBTFUL, 0.8),
        ("a", QaVerdict.BROKEN, 0.1),
        ("b", QaVerdict.BROKEN, 0.4),
        ("e", QaVerdict.UNCHECKED, None),
    ):
        quality_builder.check(f"{SITE}/{name}", verdict, score)

    answer = front.get("/quality")

    assert answer.status_code == 200
    assert urls(answer) == [f"{SITE}/{name}" for name in "abcde"]
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("verdict=broken", "ab"),
        ("fault=blank", "b"),
        ("host=other.example", "c"),
        ("host=https://OTHER.example/x", "c"),
        ("class=soft-404", "c"),
        ("level=html", "d"),
        ("below=0.3", "a"),
        ("below=30%25", "a"),
        ("verdict=broken&below=0.3&fault=lost", "a"),
        ("unreviewed=1", "abcd"),
        ("verdict=&host=&class=&fault=&level=&below=", "abcd"),
    ],
)
def test_filters_narrow_the_list(
    query: str, expected: str, quality_builder: QualityBuilder, front: RegistryFront
) -> None:
    """Each by itself and all together, as the form sends them."""
    quality_builder.check(f"{SITE}/a", QaVerdict.BROKEN, 0.1)
    quality_builder.check(f"{SITE}/b", QaVerdict.BROKEN, 0.4, faults=(PlaybackFault.BLANK,))
    quality_builder.check("https://other.example/c", QaVerdict.DOUBTFUL, 0.8, page_class=PageClass.SOFT_404)
    quality_builder.check(f"{SITE}/d", QaVerdict.GOOD, 0.99, level="html")

    listed_urls = urls(front.get(f"/quality?{query}"))

    assert [url[-1] for url in listed_urls] == list(expected)


@pytest.mark.parametrize(
    "query",
    ["verdict=x", "host=a b", "below=2", "below=nan", "fault=%00", "after=1:2", "limit=0",
     "limit=99999", "unreviewed=yes", "level=../x", "after=0:0.5:../../x:images", "host=%2f%2f"],
)  # fmt: skip
def test_what_is_no_filter_is_refused(query: str, front: RegistryFront) -> None:
    """People get the form again with the reason, programs a problem."""
    people, programs = (front.get(f"{path}?{query}") for path in ("/quality", "/quality/api/results"))

    assert (people.status_code, programs.status_code) == (400, 400)
    assert 'role="alert"' in people.text
    assert programs.headers["content-type"] == "application/problem+json"


def test_a_long_list_goes_on_by_place(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """Every result once, in order; programs choose how many at a time."""
    for number in range(120):
        quality_builder.check(f"{SITE}/{number:03}", QaVerdict.BROKEN, number / 200)
    page_urls: list[str] = []
    path = "/quality"
    while path:
        answer = front.get(path)
        page_urls += urls(answer)
        more = re.search(r'rel="next" href="([^"]+)"', answer.text)
        path = html.unescape(more[1]) if more else ""
    api_urls: list[str] = []
    address: str | None = "/quality/api/results?limit=7"
    while address:
        part = front.get(address).json()
        assert len(part["results"]) <= 7
        api_urls += [each["url"] for each in part["results"]]
        address = part["next"]

    assert page_urls == api_urls == [f"{SITE}/{number:03}" for number in range(120)]


def test_a_result_shows_what_was_found(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """Scores, faults, lost files with reasons, pictures, and the captures beside it."""
    older = quality_builder.check(f"{SITE}/p", QaVerdict.GOOD, 0.97, at=NOW - timedelta(days=9))
    page_id = quality_builder.check(
        f"{SITE}/p", QaVerdict.BROKEN, 0.42, reason="Two files are missing.",
        lost=(LostPart(f"{SITE}/s.css", "status: 404"), LostPart(f"{SITE}/x.js", "missing")),
        parts_seen=9, parts_shown=7, pictures={"seen": webp(), "shown": webp("blue"), "heat": webp("red")},
    )  # fmt: skip

    page = front.get(f"/quality/{page_id}/images").text

    assert "Two files are missing." in page
    assert f"{SITE}/s.css" in page
    assert "status 404" in page
    assert "not in the archive" in page
    assert "7 of 9" in page
    assert ">42<" in page
    for kind in ("seen", "shown", "heat"):
        assert f'src="/quality/{page_id}/images/{kind}"' in page
    assert f'href="/quality/{older}/images"' in page


def test_a_missing_picture_is_said(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """In the place of the capture's stands the archive's own screenshot; of the others that they are not there."""
    page_id = quality_builder.check(f"{SITE}/p", page={"shot": png()})

    page = front.get(f"/quality/{page_id}/images").text

    assert "im_/urn:fullPage:" in page
    assert page.count('class="missing"') == 2
    assert front.get(f"/quality/{page_id}/images/shown").status_code == 404


def test_pictures_are_pictures_and_nothing_else(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """Strict headers, a cache that must ask, small ones for lists; a file that is none is not handed out."""
    page_id = quality_builder.check(f"{SITE}/p", pictures={"seen": webp(size=(1280, 6000)), "heat": b"<html>x"})
    whole = front.get(f"/quality/{page_id}/images/seen")
    small = front.get(f"/quality/{page_id}/images/small/seen")
    again = front.get(f"/quality/{page_id}/images/seen", If_None_Match=whole.headers["etag"])

    assert whole.headers["content-type"] == "image/webp"
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert whole.headers["cache-control"] == "private, no-cache"
    assert (again.status_code, again.content) == (304, b"")
    with Image.open(io.BytesIO(small.content)) as image:
        assert image.size == (224, 140)
    for path in ("heat", "small/heat", "shown", "../seen", "other"):
        assert front.get(f"/quality/{page_id}/images/{path}").status_code == 404


@pytest.mark.parametrize("act", ["good", "bad", "clear", "recrawl"])
def test_a_reviewer_judges(act: str, quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """The button leads back to the result, which says what was done and by whom."""
    page_id = quality_builder.check(f"{SITE}/p", QaVerdict.DOUBTFUL, 0.8)
    path = f"/quality/{page_id}/images"
    done = send(front, path, act, by="Bo", note="Looked twice.")
    after = front.get(done.headers["location"])
    row = quality_builder.row(page_id)

    assert done.status_code == 303
    assert "data-done" in after.text
    assert row.review is {"good": QaVerdict.GOOD, "bad": QaVerdict.BROKEN}.get(act, QaVerdict.UNCHECKED)
    assert (row.repair is RepairState.WANTED) == (act in ("bad", "recrawl"))
    if act in ("good", "bad"):
        assert (row.reviewed_by, row.note) == ("Bo", "Looked twice.")
        assert "reviewed by Bo" in after.text


def test_a_script_is_answered_with_json(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """The page shows the new state without being loaded again."""
    page_id = quality_builder.check(f"{SITE}/p")
    response = send(front, f"/quality/{page_id}/images", "good", headers={"Accept": "application/json"})

    assert response.json()["pressed"] == ["good"]
    assert response.json()["verdict"] == "good"
    assert "Good, reviewed" in response.json()["standing"]


def test_after_a_mark_the_list_goes_on_from_where_it_was(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """A result that was judged leaves its place; the next is the one that was next."""
    ids = [quality_builder.check(f"{SITE}/{n}", QaVerdict.BROKEN, n / 10) for n in range(4)]
    path = f"/quality/{ids[1]}/images?verdict=broken"
    after = front.get(send(front, path, "good", verdict="broken").headers["location"]).text
    onward = send(front, f"/quality/{ids[2]}/images?verdict=broken", "good", onward="1")

    assert f'href="/quality/{ids[2]}/images?verdict=broken"' in after.replace("&amp;", "&")
    assert f'href="/quality/{ids[0]}/images?verdict=broken"' in after.replace("&amp;", "&")
    assert onward.headers["location"] == f"/quality/{ids[3]}/images?verdict=broken"


def test_only_reviewers_judge(quality_builder: QualityBuilder, front: RegistryFront, strange: RegistryFront) -> None:
    """Others read, find no buttons, and are refused even with a reviewer's form."""
    page_id = quality_builder.check(f"{SITE}/p")
    path = f"/quality/{page_id}/images"
    page = strange.get(path)
    refused = strange.post(
        path, urlencode({**fields(front.get(path)), "act": "good"}).encode(),
        {"Content_Type": "application/x-www-form-urlencoded", "Sec_Fetch_Site": "same-origin"},
    )  # fmt: skip

    assert page.status_code == 200
    assert "data-marks" not in page.text
    assert "Sign in as a reviewer" in page.text
    assert refused.status_code == 403
    assert "Only reviewers" in refused.text
    assert quality_builder.row(page_id).review is QaVerdict.UNCHECKED


def test_a_token_makes_a_reviewer(quality_builder: QualityBuilder, strange: RegistryFront) -> None:
    """As a password in a browser, under a name that is kept, or as programs say it; no other word does."""
    page_id = quality_builder.check(f"{SITE}/p")
    path = f"/quality/{page_id}/images"
    credentials = base64.b64encode(f"Cleo:{TOKEN}".encode()).decode()
    challenge = strange.get("/quality/sign-in")
    let_in = strange.get("/quality/sign-in", Authorization=f"Basic {credentials}")
    values = fields(strange.get(path, Authorization=f"Basic {credentials}"))
    done = strange.post(
        path, urlencode({**values, "act": "good", "by": "Somebody else"}).encode(),
        {"Content_Type": "application/x-www-form-urlencoded", "Sec_Fetch_Site": "same-origin",
         "Authorization": f"Basic {credentials}"},
    )  # fmt: skip

    assert (challenge.status_code, let_in.status_code) == (401, 303)
    assert challenge.headers["www-authenticate"].startswith("Basic ")
    assert done.status_code == 303
    assert quality_builder.row(page_id).reviewed_by == "Cleo"
    assert "data-marks" in strange.get(path, Authorization=f"Bearer {TOKEN}").text
    for wrong in ("Basic !!!", "Basic eDp5", "Bearer", "Bearer x", "Digest x", f"Basic {TOKEN}"):
        assert strange.get("/quality/sign-in", Authorization=wrong).status_code == 401


def test_a_form_of_another_site_is_refused(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """Even with a reviewer's token; and so is one that this front did not make."""
    page_id = quality_builder.check(f"{SITE}/p")
    path = f"/quality/{page_id}/images"
    other = quality_builder.check(f"{SITE}/q")
    forged = {"token": fields(front.get(f"/quality/{other}/images"))["token"]}

    assert send(front, path, "good", headers={"Sec_Fetch_Site": "cross-site"}).status_code == 403
    assert send(front, path, "good", headers={"Sec_Fetch_Site": "same-site"}).status_code == 403
    assert send(front, path, "good", **forged).status_code == 403
    assert send(front, path, "good", token="").status_code == 403
    assert send(front, path, "destroy").status_code == 400
    assert quality_builder.row(page_id).review is QaVerdict.UNCHECKED


def test_nothing_is_done_by_following_a_link(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """A button's address is for sending alone."""
    page_id = quality_builder.check(f"{SITE}/p")
    front.get(f"/quality/{page_id}/images?act=good&done=good")

    assert quality_builder.row(page_id).review is QaVerdict.UNCHECKED


@pytest.mark.parametrize("effect", TakedownEffect)
@pytest.mark.parametrize("kind", [TakedownKind.URL, TakedownKind.HOST, TakedownKind.CAPTURE], ids=str)
def test_no_route_tells_of_what_was_taken_down(
    kind: TakedownKind,
    effect: TakedownEffect,
    quality_builder: QualityBuilder,
    front: RegistryFront,
    strange: RegistryFront,
) -> None:
    """Neither lists nor neighbours nor histories nor pictures nor numbers; and none can be judged."""
    gone, seen = "https://gone.example/secret", f"{SITE}/seen"
    page_id = quality_builder.check(gone, score=0.2, pictures={"seen": webp(), "shown": webp(), "heat": webp()})
    other = quality_builder.check(seen, score=0.3)
    before = front.get(f"/quality/{page_id}/images/seen")
    assert before.status_code == 200
    what = {TakedownKind.HOST: "gone.example"}.get(kind, gone)
    stamp = f"{NOW:%Y%m%d%H%M%S}" if kind is TakedownKind.CAPTURE else ""
    take_down(quality_builder, effect, kind, what, stamp)

    for client in (front, strange):
        for path in ("/quality", f"/quality/{other}/images", "/quality/api/results", "/quality?host=gone.example"):
            assert "secret" not in client.get(path).text.replace("gone.example/secret?", "")
        for rest in ("", "/seen", "/shown", "/heat", "/small/seen"):
            again = client.get(f"/quality/{page_id}/images{rest}", If_None_Match=before.headers["etag"])
            assert again.status_code == 404
            assert "secret" not in again.text
    assert send(front, f"/quality/{other}/images", "good", headers={}).status_code == 303
    values = fields(front.get(f"/quality/{other}/images"))
    refused = front.post(
        f"/quality/{page_id}/images", urlencode({**values, "act": "good"}).encode(),
        {"Content_Type": "application/x-www-form-urlencoded", "Sec_Fetch_Site": "same-origin"},
    )  # fmt: skip
    assert refused.status_code == 404
    summary = strange.get("/quality/api/summary?host=gone.example").json()
    assert summary == {"totals": None}
    assert front.get("/quality/api/summary?host=gone.example").json()["totals"]["broken"] == 1


def test_a_level_without_images_has_no_pictures(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """When readers may not see the page's images, no picture of it is shown either."""
    page_id = quality_builder.check(f"{SITE}/p", page={"shot": png()}, pictures={"seen": webp(), "shown": webp()})
    decide(quality_builder.builder.layout, Level.TEXT, domain="quality.example")

    page = front.get(f"/quality/{page_id}/images").text

    assert "<img src" not in page.partition("data-panes")[2].partition("</section>")[0]
    assert front.get(f"/quality/{page_id}/images/seen").status_code == 404


def test_what_the_index_does_not_have_is_not_told(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """A check of a page that was erased, or that nobody indexed, is nobody's business."""
    quality_builder.keep("feedbeef", f"{SITE}/unknown", QaVerdict.BROKEN, 0.1)

    assert "unknown" not in front.get("/quality").text.replace("Not compared", "")
    assert front.get("/quality/feedbeef/images").status_code == 404


def test_hostile_texts_are_texts(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """URLs, reasons, notes and lost parts stand in the page as letters, those that turn others as a mark."""
    page_id = quality_builder.check(
        f"{SITE}/?q=<script>alert(1)</script>", reason=HOSTILE, lost=(LostPart(HOSTILE, HOSTILE),)
    )
    send(front, f"/quality/{page_id}/images", "good", note=HOSTILE, by=HOSTILE)
    for path in ("/quality", f"/quality/{page_id}/images", f"/quality?after={HOSTILE}"):
        page = front.get(path.replace("\u202e", "%E2%80%AE")).text
        assert "<script>alert" not in page
        assert "onerror=alert(1)>" not in page.replace("&gt;", "")
        assert page.count("\u202e") == page.count('value="&lt;/script&gt;')


@pytest.mark.parametrize(
    "path", ["/quality/../../etc/passwd/images", "/quality/a%2Fb/images", "/quality/%00/images",
             "/quality/x/..%2f..%2fx", "/quality/x/images/seen%00", f"/quality/{'a' * 5000}/images"],
)  # fmt: skip
def test_odd_identifiers_find_nothing(path: str, front: RegistryFront) -> None:
    """Whatever stands in an address, no file outside of the pictures is ever opened."""
    assert front.get(path).status_code in (400, 404)


def test_a_picture_outside_of_the_folder_is_not_read(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """An identifier that leads elsewhere is none, even when a row had it."""
    with pytest.raises(InputError):
        picture_name("../../x", "images", "seen")
    with pytest.raises(InputError):
        quality_builder.keep("../../x", SITE + "/p", QaVerdict.BROKEN, 0.1)


def test_programs_are_told_the_same(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """Names of fields are those of the documentation."""
    page_id = quality_builder.check(f"{SITE}/p", score=0.25, lost=(LostPart(f"{SITE}/a", "digest"),))
    listed = front.get("/quality/api/results").json()
    check_response("/quality/api/results", 200, listed)
    check_response("/quality/api/summary", 200, front.get("/quality/api/summary").json())
    (entry,) = listed["results"]
    documented = Path("docs/how-to/quality.md").read_text()

    assert entry["page_id"] == page_id
    assert entry["result"] == f"/quality/{page_id}/images"
    assert (entry["verdict"], entry["machine"], entry["person"]) == ("broken", "broken", None)
    assert entry["lost"] == [{"url": f"{SITE}/a", "reason": "digest"}]
    assert [name for name in entry if f"`{name}`" not in documented] == []
    assert front.get("/quality/api/summary").json()["totals"] == {
        "broken": 1, "doubtful": 0, "good": 0, "unchecked": 0,
    }  # fmt: skip


def test_a_registry_that_is_away_is_told(quality_builder: QualityBuilder) -> None:
    """Readers and programs get 503 and when to come again; the other pages go on."""
    quality = QualityContext(quality_builder.builder.layout)
    root = quality_builder.builder.layout.root.parent
    with open_front(root, FixedRegistry(TransientError("away")), mounts=[quality]) as front:
        answers = [front.get(path) for path in ("/quality", "/quality/api/results", "/quality/x/images")]
        assert [each.status_code for each in answers] == [503] * 3
        assert {each.headers["retry-after"] for each in answers} == {"30"}
        assert front.get("/").status_code == 200


def test_readers_have_rates(quality_builder: QualityBuilder, strange: RegistryFront, front: RegistryFront) -> None:
    """Readers who send too many requests get 429; reviewers do not."""
    quality_builder.check(f"{SITE}/p")
    strangers = [strange.get("/quality/api/summary").status_code for _ in range(70)]
    reviewers = [front.get("/quality/api/summary").status_code for _ in range(70)]

    assert set(strangers[:60]) == {200}
    assert strangers[-1] == 429
    assert set(reviewers) == {200}


def test_it_is_said_in_german(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """Addresses keep the language."""
    quality_builder.check(f"{SITE}/p")
    page = front.get("/de/quality").text

    assert "Qualität der Kopien" in page
    assert 'href="/de/quality/' in page
    assert json.dumps("x")


def test_many_results_are_listed_by_place(quality_builder: QualityBuilder, front: RegistryFront) -> None:
    """The middle and the end are as near as the beginning; a host's are found among all."""
    count = 10_000
    fill_up(quality_builder, count)
    first = front.get("/quality")
    middle = front.get(f"/quality?after=0:0.5:{count // 2:032x}:images")
    last = front.get(f"/quality?after=0:0.9998:{count - 2:032x}:images")
    of_host = front.get("/quality?host=host5.example")
    one = front.get(f"/quality/{count // 2:032x}/images")

    assert urls(first)[0].endswith("/000000")
    assert [url[-6:] for url in urls(middle)] == [f"{n:06}" for n in range(5_001, 5_051)]
    assert [url[-6:] for url in urls(last)] == ["009999"]
    assert 'rel="next"' not in last.text
    assert [int(url[-6:]) for url in urls(of_host)] == list(range(5, 5 + 50 * 97, 97))
    assert "10,000" in first.text
    assert f"/quality/{count // 2 - 1:032x}/images" in one.text
    assert f"/quality/{count // 2 + 1:032x}/images" in one.text


def test_without_a_setting_nobody_is_a_reviewer(quality_builder: QualityBuilder) -> None:
    """An empty word is no token, whichever way it is said."""
    page_id = quality_builder.check(f"{SITE}/p")
    root = quality_builder.builder.layout.root.parent
    with open_front(
        root, FixedRegistry(quality_builder.store), mounts=[QualityContext(quality_builder.builder.layout)]
    ) as front:
        for authorization in ("Bearer ", "Bearer", "Basic eDo=", "Basic Og==", ""):
            answer = front.get(f"/quality/{page_id}/images", Authorization=authorization)
            assert "data-marks" not in answer.text
            assert "weboid serve --reviewers" in answer.text
            assert front.get("/quality/sign-in", Authorization=authorization).status_code == 403
