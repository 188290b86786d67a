"""A login at rest: encrypted, for its owner alone, opened by its key and by nothing else."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, strategies
from hypothesis import settings as budget

from core.config.settings import LoginSettings
from core.errors import ConfigError, InputError
from crawler.capture.site_logins import (
    LoginKey,
    make_key_file,
    open_logins,
    passphrase_key,
    read_key_file,
    read_login,
    read_login_head,
    seal_login,
    unseal_login,
    write_login,
)
from render.sign_in import Login, SiteLogins, SiteSession

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEY = LoginKey("file", bytes(32))
COOKIE = {"name": "sid", "value": "s3cr3t", "domain": "wiki.example.org", "path": "/"}
LOGIN = Login("wiki", ("wiki.example.org",), NOW, session=SiteSession((COOKIE,), {"https://wiki.example.org": {}}))


def opened(folder: Path, *names: str, key: LoginKey = KEY, warnings: list[str] | None = None) -> SiteLogins:
    """Open the logins of a folder as a run does."""
    warned = [] if warnings is None else warnings
    settings = LoginSettings(names, "" if key.kind == "passphrase" else str(folder / "key"))
    return open_logins(folder, settings, now=NOW, ask=lambda: key, warn=warned.append)


@given(
    strategies.lists(strategies.dictionaries(strategies.text(), strategies.text(), max_size=3)),
    strategies.dictionaries(
        strategies.text(), strategies.dictionaries(strategies.text(), strategies.text(), max_size=2)
    ),
)
def test_what_was_sealed_is_what_is_opened(cookies: list[dict[str, str]], storage: dict[str, dict[str, str]]) -> None:
    """Whatever a site had stored, lone surrogates as well."""
    login = Login("a", ("a.example",), NOW, session=SiteSession(tuple(cookies), storage))
    unsealed = unseal_login(seal_login(login, KEY), KEY)

    assert (unsealed.name, unsealed.hosts, unsealed.made_at) == (login.name, login.hosts, login.made_at)
    assert unsealed.session == login.session


def test_no_secret_can_be_read_in_the_file_or_in_a_message() -> None:
    """The head names hosts, the rest is sealed; a second sealing looks different."""
    data = seal_login(LOGIN, KEY)

    assert b"s3cr3t" not in data
    assert b"sid" not in data
    assert read_login_head(data).hosts == ("wiki.example.org",)
    assert json.loads(data)["sealed"] != json.loads(seal_login(LOGIN, KEY))["sealed"]
    assert "s3cr3t" not in repr(LOGIN)
    assert "x" * 9 not in repr(passphrase_key("x" * 9))


@given(strategies.data())
@budget(suppress_health_check=[HealthCheck.too_slow])
def test_a_file_that_was_changed_does_not_open(data: strategies.DataObject) -> None:
    """A host added, a date, a byte of what is sealed: the reader says so, and gives nothing."""
    document = json.loads(seal_login(LOGIN, KEY))
    key = data.draw(strategies.sampled_from(sorted(document)))
    value = document[key]
    if isinstance(value, list):
        changed: object = [*value, "evil.example"]
    elif isinstance(value, str) and value:
        at = data.draw(strategies.integers(0, len(value) - 1))
        changed = value[:at] + ("A" if value[at] != "A" else "B") + value[at + 1 :]
    else:
        changed = 7
    text = json.dumps({**document, key: changed}).encode()

    if key == "sealed" and value.rstrip("=")[:-1] == str(changed).rstrip("=")[:-1]:
        return  # the last digit may hold bits that mean nothing
    with pytest.raises(InputError):
        unseal_login(text, KEY)


def test_another_passphrase_opens_nothing_and_the_next_step_is_said(tmp_path: Path) -> None:
    """The message names the login; a key of another kind is told apart."""
    right = passphrase_key("correct horse")
    write_login(tmp_path, LOGIN, right)

    assert opened(tmp_path, "wiki", key=right).of("https://wiki.example.org/a") is not None
    with pytest.raises(InputError, match="wiki cannot be decrypted: the passphrase differs"):
        opened(tmp_path, "wiki", key=passphrase_key("battery staple"))
    with pytest.raises(InputError, match="made with a passphrase"):
        unseal_login(read_login(tmp_path, "wiki"), KEY)
    with pytest.raises(InputError, match="at least 8"):
        passphrase_key("short")


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Mode 0600 in a folder of mode 0700; a key that others can read is not used."""
    path = write_login(tmp_path / "logins", LOGIN, make_key_file(tmp_path / "key"))

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert unseal_login(path.read_bytes(), read_key_file(tmp_path / "key")).session == LOGIN.session
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_key_file(tmp_path / "key")
    with pytest.raises(ConfigError):
        make_key_file(tmp_path / "key")


