"""warcprox's protocol: one contract for stock warcprox and ours; then what only ours promises."""

import base64
import json
import os
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from bench.certificate import write_certificate
from bench.proxy import REFERENCE_PYTHON, child
from core.config.settings import EgressSettings, ProxySettings, Settings
from core.hosts import join_host_port
from core.layout import Layout
from proxy.archiving_proxy import ListenAddress
from proxy.control.client import ProxyClient
from proxy.process import RunningProxy, run_proxy
from render.chromium import find_browser
from tests.support.polling import wait_until
from tests.support.proxy_fixtures import ROOT, BrowserResponse, ProxyBrowser, ScriptedOrigin, check, ok, records

pytestmark = pytest.mark.proxy

API = ListenAddress()


@dataclass(frozen=True)
class WrittenRecord:
    """A record as a client of warcprox finds it."""

    kind: str
    url: str
    filename: str
    content_type: str
    payload: bytes
    block: bytes


@dataclass
class WarcproxService:
    """A service that speaks warcprox's protocol, and the folder of its WARCs."""

    port: int
    folder: Path
    origin: ScriptedOrigin
    secure: ScriptedOrigin

    def ask(
        self, path: str, meta: Any = None, *, method: str = "GET", headers: str = "", body: bytes = b""
    ) -> BrowserResponse:
        """Send one request through it on a connection of its own; `path` of the origin, or a whole target."""
        if meta is not None:
            headers += f"Warcprox-Meta: {json.dumps(meta)}\r\n"
        url = f"http://127.0.0.1:{self.origin.port}{path}" if path.startswith("/") else path
        browser = ProxyBrowser(self.port)
        try:
            return browser.ask(method, url, headers=headers, body=body)
        finally:
            browser.close()

    def write(
        self, url: str, *, headers: str = "", meta: Any = None, method: str = "WARCPROX_WRITE_RECORD"
    ) -> BrowserResponse:
        """Send a record of four bytes."""
        return self.ask(url, meta, method=method, headers=f"Content-Type: text/plain\r\n{headers}", body=b"text")

    def records(self, ending: str) -> list[WrittenRecord]:
        """Return the records, except requests, whose URL has that ending; wait for the first."""
        matches: list[WrittenRecord] = []

        def is_there() -> bool:
            matches[:] = [each for each in self._all() if each.url.endswith(ending) and each.kind != "request"]
            return bool(matches)

        wait_until(is_there)
        return matches

    def archive(self, path: str, meta: Any) -> list[WrittenRecord]:
        """Send one request and return its records, once the service also has counted it and knows its payload."""
        before = self.status()["urls_processed"]
        self.ask(path, meta)
        wait_until(lambda: self.status()["urls_processed"] > before)
        return self.records(path)

    def status(self) -> Any:
        """Ask for the status."""
        browser = ProxyBrowser(self.port)
        try:
            return json.loads(browser.ask("GET", "/status").body)
        finally:
            browser.close()

    def _all(self) -> Iterator[WrittenRecord]:
        for path in sorted(self.folder.glob("*.warc*")):
            if not path.exists():  # it was closed, and renamed, after it was listed
                path = path.with_suffix("")  # noqa: PLW2901
            with path.open("rb") as file:
                try:
                    for each in ArchiveIterator(file, no_record_parse=False):
                        head = each.rec_headers
                        url = head.get_header("WARC-Target-URI") or ""
                        block = each.http_headers.to_str().encode() if each.http_headers else b""
                        body = each.content_stream().read()
                        kind = head.get_header("Content-Type") or ""
                        yield WrittenRecord(each.rec_type, url, path.name, kind, body, block)
                except ArchiveLoadFailed:  # its end is being written
                    return


@pytest.fixture(scope="module")
def origins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScriptedOrigin, ScriptedOrigin, Path]]:
    """Yield a plain and a TLS origin, and the certificate."""
    certificate = write_certificate(tmp_path_factory.mktemp("tls") / "origin.pem", "127.0.0.1")
    plain, secure = ScriptedOrigin(), ScriptedOrigin(certificate)
    for each in (plain, secure):
        each.answers["/same"] = ok(b"the same payload in both services", mime="text/plain")
    yield plain, secure, certificate
    plain.close()
    secure.close()


