"""Credentials of a wiki, read from files that nobody else can read."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from wiki.api.credentials import WikiCredentials, check_login, read_account, read_secret, split_basic
from wiki.api.models import LoggedOutError, ThrottledError
from wiki.api.transport import ApiRequest

TOKEN = "eyJ0eXAiOiJKV1QiLCJhbGciOiJ.eyJhdWQiOiI2ZjZkNjE2ZTQ1.c2lnbmF0dXJlLXNpZ25hdHVyZQ"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return an empty file that only its owner can read."""
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    return path


def test_what_a_file_holds_is_told_by_its_form(file: Path) -> None:
    """A bot password, or a token, with Bearer before it or without."""
    file.write_text("0123456789abcdef0123456789abcdef\n")
    assert read_account("A@b", file) == WikiCredentials("A@b", "0123456789abcdef0123456789abcdef")
    for text in (TOKEN, f"Bearer {TOKEN}\n"):
        file.write_text(text)
        assert read_account("", file) == WikiCredentials(token=TOKEN)
    file.write_text("me:pass:word")
    assert read_account("", None, basic_file=file) == WikiCredentials(basic="me:pass:word")
    assert read_account("", None) == WikiCredentials()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o777])
def test_a_file_that_others_reach_is_refused(file: Path, mode: int) -> None:
    """With the command that mends it."""
    file.write_text("secret")
    file.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_secret(file)


@pytest.mark.parametrize("content", [b"", b"  \n", b"a\nb", b"\xff\xfe", b"x" * 20_000, b"a\0b"], ids=len)
def test_a_file_without_one_line_is_refused(file: Path, content: bytes) -> None:
    """And what it holds is not shown."""
    file.write_bytes(content)
    with pytest.raises(ConfigError) as raised:
        read_secret(file)
    assert "xxx" not in str(raised.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """With its name."""
    with pytest.raises(ConfigError, match="nothing"):
        read_secret(tmp_path / "nothing")


def test_what_does_not_go_together_is_refused(file: Path) -> None:
    """A password without a name, a name without a password, two secrets for one header."""
    file.write_text("a" * 32)
    with pytest.raises(ConfigError, match="name"):
        read_account("", file)
    with pytest.raises(ConfigError, match="password"):
        read_account("A@b", None)
    with pytest.raises(ConfigError, match="user:password"):
        read_account("A@b", file, basic_file=file)
    with pytest.raises(ConfigError, match="same header"):
        WikiCredentials(token="t", basic="a:b")


def test_no_secret_is_shown() -> None:
    """Logs and tracebacks show an account's text."""
    shown = repr([WikiCredentials("A@b", "pw-secret", "", "u:basic-secret"), WikiCredentials(token="token-secret")])
    assert "secret" not in shown


@pytest.mark.parametrize(
    ("url", "plain", "basic"),
    [
        ("https://a.org/x?y#z", "https://a.org/x?y#z", ""),
        ("https://u:p@a.org:8/x", "https://a.org:8/x", "u:p"),
        ("https://u@a.org/", "https://a.org/", "u:"),
        ("https://u:p%3A%40@a.org/@b", "https://a.org/@b", "u:p:@"),
    ],
)
def test_a_password_in_an_address_is_taken_out(url: str, plain: str, basic: str) -> None:
    """Only what stands before the host is one."""
    assert split_basic(url) == (plain, basic)


@pytest.mark.parametrize(
    ("login", "why"),
    [
        ({"result": "Failed", "reason": "Wrong\x1b[2J."}, "Failed: Wrong"),
        ({"result": "Aborted", "reason": {"code": "x", "text": "No"}}, "Aborted: No"),
        ({"result": "NeedToken"}, "NeedToken"),
        ({}, "None"),
        (None, "no login result"),
        ([], "no login result"),
    ],
    ids=str,
)
def test_why_a_login_failed_is_told(login: object, why: str) -> None:
    """In whichever format."""
    check_login({"login": {"result": "Success"}}, host="a.org", name="A@b")
    with pytest.raises(LoggedOutError, match=why) as raised:
        check_login({"login": login}, host="a.org", name="A@b")
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize(
    ("login", "wait"),
    [
        ({"result": "Throttled", "wait": 60}, 60),
        ({"result": "Throttled", "wait": -1}, 300),
        ({"result": "Failed", "reason": {"code": "login-throttled", "text": "Too many."}}, 300),
    ],
    ids=str,
)
def test_who_may_not_try_again_yet_is_told_when(login: object, wait: int) -> None:
    """The password may be right."""
    with pytest.raises(ThrottledError) as raised:
        check_login({"login": login}, host="a.org", name="A@b")
    assert raised.value.retry_s == wait


def test_a_questions_text_shows_no_password() -> None:
    """Neither what it sends as a form nor its head."""
    question = ApiRequest("POST", "https://w.test/", {"lgpassword": "s3"}, {"Authorization": "s3"})

    assert "s3" not in repr(question)
