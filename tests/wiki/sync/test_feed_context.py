"""A wiki that renamed itself is fed again once somebody says that it is the same one."""

import asyncio
from pathlib import Path

import pytest

from links.check_history import day_of
from tests.wiki.sync.conftest import opened
from tests.wiki.sync.model import FACTS
from tests.wiki.sync.test_wiki_feed import ModelledFeed
from wiki.api.models import SiteFacts
from wiki.sync.feed_context import WikiRenamedError
from wiki.sync.registration import WikiRegistration, put_wiki

NEW = SiteFacts(
    *("newname", "Model", (1, 43), "en", "https://model.net", "https://model.net/$1"), namespaces=FACTS.namespaces
)


def test_adding_a_renamed_wiki_again_lets_its_feed_go_on(tmp_path: Path) -> None:
    """Its pages, cursors and settings stay; only its new name is taken as its own."""
    store = opened(tmp_path)
    fed = ModelledFeed(store)
    page_id = fed.model.edit("A", "https://a.net/")
    fed.work()
    fed.model.facts_now = NEW
    fed.model.edit("A", "https://b.net/")
    fed.clock.advance(hours=2)
    with pytest.raises(WikiRenamedError):
        asyncio.run(fed.feed.round())

    with store.writing() as rows:
        put_wiki(rows, WikiRegistration(fed.wiki.url, NEW), day=day_of(fed.clock.now()))
    fed.work()

    assert fed.links(page_id) == ["https://b.net/"]
    store.close()
