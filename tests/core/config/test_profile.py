"""Tests of `core.config.profile`."""

import dataclasses

import pytest

from core.config.profile import parse_settings, settings_from
from core.config.settings import Settings
from core.errors import ConfigError


def test_an_empty_profile_is_every_default() -> None:
    """Settings that a profile omits keep their defaults."""
    assert parse_settings("") == Settings()


def test_a_profile_changes_what_it_names_and_nothing_else() -> None:
    """Whole numbers do for seconds; lists and tables become values."""
    settings = parse_settings(
        '[visit]\ntimeout_s = 5\nfull_page = false\n[egress]\nallow = ["10.0.0.0/8"]\n'
        '[egress.resolve]\n"a.example" = "10.0.0.1"\n'
    )

    assert settings.visit == dataclasses.replace(Settings().visit, timeout_s=5.0, full_page=False)
    assert settings.egress.allow == ("10.0.0.0/8",)
    assert settings.egress.resolve == {"a.example": "10.0.0.1"}
    assert settings.proxy == Settings().proxy


def test_settings_survive_the_way_to_another_process() -> None:
    """They are sent as JSON values."""
    settings = parse_settings('[egress]\nallow = ["::1/128"]\n[proxy]\nprocesses = 3\n')

    assert settings_from(dataclasses.asdict(settings)) == settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[visit]\ntimeout = 5", "timeout"),
        ("[visitt]\n", "visitt"),
        ("visit = 5", "table"),
        ("[visit]\ntimeout_s = 'long'", "timeout_s"),
        ("[visit]\ntimeout_s = true", "timeout_s"),
        ("[visit]\nfull_page = 1", "full_page"),
        ("[visit]\ntimeout_s = -1.0", "zero or more"),
        ("[visit]\ntimeout_s = nan", "a finite number"),
        ("[visit]\ntimeout_s = inf", "a finite number"),
        ("[proxy]\nprocesses = 0", "at least 1"),
        ("[proxy]\nprocesses = 1.5", "processes"),
        ('[egress]\nallow = ["everything"]', "allow"),
        ("[egress]\nallow = [1]", "allow"),
        ('[egress]\nrefuse = ["10.0.0.1/8"]', "refuse"),
        ('[egress]\nblock = ["http://example.org"]', "host pattern"),
        ('[egress.resolve]\n"a.example" = "b.example"', "not an address"),
        ('[egress.resolve]\n"http://a.example" = "10.0.0.1"', "not a host"),
        ('[egress.via]\n"*" = "socks9://127.0.0.1:1080"', "not a proxy"),
        ('[egress.via]\n"a*b" = "direct"', "host pattern"),
        ("[egress]\nconnections_per_host = 0", "at least 1"),
        ('[policy]\nrobots = "yes"', "obey"),
        ('[policy]\nnoarchive = "Obey"', "noarchive"),
        ('[policy]\nrobots_agent = "Weboid/1.0"', "product token"),
        ("[visit\n", "TOML"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(text: str, words: str) -> None:
    """The error names the profile and the key; a typing error is never a default."""
    with pytest.raises(ConfigError, match=words) as caught:
        parse_settings(text, source="mine.toml")

    assert "mine.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[frontier]\norder = "lifo"', "order"),
        ("[frontier]\nlease_s = 0.0", "lease_s"),
        ("[scope]\ndepth = -2", "depth"),
        ('[scope]\nkind = "planet"', "kind"),
    ],
)
def test_a_word_or_number_that_means_nothing_is_refused(text: str, named: str) -> None:
    """The error names the key."""
    with pytest.raises(ConfigError, match=named):
        parse_settings(text)
