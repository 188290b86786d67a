"""Levels that a wiki's users ask for by the webhook, and those of its LocalSettings.php (A18, A19)."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.config.stored_level import StoredLevel
from core.errors import InputError
from core.layout import Layout
from links.registry.wikis import WikiName
from playback.access.decision_store import open_decisions
from playback.access.level_store import LevelStore
from playback.access.levels import Level, LevelActor, LevelRight, LevelScope, target_of
from weboid.app.wiki.wiki_intake import open_level_setter
from wiki.sync.webhook import LevelRequest, RefusedRequestError, SetLevel, SetWikiLevels, WikiLevelsRequest

LINK = "https://site.org/a"
WIKI = WikiName("handbook", "town")
OPERATOR = LevelActor("root")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Create a collection whose wiki's editors may set levels up to `html`."""
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    with closing(open_decisions(layout, "")) as store:
        now = SystemClock().now()
        right = LevelRight(0, WIKI.in_levels, "", LevelScope.LINK, Level.HTML, OPERATOR, now, "")
        LevelStore(store).allow(right)
    return layout


@pytest.fixture
def set_level(layout: Layout) -> Iterator[SetLevel]:
    """Yield the function that the webhook calls to set a level."""
    with open_level_setter(layout, "", SystemClock()) as setting:
        yield setting.set_level


def level_request(level: str | None, *, user: str = "Ann", url: str = LINK) -> LevelRequest:
    return LevelRequest(WIKI, user, url, level, "because")


async def test_an_editor_sets_a_link_s_level_and_takes_it_back(set_level: SetLevel, layout: Layout) -> None:
    """For that wiki's readers, in the editor's name."""
    assert await set_level(level_request("text")) == "text"
    with closing(open_decisions(layout, "")) as store:
        (rule,) = LevelStore(store).now().rules
    assert (rule.target.wiki, str(rule.actor)) == ("handbook.town", "Ann@handbook.town")
    assert await set_level(level_request(None)) == "images"
    assert await set_level(level_request(None)) == "images"  # there is nothing more to take back


async def test_an_editor_sets_how_much_of_a_link_is_recorded(set_level: SetLevel, layout: Layout) -> None:
    """A19: by the same right; what readers are shown stays as it was."""
    text = replace(level_request("text"), is_stored=True)
    assert await set_level(text) == "text"
    assert held(layout) == ("images", "text")
    with pytest.raises(RefusedRequestError, match="at most text"):
        await set_level(replace(text, level="everything"))
    with pytest.raises(InputError, match="known: text, no-media, everything"):
        await set_level(replace(text, level="html"))
    assert await set_level(replace(text, level=None)) == "everything"
    assert await set_level(replace(text, level=None)) == "everything"


async def test_no_editor_goes_further_than_the_wiki_may(set_level: SetLevel) -> None:
    """The webhook answers 403."""
    with pytest.raises(RefusedRequestError):
        await set_level(level_request("full"))


@pytest.mark.parametrize(
    "what",
    [
        LevelRequest(WIKI, "Ann", LINK, "everything", ""),
        LevelRequest(WIKI, "", LINK, "text", ""),
        LevelRequest(WIKI, "Ann", "javascript:alert(1)", "text", ""),
    ],
    ids=["level", "user", "url"],
)
async def test_what_is_none_is_refused_as_such(set_level: SetLevel, what: LevelRequest) -> None:
    """The webhook answers 400."""
    with pytest.raises(InputError) as raised:
        await set_level(what)
    assert not isinstance(raised.value, RefusedRequestError)


async def test_a_name_with_an_at_passes_for_nobody_else(set_level: SetLevel) -> None:
    """It would be another wiki's editor, or an operator."""
    with pytest.raises(InputError):
        await set_level(level_request("text", user="root@"))


@pytest.fixture
def set_wiki_levels(layout: Layout) -> Iterator[SetWikiLevels]:
    """Yield the function that the webhook calls with the levels of LocalSettings.php."""
    with open_level_setter(layout, "", SystemClock()) as setting:
        yield setting.set_wiki_levels


def allow_whole_wiki(layout: Layout) -> None:
    """Let the wiki decide on itself."""
    with closing(open_decisions(layout, "")) as store:
        now = SystemClock().now()
        right = LevelRight(0, WIKI.in_levels, "", LevelScope.WIKI, Level.HTML, OPERATOR, now, "")
        LevelStore(store).allow(right)


def held(layout: Layout) -> tuple[str, str]:
    """Return the level at which the link is shown to the wiki's readers, and the one at which it is recorded."""
    with closing(open_decisions(layout, "")) as store:
        rules = LevelStore(store).now()
    stored = rules.stored.ruling(LINK, WIKI.in_levels).level
    return rules.of(LINK, WIKI.in_levels), stored


async def test_local_settings_hold_for_the_wiki_until_they_are_taken_back(
    set_wiki_levels: SetWikiLevels, layout: Layout
) -> None:
    """A18: both kinds of level; nothing is written where nothing changes."""
    allow_whole_wiki(layout)
    for _ in range(3):
        await set_wiki_levels(WikiLevelsRequest(WIKI, "html", "text"))
    assert held(layout) == ("html", "text")
    with closing(open_decisions(layout, "")) as store:
        book = LevelStore(store)
        (shown,), (stored,) = book.history(), book.history(is_stored=True)
    assert {str(shown.actor), str(stored.actor)} == {"#LocalSettings.php@handbook.town"}

    await set_wiki_levels(WikiLevelsRequest(WIKI, None, "text"))
    assert held(layout) == ("images", "text")
    await set_wiki_levels(WikiLevelsRequest(WIKI, None, None))
    await set_wiki_levels(WikiLevelsRequest(WIKI, None, None))
    assert held(layout) == ("images", "everything")


async def test_local_settings_go_no_further_than_the_wiki_may(set_wiki_levels: SetWikiLevels, layout: Layout) -> None:
    """Without the right to itself a wiki decides on links only; no level above its most, none unknown."""
    with pytest.raises(InputError, match="--whole-wiki"):
        await set_wiki_levels(WikiLevelsRequest(WIKI, "text", None))
    allow_whole_wiki(layout)
    for shown, stored in (("full", None), (None, "everything"), ("loud", None), (None, "html")):
        with pytest.raises(InputError):
            await set_wiki_levels(WikiLevelsRequest(WIKI, shown, stored))
    assert held(layout) == ("images", "everything")


async def test_local_settings_leave_what_an_operator_decided(set_wiki_levels: SetWikiLevels, layout: Layout) -> None:
    """Neither changed nor, when they say nothing, taken back."""
    allow_whole_wiki(layout)
    with closing(open_decisions(layout, "")) as store:
        now = SystemClock().now()
        target = target_of(wiki=WIKI.in_levels)
        LevelStore(store).decide([target], StoredLevel.NO_MEDIA, actor=OPERATOR, now=now, is_stored=True)
    await set_wiki_levels(WikiLevelsRequest(WIKI, None, None))
    await set_wiki_levels(WikiLevelsRequest(WIKI, None, "no-media"))
    with pytest.raises(InputError, match="an operator"):
        await set_wiki_levels(WikiLevelsRequest(WIKI, None, "text"))
    assert held(layout) == ("images", "no-media")
