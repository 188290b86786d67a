"""Answers of the origins of full copies, over a real socket."""

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.timestamps import timestamp14
from playback.access.decision_store import DecisionStore, open_decisions
from playback.access.levels import Level
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind, add_takedowns, normalize_target
from playback.replay.full.full_gate import (
    BodyRequest,
    FullAnswer,
    FullGate,
    FullPolicy,
    body_parameters,
    fixed_full_headers,
    match_body,
    parse_body_query,
)
from playback.url_paths import FullOrigins
from tests.playback.replay.test_header_gate import DANGEROUS
from tests.support.playback_fixtures import NOW, CollectionBuilder, FullSite, ServedCollection, decide, fetch, png

pytestmark = pytest.mark.playback
TS = timestamp14(NOW)
UUIDS = ("6e1c0c1a-2b3f-4d5e-8f90-a1b2c3d4e5f6", "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0")
HTML = "<!DOCTYPE html><title>page</title><script>1</script>"
YEARS = timedelta(days=1000)


def take_down(decisions: DecisionStore, url: str) -> None:
    """Block the URL as an operator does."""
    kind = TakedownKind.URL
    what = normalize_target(kind, url)
    add_takedowns(decisions, [Takedown(0, kind, what, "", TakedownEffect.BLOCK, "asked for", "", "op", NOW, None)])


def test_without_the_possibility_there_is_no_such_route(served: ServedCollection, site: str) -> None:
    """Off by default, whatever the levels say: the front knows no such address, nor does replay."""
    served.builder.page(f"{site}/", HTML)
    decide(served.builder.layout, Level.FULL, link=f"{site}/")

    answers = [served.get(f"/{view}/{TS}/{site}/").status for view in ("full", "full-view")]
    host = {"Host": f"{'a' * 20}f.localhost:{served.replay.rpartition(':')[2]}"}
    reply = fetch(served.replay, f"/c/{TS}mp_/{site}/", headers=host)

    assert answers == [404, 404]
    assert reply.status == 421


def test_a_page_that_may_not_is_refused_although_its_address_is_typed(full: FullSite, site: str) -> None:
    """On the front, and at its origin, which it had while it still was allowed; at once."""
    url = f"{site}/"
    full.page(url, HTML)
    frame = full.frame(url)
    before = full.part(frame, "mp_", url, "iframe").status

    decide(full.served.builder.layout, Level.IMAGES, link=url)

    assert before == 200
    for view in ("full", "full-view"):
        answer = full.served.get(f"/{view}/{TS}/{url}")
        assert answer.status == 403
        assert "localhost" not in answer.text
    assert full.part(frame, "mp_", url, "iframe").status == 403
    assert full.ask(frame, "/.weboid/wombat.js", "script").status == 403


def test_what_a_wiki_allows_is_shown_to_its_readers_only(full: FullSite) -> None:
    """Each wiki's readers have an origin of their own, and none can be made from another's."""
    url = "https://wiki.test/"
    full.page(url, HTML)
    decide(full.builder.layout, Level.FULL, wiki="mywiki")
    decide(full.builder.layout, Level.IMAGES, wiki="other")

    assert full.served.get(f"/full-view/{TS}/{url}").status == 403
    assert full.served.get(f"/w/other/full-view/{TS}/{url}").status == 403
    frame = full.frame(url, before="/w/mywiki")
    assert full.part(frame, "mp_", url, "iframe").status == 200
    decide(full.builder.layout, Level.TEXT, wiki="mywiki")
    assert full.part(frame, "mp_", url, "iframe").status == 403


def test_the_notice_comes_before_the_frame(full: FullSite, site: str) -> None:
    """It says what it is, asks nothing, and leads on by a link; another date leads to the true one."""
    full.page(f"{site}/", HTML)

    notice = full.served.get(f"/full/{TS}/{site}/")
    wrong = full.served.get(f"/full-view/20250101000000/{site}/")

    assert notice.status == 200
    assert "<iframe" not in notice.text
    assert f'href="/full-view/{TS}/{site}/"' in notice.text
    assert (wrong.status, wrong["Location"]) == (302, f"/full/{TS}/{site}/")


