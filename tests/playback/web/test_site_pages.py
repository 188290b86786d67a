"""The Atom feed of the front: entries, changes, conditional requests, and what never appears."""

from contextlib import closing
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import feedparser
import pytest

from core.page_classes import PageClass
from core.timestamps import timestamp14
from playback.access.decision_store import open_decisions
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind, add_takedowns
from tests.support.archive_openapi import check_response
from tests.support.playback_fixtures import NOW, ServedCollection

pytestmark = pytest.mark.playback


def entries(served: ServedCollection, site: str, query: str = "") -> list[dict[str, Any]]:
    """Return the feed's entries for that site, read as feed readers do."""
    reply = served.get(f"/feed.atom?host={urlsplit(site).hostname}{query}")
    check_response("/feed.atom", reply.status)
    assert reply["Content-Type"] == "application/atom+xml"
    read = feedparser.parse(reply.body)
    assert not read.bozo, read
    assert read.version == "atom10"
    assert {"title", "id", "updated", "author"} <= set(read.feed)
    return list(read.entries)


def test_the_feed_lists_copies_newest_first(served: ServedCollection, site: str) -> None:
    """Hostile titles are text; each entry leads to its copy; pages without a copy are left out."""
    hostile = "<script>alert(1)</script> & \x0b]]>"
    served.builder.page(f"{site}/1", "<p>one", title="One")
    served.builder.page(f"{site}/2", "<p>two", title=hostile, at=NOW + timedelta(hours=1))
    served.builder.page(f"{site}/3", "<p>bot?", page_class=PageClass.CHALLENGE, at=NOW + timedelta(hours=2))

    two, one = entries(served, site)

    assert one["title"] == "One"
    assert one["link"].endswith(f"/page/{timestamp14(NOW)}/{site}/1")
    assert datetime.fromisoformat(one["updated"]) == NOW.replace(microsecond=0)
    assert "alert(1)" in two["title"]
    assert served.get(urlsplit(one["link"]).path).status == 200


def test_the_feed_of_changes_has_only_pages_with_another_text(served: ServedCollection, site: str) -> None:
    """The first capture and an equal one are no change; the entry links to the differences."""
    for day, text in enumerate(("first", "first", "second")):
        served.builder.page(f"{site}/", "<p>x", text=text, at=NOW + timedelta(days=day))

    (changed,) = entries(served, site, "&changes=1")

    last, before = (timestamp14(NOW + timedelta(days=day)) for day in (2, 1))
    assert changed["link"].endswith(f"/page/{last}/{site}/")
    related = next(each["href"] for each in changed["links"] if each["rel"] == "related")
    assert urlsplit(related).path == f"/changes/{before}/{last}/{site}/"
    assert served.get(urlsplit(related).path).status == 200
    assert len(entries(served, site)) == 3


def test_an_unchanged_feed_is_not_sent_again(served: ServedCollection, site: str) -> None:
    """ETag and Last-Modified; a new page makes a new feed."""
    served.builder.page(f"{site}/1", "<p>one")
    address = f"/feed.atom?host={urlsplit(site).hostname}"
    first = served.get(address)
    again = served.get(address, headers={"If-None-Match": first["ETag"]})
    served.builder.page(f"{site}/2", "<p>two", at=NOW + timedelta(hours=1))
    later = served.get(address, headers={"If-None-Match": first["ETag"]})

    assert (again.status, again.body, later.status) == (304, b"", 200)
    assert first["Last-Modified"] == NOW.strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert served.get("/").text.count('type="application/atom+xml" href="/feed.atom"') == 1


def test_what_is_taken_down_is_in_no_feed(served: ServedCollection, site: str) -> None:
    """Neither hidden nor blocked captures; a change is named beside the capture before that readers may see."""
    for day, text in enumerate(("first", "hidden", "blocked", "last")):
        served.builder.page(f"{site}/", "<p>x", text=text, title=text, at=NOW + timedelta(days=day))
    with closing(open_decisions(served.builder.layout)) as decisions:
        for day, effect in ((1, TakedownEffect.HIDE), (2, TakedownEffect.BLOCK)):
            moment = timestamp14(NOW + timedelta(days=day))
            taken = Takedown(0, TakedownKind.CAPTURE, f"{site}/", moment, effect, "", "", "me", NOW, None)
            add_takedowns(decisions, [taken])

    assert [each["title"] for each in entries(served, site)] == ["last", "first"]
    (changed,) = entries(served, site, "&changes=1")
    last, first = (timestamp14(NOW + timedelta(days=day)) for day in (3, 0))
    related = next(each["href"] for each in changed["links"] if each["rel"] == "related")
    assert urlsplit(related).path == f"/changes/{first}/{last}/{site}/"
