"""URLs of a shared dedup index; the password is never shown."""

import pytest

from core.config.database_urls import RedisUse, parse_redis_url
from core.config.profile import parse_settings
from core.errors import ConfigError


def test_an_address_is_shown_without_its_secrets() -> None:
    """Neither `str` nor `repr` holds user or password."""
    address = parse_redis_url("rediss://us%40er:p%2Fss@example.org:7000/3?index=wiki&ca=/ca.pem", RedisUse.DEDUP)

    assert (address.username, address.password) == ("us@er", "p/ss")
    assert str(address) == "rediss://example.org:7000/3"
    assert "p/ss" not in repr(address)
    assert (address.number, address.name, address.ca_file) == (3, "wiki", "/ca.pem")


@pytest.mark.parametrize(
    ("url", "place", "tag"),
    [
        ("redis://a", "redis://a:6379/0", "{weboid:weboid}"),
        ("redis://[::1]:7/2?index=x}{y", "redis://[::1]:7/2", "{weboid:x%7D%7By}"),
        ("unix:///run/redis.sock?db=4", "unix:///run/redis.sock?db=4", "{weboid:weboid}"),
    ],
)
def test_what_an_address_leaves_out_has_its_default(url: str, place: str, tag: str) -> None:
    """Port 6379, database 0, the index called weboid; no name breaks the hash tag."""
    address = parse_redis_url(url, RedisUse.DEDUP)

    assert (str(address), address.tag) == (place, tag)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter/2@host/0",
        "redis://:hunter#2@host/0",
        "redis://:hunter?2@host/0",
        "redis://:[hunter]2@host/0",
        "redis://:hunter2\N{CARE OF}@host/0",
        "redis://user:hunter2@/0",
        "redis://user:hunter2@host:port/0",
        "redis://user:hunter2@host/zero",
        "redis://user:hunter2@host/0?idx=a",
        "redis://user:hunter2@host/0?index=",
        "redis://user:hunter2@host/0#index",
        "redis://user:hunter2@host/0?ca=x",
        "redis://user:hunter2@host/\u00b2",
        "postgresql://user:hunter2@host/0",
        "unix://user:hunter2@host/path",
        "hunter2",
    ],
)
def test_a_bad_address_is_refused_without_quoting_it(url: str) -> None:
    """The password may be anywhere in what cannot be read."""
    with pytest.raises(ConfigError, match="dedup_url") as refused:
        parse_redis_url(url, RedisUse.DEDUP)

    assert "hunter" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_a_profile_with_a_bad_address_is_refused() -> None:
    """Before anything starts, and without quoting it."""
    with pytest.raises(ConfigError, match="dedup_url") as refused:
        parse_settings('[proxy]\ndedup_url = "redis://:hunter/2@host/0"')

    assert "hunter" not in str(refused.value)
