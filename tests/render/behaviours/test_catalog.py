"""The tables of behaviours, and files that a profile names, are refused when they cannot be used."""

from pathlib import Path

import pytest

from core.config.settings import BehaviourSettings
from core.errors import ConfigError
from render.behaviours.catalog import load_behaviours, load_table


def test_every_rule_says_what_it_must() -> None:
    """A rule has a name, what is there, and what to press or what to hide; lists of selectors."""
    for rule in load_table("consent")["rule"]:
        assert rule["name"]
        assert rule["present"]
        assert rule.get("reject") or rule.get("hide"), rule["name"]
        for key, value in rule.items():
            assert key in ("name", "present", "reject", "settings", "save", "accept", "hide")
            assert key == "name" or (isinstance(value, list) and all(value))
    assert len({rule["name"] for rule in load_table("consent")["rule"]}) == len(load_table("consent")["rule"]) >= 30


def test_every_rule_of_a_platform_says_what_it_must() -> None:
    """A name, where its markup is documented, what is there, and what to press; lists of selectors."""
    rules = load_table("sites")["rule"]
    for rule in rules:
        assert rule["see"].startswith("https://")
        assert rule["present"]
        assert rule.get("press") or rule.get("repeat"), rule["name"]
        for key, value in rule.items():
            assert key in ("name", "see", "present", "press", "repeat")
            assert key in ("name", "see") or (isinstance(value, list) and all(value))
    assert len({rule["name"] for rule in rules}) == len(rules)


def test_words_are_written_as_they_are_compared() -> None:
    """In lower case, each once in its list."""
    for kind, listed in load_table("words").items():
        assert all(word == word.lower().strip() for word in listed), kind
        assert len(set(listed)) == len(listed), kind


@pytest.mark.parametrize(
    ("text", "message"), [("() => 1", "hosts"), ("// hosts: a b c/", "wrong.js"), (None, "cannot be read")]
)
def test_a_script_that_cannot_be_used_is_refused_by_name(tmp_path: Path, text: str | None, message: str) -> None:
    """No header, a header that names no host, no file."""
    script = tmp_path / "wrong.js"
    if text is not None:
        script.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=message):
        load_behaviours(BehaviourSettings(scripts=(str(script),)))


def test_a_behaviour_that_is_none_is_refused() -> None:
    """The error names those that there are."""
    with pytest.raises(ConfigError, match="known: consent, scroll"):
        load_behaviours(BehaviourSettings(run=("scrol",)))
