"""Levels that a wiki's users ask for by the bell (A19)."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.errors import InputError
from core.layout import Layout
from crawler.cli.wiki.levels import opened_levels
from links.books.wikis import WikiName
from playback.decisions.level_book import LevelBook
from playback.decisions.levels import Actor, Level, Right, Scope
from playback.decisions.store import open_decisions
from wiki.feeding.bell import LevelAsked, LevelRefusedError, SetLevel

LINK = "https://site.org/a"
WIKI = WikiName("handbook", "town")
OPERATOR = Actor("root")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A collection whose wiki's editors may go up to `html`."""
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    with closing(open_decisions(layout, "")) as store:
        now = SystemClock().now()
        right = Right(0, WIKI.in_levels, "", Scope.LINK, Level.HTML, OPERATOR, now, "")
        LevelBook(store).allow(right)
    return layout


@pytest.fixture
def set_level(layout: Layout) -> Iterator[SetLevel]:
    """What the bell calls."""
    with opened_levels(layout, "", SystemClock()) as setting:
        yield setting


def asked(level: str | None, *, user: str = "Ann", url: str = LINK) -> LevelAsked:
    return LevelAsked(WIKI, user, url, level, "because")


async def test_an_editor_sets_a_link_s_level_and_takes_it_back(
    set_level: SetLevel, layout: Layout
) -> None:
    """For that wiki's readers, in the editor's name."""
    assert await set_level(asked("text")) == "text"
    with closing(open_decisions(layout, "")) as store:
        (rule,) = LevelBook(store).now().rules
    assert (rule.target.wiki, str(rule.actor)) == ("handbook.town", "Ann@handbook.town")
    assert await set_level(asked(None)) == "images"
    assert await set_level(asked(None)) == "images"  # there is nothing more to take back


async def test_no_editor_goes_further_than_the_wiki_may(set_level: SetLevel) -> None:
    """The bell answers 403."""
    with pytest.raises(LevelRefusedError):
        await set_level(asked("full"))


@pytest.mark.parametrize(
    "what",
    [
        LevelAsked(WIKI, "Ann", LINK, "everything", ""),
        LevelAsked(WIKI, "", LINK, "text", ""),
        LevelAsked(WIKI, "Ann", "javascript:alert(1)", "text", ""),
    ],
    ids=["level", "user", "url"],
)
async def test_what_is_none_is_refused_as_such(set_level: SetLevel, what: LevelAsked) -> None:
    """The bell answers 400."""
    with pytest.raises(InputError) as raised:
        await set_level(what)
    assert not isinstance(raised.value, LevelRefusedError)


async def test_a_name_with_an_at_passes_for_nobody_else(set_level: SetLevel) -> None:
    """It would be another wiki's editor, or an operator."""
    with pytest.raises(InputError):
        await set_level(asked("text", user="root@"))
