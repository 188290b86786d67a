"""Checks of real sites: what is whole scores good, what was damaged is found and captured again by itself.

The pages are archived with the default profile. Then faults are planted, each on a page of its own, and
one command checks everything and repairs, while the sites are up: what it captured again it checks, too.
"""

import io
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from PIL import Image

from core.layout import Layout
from core.page_manifest import PageInfo, parse_pageinfo
from core.playback_check import QaVerdict
from qa.check_store import find_checks
from qa.check_table import CheckedPage, RepairState
from tests.support.commands import Ran, Weboid, profile_for
from tests.support.planted_faults import Held, Planted, held, plant
from tests.support.services.registries import open_registry
from tests.support.sites.web import TestWeb

pytestmark = [
    pytest.mark.real,
    pytest.mark.browser,
    pytest.mark.proxy,
    pytest.mark.playback,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]
DOCS, WIKI = "https://docs.test-web.example", "http://wiki.test-web.example"
APPS = "https://spa.test-web.example"
# Each fault's page, and three that no fault touches.
SHEET_GONE = f"{DOCS}/policy/ch-customized-programs.html"
SHEET_EMPTY = f"{APPS}/swagger/index.html?url=/specifications/jupyter-server.yaml&docExpansion=list"
DOM_EMPTY = f"{DOCS}/handbook/sect.ipv6.html"
DOM_CUT = f"{DOCS}/developers/pkgs.html"
DOM_OTHER = f"{DOCS}/handbook/sect.syslog.html"
DOM_ERROR = f"{DOCS}/handbook/sect.office-suites.html"
WORDS_GARBLED = f"{WIKI}/wiki/Virtualization"
COVERED = f"{WIKI}/wiki/Package_Meta-Information"
ALL_GONE = f"{WIKI}/wiki/Network_Diagnosis_Tools"
FILE_SWAPPED = f"{DOCS}/pdf/developers-reference.pdf"
UNTOUCHED = (f"{DOCS}/handbook/sect.knoppix.html", f"{WIKI}/wiki/Special:ListFiles", f"{DOCS}/pdf/policy.pdf")
_DAMAGED = (
    SHEET_GONE, SHEET_EMPTY, DOM_EMPTY, DOM_CUT, DOM_OTHER, DOM_ERROR, WORDS_GARBLED, COVERED,
    ALL_GONE, FILE_SWAPPED,
)  # fmt: skip
# Of every other kind of page one; two have a picture that no other page has, in which faults are planted.
_OTHERS = (
    f"{DOCS}/handbook/sect.master-plan.html",
    f"{DOCS}/handbook/sect.regular-upgrades.html",
    f"{WIKI}/index.php?title=Main_Page&action=history",
    f"{APPS}/pdf/web/viewer.html?file=/manuals/fhs-3.0.pdf",
    f"{DOCS}/reference/ch12.en.html",
)
_LARGE_PICTURE_BYTES = 8_000
_WALL = (
    "<div style='position:fixed;top:0;left:0;width:100%;height:100%;background:#333'>"
    "<div style='margin:120px auto;width:480px;padding:32px;background:#fff;font:18px sans-serif'>"
    "We value your privacy. Accept all cookies to go on.</div></div></body>"
)


@dataclass(frozen=True)
class Kept:
    """A collection at rest."""

    weboid: Weboid
    layout: Layout

    def manifests(self) -> dict[str, PageInfo]:
        """The newest manifest of each URL."""
        found: dict[str, PageInfo] = {}
        for each in held(self.layout.archive):
            if each.uri.startswith("urn:pageinfo:") and b'"checked": {' not in each.payload:
                page = parse_pageinfo(each.payload)
                if page.url not in found or page.captured_at > found[page.url].captured_at:
                    found[page.url] = page
        return found

    def checked(self, page_ids: Iterable[str]) -> dict[str, CheckedPage]:
        """What the registry has of these pages at the default level."""
        with closing(open_registry(self.layout, "")) as store, store.reading() as rows:
            return {
                each.check.page_id: each for each in find_checks(rows, list(page_ids)) if each.check.level == "images"
            }