def our_settings(certificate: Path) -> Settings:
    """Return settings under which the origins are reachable."""
    return Settings(
        egress=EgressSettings(allow=("127.0.0.0/8", "::1"), ca_file=str(certificate)),
        proxy=ProxySettings(disk_reserve_bytes=0),
    )


@pytest.fixture(scope="module", params=["stock", "ours"])
def service(
    request: pytest.FixtureRequest,
    origins: tuple[ScriptedOrigin, ScriptedOrigin, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[WarcproxService]:
    """Stock warcprox, and ours."""
    folder = tmp_path_factory.mktemp(request.param)
    plain, secure, certificate = origins
    with ExitStack() as stack:
        if request.param == "stock":
            stock = child("bench.stock_warcprox", str(folder), "0.2", python=REFERENCE_PYTHON)
            port, _ = map(int, stack.enter_context(stock).split())
            yield WarcproxService(port, folder, plain, secure)
        else:
            layout = Layout(folder / "collection")
            layout.databases.mkdir(parents=True)
            running = stack.enter_context(
                run_proxy(layout, our_settings(certificate), control=folder / "control", warcprox_api=API)
            )
            assert running.warcprox_api is not None
            yield WarcproxService(running.warcprox_api.server_address[1], layout.archive, plain, secure)


def test_status_describes_a_service_of_the_role_warcprox(service: WarcproxService) -> None:
    """Clients find out by the role what they speak to, and balance by the load."""
    facts = service.status()

    assert facts["role"] == "warcprox"
    assert facts["port"] == service.port
    assert {"load", "host", "version", "queued_urls", "urls_processed", "warc_bytes_written", "rates_15min"} <= {*facts}


@pytest.mark.parametrize(("method", "header", "kind"), [
    ("WARCPROX_WRITE_RECORD", "WARC-Type: resource\r\n", "resource"),
    ("WARCPROX_WRITE_RECORD", "WARC-Type: metadata\r\n", "metadata"),
    ("PUTMETA", "", "metadata"),
])  # fmt: skip
def test_a_record_is_written_as_it_was_sent(service: WarcproxService, method: str, header: str, kind: str) -> None:
    """The target, which may be of any scheme, the type and the block are the client's."""
    url = f"screenshot:https://example.org/{method}/{kind}"
    answer = service.write(url, headers=header, method=method)
    (record,) = service.records(url)

    assert answer.status == 204
    assert (record.kind, record.content_type, record.payload) == (kind, "text/plain", b"text")


def test_a_record_without_its_type_is_refused(service: WarcproxService) -> None:
    """WARC-Type, Content-Type and Content-Length are required."""
    assert service.write("screenshot:https://example.org/untyped").status == 400


def test_a_prefix_names_the_file(service: WarcproxService) -> None:
    """Captures and records alike."""
    service.ask("/prefixed", {"warc-prefix": "special"})
    service.write("thumbnail:https://example.org/p", headers="WARC-Type: resource\r\n", meta={"warc-prefix": "special"})

    assert {each.filename.split("-")[0] for each in service.records("/prefixed")} == {"special"}
    assert {each.filename.split("-")[0] for each in service.records("org/p")} == {"special"}


def test_the_prefix_of_a_dash_archives_nothing(service: WarcproxService) -> None:
    """The response is relayed."""
    answer = service.ask("/unarchived", {"warc-prefix": "-"})
    service.ask("/after-unarchived")
    service.records("/after-unarchived")

    assert answer.status == 200
    assert not [each for each in service._all() if each.url.endswith("/unarchived")]


@pytest.mark.parametrize("prefix", ["../up", "a/b", "a\\b"])
def test_a_prefix_with_a_slash_is_a_bad_request(service: WarcproxService, prefix: str) -> None:
    """It would name a file elsewhere."""
    assert service.ask("/slash", {"warc-prefix": prefix}).status == 400


@pytest.mark.parametrize("name", ["dedup-bucket", "captures-bucket", "dedup-buckets"])
def test_payloads_are_shared_within_a_bucket(service: WarcproxService, name: str) -> None:
    """The second is a revisit; in another bucket it is a response."""

    def meta(bucket: str) -> dict[str, Any]:
        return {name: {bucket: "rw"} if name == "dedup-buckets" else bucket}

    kinds = []
    for number, bucket in enumerate((f"{name}-a", f"{name}-a", f"{name}-b")):
        path = f"/same?{name}{number}"
        kinds += [each.kind for each in service.archive(path, meta(bucket))]

    assert kinds == ["response", "revisit", "response"]


def test_a_bucket_that_is_only_read_gets_nothing(service: WarcproxService) -> None:
    """Payloads are looked up there, and not added."""
    kinds = []
    for number, buckets in enumerate(({"read": "ro"}, {"read": "ro"}, {"read": "rw"}, {"own": "rw", "read": "ro"})):
        path = f"/same?read-only-{number}"
        kinds += [each.kind for each in service.archive(path, {"dedup-buckets": buckets})]

    assert kinds == ["response", "response", "response", "revisit"]


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_blocked_url_is_refused_with_the_rule(service: WarcproxService, is_compressed: bool) -> None:
    """403, and the origin is not asked."""
    rules = [{"domain": "bad.example"}, {"substring": "blocked"}]
    packed = base64.b64encode(zlib.compress(json.dumps(rules).encode())).decode()
    meta = {"compressed_blocks": packed} if is_compressed else {"blocks": rules}
    before = len(service.origin.requests)
    answer = service.ask("/blocked", meta)

    assert answer.status == 403
    assert json.loads(answer.headers["warcprox-meta"]) == {"blocked-by-rule": {"substring": "blocked"}}
    assert answer.body.startswith(b"request rejected by warcprox: blocked by rule found in Warcprox-Meta header")
    assert len(service.origin.requests) == before
    assert service.ask("/allowed", meta).status == 200


@pytest.mark.parametrize(("name", "status"), [("limits", 420), ("soft-limits", 430)])
def test_a_reached_limit_is_answered_with_its_counters(service: WarcproxService, name: str, status: int) -> None:
    """The answer has what was counted; the origin is not asked."""
    bucket = f"job-{name}"
    meta = {"stats": {"buckets": [bucket]}, name: {f"{bucket}/total/urls": 2, "other/total/urls": 1}}
    for number in range(2):
        assert service.ask(f"/{name}/{number}", meta).status == 200
    answers = []

    def is_reached() -> bool:
        answers.append(service.ask(f"/{name}/more", meta))
        return answers[-1].status == status  # stock may fail meanwhile: its database is locked for a moment

    wait_until(is_reached)
    response_meta = json.loads(answers[-1].headers["warcprox-meta"])
    reached = "reached-soft-limit" if status == 430 else "reached-limit"

    assert response_meta[reached] == {f"{bucket}/total/urls": 2}
    assert response_meta["stats"][bucket]["total"]["urls"] >= 2
    assert response_meta["stats"][bucket]["total"]["wire_bytes"] > 0
    assert {*response_meta["stats"][bucket]} == {"bucket", "total", "new", "revisit"}


def test_domains_of_a_bucket_have_counters_of_their_own(service: WarcproxService) -> None:
    """`tally-domains`: a limit of BUCKET:DOMAIN counts the domain's requests only."""
    meta = {
        "stats": {"buckets": [{"bucket": "by-domain", "tally-domains": ["localhost", "example.org"]}]},
        "limits": {"by-domain:localhost/total/urls": 1},
    }
    url = f"http://localhost:{service.origin.port}/domain"
    assert service.ask(url, meta).status == 200
    wait_until(lambda: service.ask(f"{url}/more", meta).status == 420)
    assert service.ask("/domain/address", meta).status == 200


def test_capture_metadata_comes_with_the_response(service: WarcproxService) -> None:
    """`accept`: the moment of the capture, in seconds; it is not in the archive."""
    answer = service.ask("/moment", {"accept": ["capture-metadata"]})
    moment = json.loads(answer.headers["warcprox-meta"])["capture-metadata"]["timestamp"]
    (record,) = service.records("/moment")

    assert len(moment) == len("2026-01-01T00:00:00Z")
    assert b"warcprox-meta" not in record.block.lower()


@pytest.mark.parametrize(("kind", "regex", "is_archived"), [
    ("REJECT", "text/html", False), ("REJECT", "video/", True), ("LIMIT", "text/", True), ("LIMIT", "video/", False),
])  # fmt: skip
def test_responses_of_filtered_types_are_not_archived(
    service: WarcproxService, kind: str, regex: str, is_archived: bool
) -> None:
    """`mime-type-filters`: REJECT names what is not archived, LIMIT what is."""
    path = f"/filtered/{kind}/{regex.replace('/', '')}"
    answer = service.ask(path, {"mime-type-filters": [{"type": kind, "regex": regex}]})
    service.ask(f"{path}/after")
    for each in (path, f"{path}/after") if is_archived else (f"{path}/after",):
        service.records(each)  # waits; several threads write

    assert answer.status == 200
    assert any(each.url.endswith(path) for each in service._all()) is is_archived


def test_the_header_goes_no_further(service: WarcproxService) -> None:
    """Neither the origin nor the archive sees Warcprox-Meta."""
    service.archive("/secretive", {"metadata": {"job": "of the client"}})
    (request,) = (each for each in service._all() if each.kind == "request" and each.url.endswith("/secretive"))

    assert b"warcprox-meta" not in service.origin.requests[-1].lower()
    assert b"warcprox-meta" not in request.block.lower()


def test_requests_in_a_tunnel_have_the_header_too(service: WarcproxService) -> None:
    """The prefix of a request by https."""
    browser = ProxyBrowser(service.port)
    browser.tunnel(f"127.0.0.1:{service.secure.port}")
    answer = browser.ask("GET", "/tunnelled", headers='Warcprox-Meta: {"warc-prefix":"inside"}\r\n', tunnel=True)
    browser.close()
    (record,) = service.records("/tunnelled")

    assert answer.status == 200
    assert record.url.startswith("https://")
    assert record.filename.startswith("inside-")


@pytest.fixture
def start(
    origins: tuple[ScriptedOrigin, ScriptedOrigin, Path], tmp_path: Path
) -> Iterator[Callable[[], tuple[WarcproxService, RunningProxy]]]:
    """Start our proxy on one collection, on the same port again."""
    plain, secure, certificate = origins
    layout = Layout(tmp_path / "collection")
    layout.databases.mkdir(parents=True)
    ports = [0]
    with ExitStack() as stack:

        def starter() -> tuple[WarcproxService, RunningProxy]:
            stack.close()
            running = stack.enter_context(
                run_proxy(
                    layout,
                    our_settings(certificate),
                    control=tmp_path / f"control{ports[0]}",
                    warcprox_api=ListenAddress(port=ports[0]),
                )
            )
            assert running.warcprox_api is not None
            ports[0] = running.warcprox_api.server_address[1]
            return WarcproxService(ports[0], layout.archive, plain, secure), running

        yield starter


Starter = Callable[[], tuple[WarcproxService, RunningProxy]]


@pytest.mark.parametrize("header", ["Origin: null\r\n", "Sec-Fetch-Site: same-origin\r\n"])
def test_a_script_writes_no_record(start: Starter, header: str) -> None:
    """Browsers name the origin of what a script sends with a method of its own."""
    service, _ = start()
    answer = service.write("http://origin.example/forged", headers=f"WARC-Type: resource\r\n{header}")

    assert answer.status == 403
    assert not [*service._all()]


def test_in_a_tunnel_there_is_neither_status_nor_record(start: Starter) -> None:
    """There ``/status`` is a page of the origin; records are refused."""
    service, _ = start()
    browser = ProxyBrowser(service.port)
    browser.tunnel(f"127.0.0.1:{service.secure.port}")
    status = browser.ask("GET", "/status", tunnel=True)
    record = browser.ask("PUTMETA", "/x", headers="Content-Type: text/plain\r\n", body=b"forged", tunnel=True)
    browser.close()

    assert status.body == b"nothing here"
    assert record.status == 403
    assert len(service.records("/status")) == 1


def test_names_of_our_own_records_are_refused(start: Starter) -> None:
    """A manifest is written by visits only."""
    service, _ = start()

    assert service.write("urn:pageinfo:http://x.example/", headers="WARC-Type: resource\r\n").status == 400


async def test_a_page_of_a_visit_does_not_reach_the_listener(start: Starter, tmp_path: Path) -> None:
    """Though loopback addresses are allowed; nor does a client's own page."""
    service, running = start()
    async with ProxyClient(tmp_path / "control0").visit("p", bucket="b") as visit:
        browser = ProxyBrowser(running.proxy.server_address[1], visit.credentials.username, visit.credentials.password)
        by_visit = browser.get(f"http://127.0.0.1:{service.port}/status")
        browser.close()
        await visit.seal(grace_s=0)
    by_client = service.ask(f"http://127.0.0.1:{service.port}/status")

    assert (by_visit.status, by_client.status) == (403, 403)


def test_the_listener_for_visits_knows_no_client_without_credentials(start: Starter) -> None:
    """The addresses differ in what they ask for."""
    _, running = start()
    browser = ProxyBrowser(running.proxy.server_address[1])
    answer = browser.ask("GET", "http://origin.example/status")
    browser.close()

    assert answer.status == 407


def test_counters_survive_a_restart(start: Starter) -> None:
    """A limit counts what was archived before."""
    meta = {"stats": {"buckets": ["lasting"]}, "limits": {"lasting/total/urls": 1}}
    service, _ = start()
    assert service.ask("/lasting", meta).status == 200
    service, _ = start()

    assert service.ask("/lasting/more", meta).status == 420


def test_a_record_is_on_disk_and_in_the_index_when_it_is_acknowledged(start: Starter) -> None:
    """Stock answers when the record is queued."""
    service, _ = start()
    service.write("screenshot:http://x.example/", headers="WARC-Type: resource\r\n")

    assert [each.url for each in service._all() if each.kind == "resource"] == ["screenshot:http://x.example/"]


@pytest.mark.parametrize(
    "meta", ["{", "[]", '{"limits":{"x":1}}', '{"blocks":[{"no":"rule"}]}', '{"compressed_blocks":"eA=="}']
)
def test_an_invalid_header_is_a_bad_request(start: Starter, meta: str) -> None:
    """Nothing is requested with rules that were not understood."""
    service, _ = start()

    assert service.ask("/x", headers=f"Warcprox-Meta: {meta}\r\n").status == 400


def test_many_prefixes_keep_few_files_open(start: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are closed; all are whole."""
    monkeypatch.setattr("proxy.archivist.FILES_LIMIT", 4)
    service, running = start()
    for number in range(8):
        service.ask(f"/many/{number}", {"warc-prefix": f"job{number}"})
    for number in range(8):
        service.records(f"/many/{number}")
    running.proxy.archivist.flush()

    assert len([*service.folder.glob("job*.open")]) <= 4
    assert {each.filename.split("-")[0] for each in service._all() if "/many/" in each.url} == {
        f"job{n}" for n in range(8)
    }


@pytest.mark.slow
@pytest.mark.browser
def test_brozzler_archives_a_site(origins: tuple[ScriptedOrigin, ScriptedOrigin, Path], tmp_path: Path) -> None:
    """As it is on PyPI: pages and what they load, screenshots, thumbnails, its prefix and blocks."""
    plain, _, certificate = origins
    plain.answers["/site/"] = ok(
        b"<!doctype html><img src=/site/red.png><img src=/blocked.png><a href=/site/second>go</a>"
    )
    plain.answers["/site/second"] = ok(b"<!doctype html><p>second")
    plain.answers["/site/red.png"] = ok(b"\x89PNG\r\n", mime="image/png")
    layout = Layout(tmp_path / "collection")
    layout.databases.mkdir(parents=True)
    settings = our_settings(certificate)
    egress = replace(settings.egress, resolve={"site.example": f"127.0.0.1:{plain.port}"})
    settings = replace(settings, egress=egress)
    before = len(plain.requests)
    with run_proxy(layout, settings, control=tmp_path / "control", warcprox_api=API) as running:
        assert running.warcprox_api is not None
        proxy = join_host_port(*running.warcprox_api.reached_at)
        chrome = str(find_browser().path)
        subprocess.run(
            [REFERENCE_PYTHON, "-m", "tests.support.brozzler_site", proxy, "http://site.example/site/", chrome],
            check=True,
            timeout=200,
            stdout=subprocess.DEVNULL,  # its log; what stops it is on standard error
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "BROZZLER_EXTRA_CHROME_ARGS": "--no-sandbox"},
        )
    check(layout)
    all_records = records(layout)

    assert {each.url for each in all_records if each.kind == "response"} >= {
        "http://site.example/site/",
        "http://site.example/site/red.png",
        "http://site.example/site/second",
    }
    assert {each.url for each in all_records if each.kind == "resource"} >= {
        f"{kind}:http://site.example/site/{page}" for kind in ("screenshot", "thumbnail") for page in ("", "second")
    }
    assert {each.filename.split("-")[0] for each in all_records} == {"brozzled"}
    assert not [each for each in plain.requests[before:] if b"/blocked.png" in each.split(b"\r\n", 1)[0]]