def test_a_frame_holds_the_origin_of_one_capture(full: FullSite, site: str) -> None:
    """The front's policy lets that page frame nothing else; its sandbox gives no origin."""
    full.page(f"{site}/", HTML)
    frame = full.frame(f"{site}/")
    answer = full.served.get(f"/full-view/{TS}/{site}/")

    policy = answer["Content-Security-Policy"].split("; ")

    assert f"frame-src {frame.split('/c/')[0]}" in policy
    assert "default-src 'none'" in policy
    assert 'sandbox="allow-scripts allow-top-navigation-by-user-activation"' in answer.text
    assert "frame-src" not in full.served.get(f"/full/{TS}/{site}/")["Content-Security-Policy"] or (
        frame.split("/c/")[0] not in full.served.get("/")["Content-Security-Policy"]
    )


def test_an_origin_shows_its_capture_and_no_other(full: FullSite, site: str) -> None:
    """Another moment's, another page's and a made-up host: nothing of it (P-04)."""
    later = NOW + timedelta(hours=1)
    full.page(f"{site}/", HTML)
    full.page(f"{site}/", "<p>later", at=later)
    full.page(f"{site}/other", "<p>secret words")
    one, two = full.frame(f"{site}/"), full.frame(f"{site}/", at=later)
    host = one.split("/")[2]

    assert one.split("/c/")[0] != two.split("/c/")[0]
    assert full.ask(one, f"/c/{timestamp14(later)}mp_/{site}/").status == 404
    assert full.ask(one, f"/c/{timestamp14(later)}im_/{site}/", "image").status == 404
    other = full.part(one, "mp_", f"{site}/other", "iframe")
    assert b"secret words" not in other.body
    assert f'href="{full.served.front}/page/{TS}/{site}/other" target="_top"' in other.text
    for label in ("a" * 20 + host[20:], host[:20] + "f" + host[21:], "www." + host, host + "1"):
        answer = full.ask(f"http://{label}/", f"/c/{TS}mp_/{site}/")
        assert answer.status in (404, 421), label
        assert b"page" not in answer.body


@pytest.mark.parametrize("dest", ["", "document"])
def test_no_page_is_given_out_for_a_tab_of_its_own(full: FullSite, site: str, dest: str) -> None:
    """Outside the front's frame a page could lead its reader anywhere (P-08)."""
    full.page(f"{site}/", HTML)
    full.builder.response(f"{site}/i.svg", b"<svg/>", mime="image/svg+xml")
    frame = full.frame(f"{site}/")

    for modifier, url in (("mp_", f"{site}/"), ("if_", f"{site}/i.svg"), ("id_", f"{site}/")):
        answer = full.part(frame, modifier, url, dest)
        if dest:
            assert (answer.status, answer["Location"]) == (303, f"{full.served.front}/full/{TS}/{site}/")
        else:
            assert answer.status == 403


def test_the_page_itself_is_no_frame_within_a_page(full: FullSite, site: str) -> None:
    """The page answers 404 as a frame part: it would show without its banner. Other parts may be framed."""
    full.page(f"{site}/", HTML)
    full.builder.response(f"{site}/part", b"<p>part")
    frame = full.frame(f"{site}/")

    page, part = (full.part(frame, "if_", f"{site}{path}", "iframe") for path in ("/", "/part"))

    assert page.status == 404
    assert part.status == 200
    assert "frame-ancestors" not in part["Content-Security-Policy"]


def test_parts_are_of_the_pages_time(full: FullSite, site: str) -> None:
    """The nearest within the window, the visit's own first; never one that was captured years later (P-10)."""
    page = full.page(f"{site}/", HTML)
    for days, text in ((3, b"near"), (-9, b"far"), (1000, b"years")):
        full.builder.response(f"{site}/a.txt", text, mime="text/plain", at=NOW + timedelta(days=days))
    full.builder.response(f"{site}/b.txt", b"nearest", mime="text/plain", at=NOW)
    full.builder.response(f"{site}/b.txt", b"own", mime="text/plain", at=NOW + timedelta(seconds=9), page_id=page)
    full.builder.response(f"{site}/evil.js", b"evil()", mime="text/javascript", at=NOW + YEARS)
    frame = full.frame(f"{site}/")

    near = full.part(frame, "oe_", f"{site}/a.txt", "empty")

    assert near.body == b"near"
    assert near["Memento-Datetime"] == "Wed, 04 Mar 2026 12:00:00 GMT"
    assert full.part(frame, "oe_", f"{site}/b.txt", "empty").body == b"own"
    assert full.part(frame, "js_", f"{site}/evil.js", "script").status == 404
    assert full.part(frame, "js_", f"{site}/never.js", "script").status == 404