@pytest.fixture(scope="module")
def archived(real_web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Real pages of every kind, archived with the default profile, with which repairs are made, too."""
    folder = tmp_path_factory.mktemp("real")
    profile = profile_for(real_web, folder / "profile.toml", quality={"repair_profile": "default"})
    weboid = Weboid(folder, profile)
    ran = weboid.archive(*_DAMAGED, *UNTOUCHED, *_OTHERS)
    assert ran.code == 0, ran.err
    return Kept(weboid, Layout(weboid.collection))


def qa(kept: Kept, *arguments: str) -> Ran:
    """`weboid qa` with the profile."""
    profile = ("--profile", str(kept.weboid.profile))
    return kept.weboid.run("qa", "--json", *profile, *arguments)


def events(ran: Ran, name: str) -> list[dict[str, Any]]:
    """Its events of that kind."""
    return [each for each in ran.events if each["event"] == name]


def pictured(kept: Kept) -> list[tuple[str, str]]:
    """Pages that nothing else is done to, each with its largest picture that no other page has."""
    sizes = {
        each.uri: len(each.payload)
        for each in held(kept.layout.archive)
        if each.kind == "response" and each.mime in ("image/png", "image/jpeg")
    }
    manifests = kept.manifests()
    users = Counter(url for page in manifests.values() for url in {it.url for it in page.resources})
    found = {}
    for url, page in sorted(manifests.items()):
        own = {it.url for it in page.resources if it.resource_type == "Image" and users[it.url] == 1}
        large = [each for each in own if sizes.get(each, 0) >= _LARGE_PICTURE_BYTES]
        if large and url in _OTHERS:
            found[url] = max(large, key=lambda each: sizes[each])
    return list(found.items())


def dom_of(url: str, change: Any, name: str) -> Planted:
    """A fault in the final DOM of a page."""
    return Planted(name, lambda each: each.uri == f"urn:dom:{url}", change)


def garbled(each: Held) -> bytes:
    """Every word another one."""
    text = each.payload.decode()
    swap = str.maketrans("aeioulnrst", "uoaeirstln")
    return re.sub(r">[^<]+<", lambda found: found[0].translate(swap), text).encode()


def other_picture(each: Held) -> bytes:
    """A picture of the same size that shows something else."""
    with Image.open(io.BytesIO(each.payload)) as image:
        size = image.size
    other = Image.effect_mandelbrot(size, (-2, -1.2, 1, 1.2), 60).convert("RGB")
    out = io.BytesIO()
    other.save(out, "PNG")
    return out.getvalue()


def faults(kept: Kept) -> tuple[dict[str, str], list[Planted]]:
    """The page of each fault by its name, and the faults."""
    (swapped_page, swapped), (gone_page, gone) = pictured(kept)[:2]
    knoppix = next(each.payload for each in held(kept.layout.archive) if each.uri == f"urn:dom:{UNTOUCHED[0]}")
    pages = {
        "sheet gone": SHEET_GONE,
        "sheet emptied": SHEET_EMPTY,
        "picture swapped": swapped_page,
        "picture gone": gone_page,
        "DOM emptied": DOM_EMPTY,
        "DOM cut": DOM_CUT,
        "DOM of another page": DOM_OTHER,
        "DOM of an error": DOM_ERROR,
        "words garbled": WORDS_GARBLED,
        "covered": COVERED,
        "document gone": ALL_GONE,
        "file swapped": FILE_SWAPPED,
    }

    def sheet_of(page: str) -> Any:
        folder = page.rpartition("/")[0]
        return lambda each: each.kind == "response" and each.mime == "text/css" and each.uri.startswith(folder)

    def ends_with(path: str) -> Any:
        return lambda each: each.kind == "response" and each.uri.endswith(path)

    error = b"<html><head></head><body><h1>503 Service Unavailable</h1></body></html>"
    return pages, [
        Planted("sheet gone", sheet_of(SHEET_GONE)),
        Planted("sheet emptied", ends_with("/swagger-ui.css"), lambda _: b""),
        Planted("picture swapped", ends_with(swapped), other_picture),
        Planted("picture gone", ends_with(gone)),
        dom_of(DOM_EMPTY, lambda _: b"<html><head></head><body></body></html>", "DOM emptied"),
        dom_of(DOM_CUT, lambda each: each.payload[: len(each.payload) // 3], "DOM cut"),
        dom_of(DOM_OTHER, lambda _: knoppix, "DOM of another page"),
        dom_of(DOM_ERROR, lambda _: error, "DOM of an error"),
        dom_of(WORDS_GARBLED, garbled, "words garbled"),
        dom_of(COVERED, lambda each: each.payload.replace(b"</body>", _WALL.encode()), "covered"),
        Planted("document gone", lambda each: each.uri in (ALL_GONE, f"urn:dom:{ALL_GONE}")),
        Planted("file swapped", ends_with("/developers-reference.pdf"), lambda _: b"%PDF-1.4\nanother\n%%EOF\n"),
    ]


def test_planted_faults_are_found_and_repaired_by_themselves(archived: Kept) -> None:
    """One command finds each, captures the page again, once, and offers that; what is whole is good.

    Whole are pages that nothing was planted in, and each page as it was captured again.
    """
    before = archived.manifests()
    pages, planted = faults(archived)
    took = plant(archived.layout, planted)
    assert set(took) == set(pages)
    rebuilt = archived.weboid.run("collection", "rebuild")
    assert rebuilt.code == 0, rebuilt.err
    ran = qa(archived, "--all", "--repair")

    old = archived.checked(page.page_id for page in before.values())
    untouched = {
        url: (check.verdict, check.score, check.reason)
        for url, page in before.items()
        for check in [old[page.page_id].check]
        if url not in pages.values() and check.verdict is not QaVerdict.GOOD
    }
    assert untouched == {}, ran.err
    missed = {
        name: old[before[url].page_id].check
        for name, url in pages.items()
        if old[before[url].page_id].check.verdict is not QaVerdict.BROKEN
    }
    assert missed == {}, ran.err
    after = archived.manifests()
    repairs = {name: old[before[url].page_id] for name, url in pages.items()}
    assert {name: each.repair for name, each in repairs.items()} == dict.fromkeys(pages, RepairState.DONE_BETTER), (
        ran.err
    )
    new = archived.checked(each.repair_page_id for each in repairs.values())
    assert {name: new[each.repair_page_id].check.verdict for name, each in repairs.items()} == dict.fromkeys(
        pages, QaVerdict.GOOD
    )
    assert {name: after[url].page_id for name, url in pages.items()} == {
        name: each.repair_page_id for name, each in repairs.items()
    }
    # The same command again finds nothing to do.
    again = qa(archived, "--all", "--repair")
    assert (events(again, "check"), events(again, "repaired")) == ([], [])
    assert archived.manifests() == after
