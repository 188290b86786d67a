"""URLs of a captures index of several machines: read once, never shown with the password."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.config.database_urls import IndexAddress, parse_index_url
from core.config.profile import parse_settings
from core.errors import ConfigError

REDIS = '[proxy]\ndedup_url = "redis://127.0.0.1"\n'


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://db.example/weboid", IndexAddress("db.example", "weboid")),
        ("postgres://db.example:5433/a%20b", IndexAddress("db.example", "a b", port=5433)),
        (
            "postgresql://me:p%40ss%2F@[::1]/x?index=wiki_2&sslmode=verify-full&sslrootcert=/ca.pem",
            IndexAddress(
                "::1", "x", username="me", password="p@ss/", index="wiki_2", sslmode="verify-full", ca_file="/ca.pem"
            ),
        ),
        ("postgresql://me@/x?host=/run/postgresql", IndexAddress("/run/postgresql", "x", username="me")),
    ],
)
def test_an_address_is_read(url: str, address: IndexAddress) -> None:
    """Each form of the setting gives its parts."""
    assert parse_index_url(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "mysql://db.example/x",
        "postgresql://db.example",
        "postgresql://db.example/",
        "postgresql:///x",
        "postgresql://db.example/x?host=/run",
        "postgresql:///x?host=run",
        "postgresql://db.example:port/x",
        "postgresql://db.example:70000/x",
        "postgresql://db.example/x?index=Name",
        "postgresql://db.example/x?index=pg_x",
        "postgresql://db.example/x?index=" + "a" * 41,
        'postgresql://db.example/x?index=a"b',
        "postgresql://db.example/x?sslmode=none",
        "postgresql://db.example/x?options=-cfoo",
        "postgresql://db.example/x#y",
        "postgresql://db.example/x%00y",
        "postgresql://[db.example/x",
    ],
)
def test_what_is_no_address_is_refused_by_its_key(url: str) -> None:
    """The error names the setting, and none of the library's words."""
    with pytest.raises(ConfigError, match=r"^\[index\] url"):
        parse_index_url(url)


@example("12/345")
@example("12?345")
@given(st.text(st.characters(codec="ascii", min_codepoint=33), min_size=6))
def test_a_password_is_never_shown(password: str) -> None:
    """Neither by the address nor by an error, however it was spelled."""
    secret = f"{password}Xyzzy"
    try:
        address = parse_index_url(f"postgresql://me:{secret}@db.example/x")
        shown = f"{address} {address!r}"
    except ConfigError as error:
        shown = str(error)
    assert "Xyzzy" not in shown


def test_a_shared_index_needs_a_shared_dedup_index() -> None:
    """A profile with the one and not the other is refused."""
    text = '[index]\nurl = "postgresql://db.example/x"\n'
    with pytest.raises(ConfigError, match=r"\[proxy\] dedup_url"):
        parse_settings(text)
    assert parse_settings(REDIS + text).index.url == "postgresql://db.example/x"