@pytest.mark.parametrize(
    ("captured", "requested", "is_found"),
    [
        ("/data.json?q=1&_=1700000000001", "/data.json?q=1&_=1700000099999", True),
        ("/api?cb=jQuery351_1700000000001&_=1", "/api?cb=jQuery351_1700000099999&_=2", True),
        ("/app.css?v=1", "/app.css?v=2", True),
        ("/app.css", "/app.css?v=2", True),
        ("/api?q=1", "/api?q=2", False),
        (f"/api?q=1&s={UUIDS[0]}&r=0.123456789", f"/api?q=1&s={UUIDS[1]}&r=0.987654321", True),
        (f"/api?q=1&s={UUIDS[0]}", f"/api?q=2&s={UUIDS[0]}", False),
        ("/list.php?q=1", "/list.php?q=2", False),
        ("/other.css?v=1", "/app.css?v=2", False),
    ],
)
def test_parameters_without_meaning_are_left_out(
    full: FullSite, site: str, captured: str, requested: str, is_found: bool
) -> None:
    """Cache-busters and callbacks differ in each visit; of another page's captures none is taken."""
    page = full.page(f"{site}/", HTML)
    full.builder.response(f"{site}{captured}", b"{}", mime="application/json", page_id=page)
    full.page(f"{site}/elsewhere", HTML)

    own, other = (full.frame(f"{site}{path}") for path in ("/", "/elsewhere"))

    part = full.part(own, "mp_", f"{site}{requested}", "empty")
    assert part.status == (200 if is_found else 404)
    assert full.part(own, "mp_", f"{site}{requested}", "iframe").body != b"{}"
    assert full.part(other, "mp_", f"{site}{requested}", "empty").status == 404


def test_of_two_captures_that_differ_in_fresh_values_none_is_taken(full: FullSite, site: str) -> None:
    """Nobody knows which one was meant."""
    page = full.page(f"{site}/", HTML)
    for number in "12":
        url = f"{site}/api?s={number * 24}"
        full.builder.response(url, b"{}", mime="application/json", page_id=page)

    part = full.part(full.frame(f"{site}/"), "mp_", f"{site}/api?s={'3' * 24}", "empty")

    assert part.status == 404


def test_addresses_without_scheme_or_moment_are_of_the_page(full: FullSite, site: str) -> None:
    """Scripts and blob workers ask so."""
    page = full.page(f"{site}/", HTML)
    full.builder.response(f"{site}/a.js", b"1", mime="text/javascript", page_id=page)
    frame = full.frame(f"{site}/")

    assert full.part(frame, "js_", site.partition(":")[2] + "/a.js", "script").status == 200
    assert full.ask(frame, f"/c/wkrf_/{site}/a.js", "script").status == 200


def test_a_script_that_is_imported_is_not_wrapped(full: FullSite, site: str) -> None:
    """Modules are strict, where pywb's wrapper is a syntax error; what they import is imported, too."""
    page = full.page(f"{site}/", HTML)
    texts = {"umd.js": b"(function(f){f(arguments)})(x=>1)", "a.js": b"import './umd.js';f()"}
    for name, body in texts.items():
        full.builder.response(f"{site}/{name}", body, mime="text/javascript", page_id=page)
    frame = full.frame(f"{site}/")

    imported = full.part(frame, "esm_", f"{site}/umd.js", "script")

    assert imported.body == texts["umd.js"]
    assert b"arguments;" in full.part(frame, "js_", f"{site}/umd.js", "script").body
    assert f"esm_/{site}/umd.js" in full.part(frame, "js_", f"{site}/a.js", "script").text


@pytest.mark.parametrize(
    ("location", "led"),
    [("/next?q=1#f", "/c/{ts}js_/{site}/next?q=1#f"), ("https://o.example/x", "/c/{ts}js_/https://o.example/x"),
     ("//o.example/x", "/c/{ts}js_/https://o.example/x"), ("javascript:alert(1)", None), ("data:text/html,x", None),
     ("\\\\evil.test", "/c/{ts}js_/{site}/%5C%5Cevil.test"), ("ftp://evil.test/", None), ("", None)],
)  # fmt: skip
def test_redirects_stay_within_the_capture(full: FullSite, site: str, location: str, led: str | None) -> None:
    """Whatever was archived as Location (P-14)."""
    full.page(f"{site}/", HTML)
    full.builder.response(f"{site}/go", b"", status=302, headers=(("Location", location),))

    answer = full.part(full.frame(f"{site}/"), "js_", f"{site}/go", "script")

    if led is None:
        assert answer.status == 404
    else:
        assert (answer.status, answer["Location"]) == (307, led.format(ts=TS, site=site))


