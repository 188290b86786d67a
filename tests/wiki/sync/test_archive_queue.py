"""Pages that want to break the feeder, on both databases: they keep no other page from being read."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from links.registry.database import RegistryStore
from links.registry.wikis import feeds_of
from tests.wiki.sync.model import FACTS
from tests.wiki.sync.test_wiki_feed import ModelledFeed
from wiki.api.models import SiteFacts
from wiki.sync import archive_queue, page_import
from wiki.sync.feed_context import SyncServices
from wiki.sync.page_import import Cite
from wiki.sync.wiki_feed import WikiFeed


def test_a_wiki_that_names_itself_oddly_is_fed(store: RegistryStore) -> None:
    """Its database, its server and its templates may be called anything."""
    fed = ModelledFeed(store)
    fed.model.facts_now = SiteFacts(*("a\0\ud800", "", (), "xx\0", "\0", ""), namespaces=FACTS.namespaces)
    fed.model.edit("Template:\ud800\0", "https://a.net/")
    fed.model.edit("A", "https://a.net/", uses=["Template:\ud800\0"])
    fed.work()
    fed.clock.advance(hours=7)
    fed.work()

    assert fed.known() == ["A"]
    with store.snapshot() as reader:
        assert feeds_of(reader, fed.wiki.id)["changes"].trouble == ""


def test_a_feeder_works_on_both_databases(store: RegistryStore) -> None:
    """Saves, removals, deletions, leases and sweeps, from the change to the archive."""
    fed = ModelledFeed(store)
    first = fed.model.edit("A", "https://a.net/", "https://b.net/")
    fed.model.edit("B", "https://c.net/")
    fed.work()
    fed.model.edit("A", "https://b.net/")
    fed.model.delete("B")
    fed.work()
    fed.clock.advance(days=8)
    done = fed.work()
    fed.feed.context.give_back()
    asyncio.run(fed.feeder("second").round())

    assert (fed.known(), fed.links(first)) == (["A"], ["https://b.net/"])
    assert set(fed.taken()) == {"https://a.net/", "https://b.net/", "https://c.net/"}
    assert done[-1].sweep is not None
    assert done[-1].sweep.is_done


@pytest.mark.parametrize("seam", ["cite", "put", "hand on"])
def test_internal_error_over_one_page_keeps_no_other_from_being_read(
    store: RegistryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seam: str
) -> None:
    """The feed goes on, past that page; the log has the traceback."""

    def faulty(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if "bad.net" in repr((args, kwargs)):
                raise OverflowError("int too large")
            return real(*args, **kwargs)

        return call

    if seam == "put":
        monkeypatch.setattr(page_import, "_put_page", faulty(page_import._put_page))
    if seam == "hand on":
        monkeypatch.setattr(archive_queue, "archivable_url", faulty(archive_queue.archivable_url))
    fed = ModelledFeed(store)
    nothing: Cite = lambda _text: ()  # noqa: E731
    cite = faulty(nothing) if seam == "cite" else nothing
    shared = SyncServices(store, fed.archive, fed.clock, "test", lambda *_: cite)
    fed.feed = WikiFeed(fed.wiki, fed.model, shared)
    fed.model.edit("Good 1", "https://good.net/1", text="good")
    fed.model.edit("Bad", "https://bad.net/", text="[https://bad.net/]")
    fed.model.edit("Good 2", "https://good.net/2")
    fed.work()

    assert {"https://good.net/1", "https://good.net/2"} <= set(fed.taken())
    assert "OverflowError: int too large" in caplog.text
