"""Operator's settings of a wiki: typed, bounded, and written back as they were."""

import json
from dataclasses import fields
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ConfigError
from tests.support.examples import examples
from wiki.settings import BotSettings, FeedSettings, WikiSettings, replace_settings, to_json

NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=9)
FEEDS = st.builds(
    FeedSettings,
    namespaces=st.lists(st.integers(0, 3000), max_size=4).map(tuple),
    categories=st.lists(NAMES, max_size=3).map(tuple),
    templates=st.lists(NAMES, max_size=3).map(tuple),
    properties=st.lists(st.sampled_from(["P31", "P31=Q5"]), max_size=3).map(tuple),
    item_api=st.sampled_from(["", "http://data.net/w/api.php"]),
    not_templates=st.lists(NAMES, max_size=3).map(tuple),
    grace_h=st.sampled_from([0.0, 24.0, 48.0, 0.5]),
    archive=st.booleans(),
    archived_days=st.integers(1, 1_000),
    account=NAMES,
)


@given(FEEDS, st.dictionaries(st.sampled_from(["servers", "is_private", "show"]), st.integers()))
@settings(max_examples=examples(30))
def test_settings_are_read_as_they_were_written(feed: FeedSettings, others: dict[str, Any]) -> None:
    """Only what differs from the default is written; other keys of the registry stay."""
    wiki_settings = WikiSettings(feed, BotSettings(enabled=True), {"language": "de"})
    merged = wiki_settings.merged_into(json.dumps({**others, "feed": {"batch": 7}}))
    assert WikiSettings.parse(json.dumps(merged)) == wiki_settings
    assert others.items() <= merged.items()
    assert merged["bot"] == {"enabled": True}
    assert WikiSettings().merged_into(json.dumps(merged)) == others


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"feed": {"namespace": [0]}}', "no feed.namespace"),
        ('{"bot": {"enable": true}}', "no bot.enable"),
        ('{"feed": []}', "must be an object"),
        ("[]", "must be an object"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"templates": 5}', "templates must be"),
        ('{"feed": {"namespaces": 0}}', "must be a list"),
        ('{"feed": {"namespaces": ["0"]}}', "whole number"),
        ('{"feed": {"namespaces": [-1]}}', "from 0"),
        ('{"feed": {"namespaces": [true]}}', "whole number"),
        ('{"feed": {"archived_days": -1}}', "from 0"),
        ('{"feed": {"archived_days": 1.5}}', "whole number"),
        ('{"feed": {"grace_h": -1}}', "from 0"),
        ('{"feed": {"grace_h": NaN}}', "number"),
        ('{"feed": {"grace_h": Infinity}}', "number"),
        ('{"feed": {"archive": "yes"}}', "true or false"),
        ('{"feed": {"archive": 1}}', "true or false"),
        ('{"feed": {"account": 5}}', "string"),
        ('{"feed": {"account": "a\\u0000b"}}', "string"),
        ('{"feed": {"categories": "Foo"}}', "list"),
        ('{"feed": {"properties": ["P31=Q5", "Q5"]}}', "feed.properties: 'Q5' is not a property"),
        ('{"feed": {"not_properties": ["P31="]}}', "'P31=' .* P31=Q5 with a value"),
        ('{"feed": {"item_api": "https://me:pw@data.net/api.php"}}', "without a password"),
        ('{"feed": {"item_api": "https://data.net/wiki/Q5"}}', "an api.php"),
        ('{"bot": {"talk": "always"}}', "never, beside, only"),
    ],
)
def test_what_is_misspelt_or_of_another_kind_is_refused(text: str, message: str) -> None:
    """A misspelt exclusion would archive what nobody wanted."""
    with pytest.raises(ConfigError, match=message):
        WikiSettings.parse(text)


def test_what_is_not_said_stays() -> None:
    """And what is said is held to the same rules."""
    feed = replace_settings(FeedSettings(grace_h=24), "feed", archive=False, grace_h=None, categories=("A",))
    assert (feed.archive, feed.grace_h, feed.categories) == (False, 24, ("A",))
    with pytest.raises(ConfigError):
        replace_settings(feed, "feed", archived_days=-1)


@pytest.mark.parametrize("kind", [FeedSettings, BotSettings])
def test_every_default_is_a_value_that_may_be_said(kind: type[Any]) -> None:
    """So that it can be written down; and what is as by default is not."""
    default = kind()
    assert to_json(default) == {}
    hints = get_type_hints(kind)
    for each in fields(kind):
        value = getattr(default, each.name)
        assert getattr(replace_settings(default, "x", **{each.name: value}), each.name) == value
        assert each.name in hints