def test_an_address_that_was_not_rewritten_is_looked_for_on_the_pages_site(full: FullSite, site: str) -> None:
    """The host knows whose it is; what begins like our own scripts is ours."""
    full.page(f"{site}/deep/page", HTML)
    frame = full.frame(f"{site}/deep/page")

    script = full.ask(frame, "/app.js?v=1", "script")

    assert (script.status, script["Location"]) == (307, f"/c/{TS}js_/{site}/app.js?v=1")
    assert full.ask(frame, "//evil.test/x", "script").status == 404
    assert full.ask(frame, "/.weboid/../full.py", "script").status == 404
    assert full.ask(frame, "/.weboid/wombat.js", "script").status == 200


@pytest.mark.parametrize(
    ("wanted", "status", "span", "body"),
    [("bytes=2-4", 206, "bytes 2-4/10", b"234"), ("bytes=7-", 206, "bytes 7-9/10", b"789"),
     ("bytes=-2", 206, "bytes 8-9/10", b"89"), ("bytes=0-99", 206, "bytes 0-9/10", b"0123456789"),
     ("bytes=10-", 416, "bytes */10", b"There is no such part.\n"), ("bytes=5-2", 200, "", b"0123456789"),
     ("bytes=0-1,3-4", 200, "", b"0123456789"), ("lines=1", 200, "", b"0123456789"), ("bytes=-", 200, "", b"0123456789")],
)  # fmt: skip
def test_media_can_be_had_in_parts(full: FullSite, site: str, wanted: str, status: int, span: str, body: bytes) -> None:
    """RFC 9110, 14.2: one range; more than one, or another unit, is answered with all."""
    full.page(f"{site}/", HTML)
    full.builder.response(f"{site}/v.webm", b"0123456789", mime="video/webm")

    answer = full.part(full.frame(f"{site}/"), "oe_", f"{site}/v.webm", "video", headers={"Range": wanted})

    assert (answer.status, answer.body) == (status, body)
    assert dict(answer.headers).get("Content-Range", "") == span


def test_no_worker_that_outlives_its_page_is_given_out(full: FullSite, site: str) -> None:
    """On every modifier, by header and by destination (P-06)."""
    full.page(f"{site}/", HTML)
    full.builder.response(f"{site}/sw.js", b"1", mime="text/javascript")
    frame = full.frame(f"{site}/")

    for modifier in ("mp_", "js_", "sw_", "id_", "wkr_"):
        for dest in ("serviceworker", "sharedworker", "worker", "manifest", "report"):
            assert full.part(frame, modifier, f"{site}/sw.js", dest).status == 403
        header = {"Service-Worker": "script"}
        assert full.part(frame, modifier, f"{site}/sw.js", "script", headers=header).status == 403


def test_a_take_down_holds_here_at_once(full: FullSite, site: str) -> None:
    """Of a part, and of the page with all that its origin answers; warm ETags help nobody (P-22)."""
    url = f"{site}/"
    page = full.page(url, HTML)
    full.builder.response(f"{site}/i.png", png(), mime="image/png", page_id=page)
    frame = full.frame(url)
    warm = [full.part(frame, *each) for each in (("im_", f"{site}/i.png", "image"), ("mp_", url, "iframe"))]
    with contextlib.closing(open_decisions(full.builder.layout)) as decisions:
        take_down(decisions, f"{site}/i.png")
        held = {"If-None-Match": warm[0]["ETag"]}
        assert full.part(frame, "im_", f"{site}/i.png", "image", headers=held).status == 451
        take_down(decisions, url)

    held = {"If-None-Match": warm[1]["ETag"]}
    assert [each.status for each in warm] == [200, 200]
    assert full.part(frame, "mp_", url, "iframe", headers=held).status == 451
    assert full.ask(frame, "/.weboid/full.js", "script").status == 451
    assert full.served.get(f"/full/{TS}/{url}").status == 451
    assert full.served.get(f"/full-view/{TS}/{url}").status == 451


FIXED = 14  # headers that every response ends with
MODIFIERS = ["", "mp_", "if_", "fr_", "im_", "js_", "cs_", "oe_", "esm_", "wkr_", "wkrf_", "wkrm_", "id_", "sw_", "xx_"]