def test_a_login_is_for_the_hosts_that_it_names() -> None:
    """Exactly, or all below; of two the first is used."""
    wide = Login("wide", ("*.example.org",), NOW)
    logins = SiteLogins([LOGIN, wide])
    of = {
        url: login.name if (login := logins.of(url)) else ""
        for url in (
            "https://wiki.example.org/a",
            "http://wiki.example.org:8080/",
            "https://example.org/",
            "https://a.wiki.example.org/",
            "https://wiki.example.org.evil.example/",
            "https://evilexample.org/",
            "https://wiki.example.org@evil.example/",
            "nonsense",
        )
    }

    assert list(of.values()) == ["wiki", "wiki", "wide", "wide", "", "", "", ""]


def test_expired_cookies_are_left_out_and_told(tmp_path: Path) -> None:
    """A login of which nothing is left says how to make it again."""
    old, new = NOW - timedelta(days=1), NOW + timedelta(days=1)
    for name, dates in (("some", (old, new)), ("none", (old,))):
        cookies = tuple(
            {**COOKIE, "name": str(number), "expires": date.timestamp()} for number, date in enumerate(dates)
        )
        login = Login(name, LOGIN.hosts, NOW, session=SiteSession(cookies))
        write_login(tmp_path, login, passphrase_key("correct horse"))
    warnings: list[str] = []
    logins = opened(tmp_path, "some", "none", key=passphrase_key("correct horse"), warnings=warnings)

    assert warnings[0] == "1 cookies of the login some have expired, 1 are left."
    assert "create it again with weboid login URL --name none" in warnings[1]
    first = logins.of("https://wiki.example.org/")
    assert first is not None
    assert [each["name"] for each in first.session.cookies] == ["1"]


def test_a_login_that_is_not_there_or_is_none_is_refused_by_name(tmp_path: Path) -> None:
    """Also a name that leads elsewhere, another's file under that name, and what is no login at all."""
    write_login(tmp_path, LOGIN, passphrase_key("correct horse"))
    (tmp_path / "other.login").write_bytes((tmp_path / "wiki.login").read_bytes())
    (tmp_path / "empty.login").write_bytes(b"{}")
    for name, message in (
        ("none", "There is no login 'none'"),
        ("../wiki", "not a name for a login"),
        ("other", "contains the login wiki"),
        ("empty", "not a login file"),
    ):
        with pytest.raises(InputError, match=message):
            opened(tmp_path, name, key=passphrase_key("correct horse"))


def test_leave_to_trust_any_certificate_is_part_of_what_is_sealed() -> None:
    """It cannot be added to a login that was made without it, nor taken away unseen."""
    lenient = seal_login(replace(LOGIN, unverified_tls=True), KEY)
    changed = json.loads(seal_login(LOGIN, KEY))
    changed["unverified_tls"] = True

    assert unseal_login(lenient, KEY).unverified_tls
    assert not unseal_login(seal_login(LOGIN, KEY), KEY).unverified_tls
    with pytest.raises(InputError, match="cannot be decrypted"):
        unseal_login(json.dumps(changed).encode(), KEY)