def test_every_response_carries_the_policy_whatever_was_archived(full: FullSite, site: str) -> None:
    """Each modifier, status and type: the same fixed headers, and not one of sixty dangerous ones (P-12, P-17)."""
    full.page(f"{site}/", HTML)
    clean = tuple((name, value) for name, value in DANGEROUS if "\r" not in value)
    for status in (200, 404, 500):
        for name, mime in (
            ("h", "text/html"),
            ("j", "text/javascript"),
            ("s", "image/svg+xml"),
            ("o", "x/unknown"),
            ("p", "application/pdf"),
        ):
            full.builder.response(f"{site}/{name}{status}", b"<p>x", mime=mime, status=status, headers=clean)
    frame = full.frame(f"{site}/")
    origin = frame.split("/c/")[0]
    policy = FullPolicy(FullOrigins(f"http://*{origin[origin.index('.') :]}", b"x" * 16), full.served.front)
    allowed = {"cache-control", "etag", "memento-datetime", "accept-ranges", "content-type", "content-length", "location",
               "content-disposition", "date", "allow", "content-range"}  # fmt: skip

    seen = set()
    for modifier in MODIFIERS:
        for name in ("h200", "h404", "h500", "j200", "s200", "o200", "p200", "none"):
            for dest in ("iframe", "script", "document", "serviceworker"):
                answer = full.part(frame, modifier, f"{site}/{name}", dest)
                headers = [each for each in answer.headers if each[0] != "Date"]
                fixed = headers[-FIXED:]
                ours = ["sandbox allow-top" in dict(fixed)["Content-Security-Policy"]]
                nested = modifier in ("if_", "fr_") and not ours[0]
                shape = FullAnswer(answer.status, ours=ours[0], nested=nested)
                assert fixed == fixed_full_headers(policy, origin.removeprefix("http://"), shape)
                assert {key.lower() for key, _ in headers[:-FIXED]} <= allowed
                assert len({key.lower() for key, _ in headers}) == len(headers)
                seen.add(answer.status)
    assert {200, 303, 404, 500} <= seen


def test_methods_that_change_something_are_refused(full: FullSite, site: str) -> None:
    """A preflight is answered, so that a page may ask with headers of its own; POST never."""
    full.page(f"{site}/", HTML)
    frame = full.frame(f"{site}/")

    assert full.part(frame, "oe_", f"{site}/", "empty", method="OPTIONS").status == 204
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = full.part(frame, "oe_", f"{site}/", "empty", method=method)
        assert answer.status == 405
        assert "sandbox" in answer["Content-Security-Policy"]


GATE = FullPolicy(FullOrigins("https://*.copies.example", b"x" * 16), "https://front.example")
HOST = f"{'a' * 20}f0.copies.example"


@pytest.mark.parametrize(
    "answer",
    [FullAnswer(200, "text/html; charset=x; y", b"x"), FullAnswer(200, "", b"x"), FullAnswer(200, "multipart/x", b"x"),
     FullAnswer(302, headers=(("Location", "https://evil.example/"),)),
     FullAnswer(302, headers=(("Location", "/c/20260301120000mp_/javascript:x"),)),
     FullAnswer(302, headers=(("Location", "https://front.example.evil/full/20260301120000/https://a/"),), ours=True),
     FullAnswer(101), FullAnswer(299, "text/html", b"x")],
)  # fmt: skip
def test_what_is_not_foreseen_becomes_an_error(answer: FullAnswer) -> None:
    """A type, status or redirect that is on no list never reaches a reader."""
    head: list[object] = []
    gate = FullGate(lambda _: answer, GATE)

    body = gate({"REQUEST_METHOD": "GET", "HTTP_HOST": HOST}, lambda *args: head.extend(args))  # type: ignore[arg-type]

    assert head[0] == "500 Internal Server Error"
    assert list(body) == [b"This capture cannot be shown.\n"]


def test_an_application_that_fails_shows_nothing_of_itself() -> None:
    """A traceback would bypass the policy."""
    head: list[object] = []

    def failing(_: object) -> FullAnswer:
        raise RuntimeError("a secret path")

    body = FullGate(failing, GATE)(
        {"REQUEST_METHOD": "GET", "HTTP_HOST": HOST},
        lambda *args: head.extend(args),  # type: ignore[arg-type]
    )

    assert head[0] == "500 Internal Server Error"
    assert b"secret" not in b"".join(body)


def test_the_policy_word_for_word() -> None:
    """An archived response loads only from its own origin, data: and blob: URLs; a notice of ours loads nothing."""
    archived = dict(fixed_full_headers(GATE, HOST, FullAnswer(200)))["Content-Security-Policy"]
    ours = dict(fixed_full_headers(GATE, HOST, FullAnswer(200, ours=True)))
    own = f"https://{HOST}"

    assert archived == (
        f"sandbox allow-scripts; default-src {own} data: blob: 'unsafe-inline' 'unsafe-eval';"
        f" connect-src {own} data: blob:; frame-src {own} data: blob:; worker-src blob:; object-src {own};"
        " manifest-src 'none'; fenced-frame-src 'none'; form-action 'none';"
        f" base-uri {own}; frame-ancestors https://front.example; webrtc 'block'"
    )
    assert ours["Content-Security-Policy"] == (
        "sandbox allow-top-navigation-by-user-activation; default-src 'none';"
        " style-src 'unsafe-inline'; form-action 'none'; base-uri 'none';"
        " frame-ancestors https://front.example"
    )


def test_the_origins_of_public_copies_need_a_shared_secret(
    collection: CollectionBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay that somebody else starts could not know the hosts that this front makes up."""
    import asyncio

    from core.errors import ConfigError
    from playback.playback_server import ServerOrigins, serve

    monkeypatch.delenv("WEBOID_FULL_SECRET", raising=False)
    origins = ServerOrigins("https://a.example", "https://b.example")
    with pytest.raises(ConfigError, match="WEBOID_FULL_SECRET"):
        asyncio.run(serve(collection.layout, origins=origins, with_replay=False, full="https://*.c.example"))
    with pytest.raises(ConfigError, match="--full-origin"):
        asyncio.run(serve(collection.layout, origins=origins, full="local"))


JSON, FORM = "application/json; charset=utf-8", "application/x-www-form-urlencoded"


def request(body: bytes, content_type: str = JSON, method: str = "POST") -> BodyRequest:
    """Return the request as it was captured, with the parameters of its body."""
    return BodyRequest(method, body_parameters(content_type, body))


@pytest.mark.parametrize(
    ("content_type", "body", "parameters"),
    [
        (FORM, b"b=2&a=1&e=", (("a", "1"), ("b", "2"), ("e", ""))),
        (JSON, b'{"b": [1, {"c": null}], "a": "x"}', ((".a", "x"), (".b.0", "1"), (".b.1.c", "null"))),
        ("text/plain", b"just words", (("", "just words"),)),
        ("", b"", ()),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="q"; filename="f"\r\nContent-Type: a/b\r\n\r\n1\r\n--x--',
            (("q", "1"),),
        ),
    ],
)  # fmt: skip
def test_a_body_is_read_by_its_parameters(
    content_type: str, body: bytes, parameters: tuple[tuple[str, str], ...]
) -> None:
    """Whatever their order."""
    assert body_parameters(content_type, body) == parameters


@pytest.mark.parametrize(
    ("captured", "position"),
    [
        ([b'{"q":"tram"}', b'{"q":"bridge","at":0}', b'{"at":1,"q":"bridge"}'], 2),
        ([b'{"q":"bridge","at":1700000000000}'], None),  # the request has no moment there
        ([b'{"q":"bridge","at":2}'], None),
        ([b'{"q":"tram","at":1}'], None),
        ([], None),
    ],
)
def test_another_request_is_not_taken_for_it(captured: list[bytes], position: int | None) -> None:
    """A reader would see the answer to something that the page did not ask."""
    wanted = request(b'{"q":"bridge","at":1}')

    assert match_body(wanted, ((at, request(body)) for at, body in enumerate(captured))) == position
    assert match_body(wanted, [(0, BodyRequest("PUT", wanted.parameters))]) is None


def test_values_that_are_new_at_each_visit_may_differ() -> None:
    """A captured request that differs only in such values matches if it is the only one; of two none is chosen."""
    body = '{"q":"bridge","at":%d,"id":"%s-1111-2222-3333-444455556666"}'
    one, two, wanted = (request((body % (1700000000000 + at, f"0000000{at}")).encode()) for at in range(3))

    assert match_body(wanted, [("one", one)]) == "one"
    assert match_body(wanted, [("one", one), ("two", two)]) is None
    assert match_body(BodyRequest("POST", None), [("one", one)]) == "one"


@given(st.text(), st.binary(), st.text())
def test_any_query_and_any_body_are_read(url: str, body: bytes, content_type: str) -> None:
    """Marks that our scripts have not written belong to the URL."""
    body_parameters(content_type, body)
    assert parse_body_query(url) is None
    spoilt = f"{url}?__wb_method=POST&__wb_post_type=&__wb_post_data=%%%"
    assert parse_body_query(spoilt) == (url, BodyRequest("POST", ()))
