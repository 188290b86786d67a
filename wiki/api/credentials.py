"""Credentials for a wiki: bot password, OAuth 2 token, HTTP basic authentication.

A secret is read from a file that only its owner can read. Its kind is recognised by its form:

    0123456789abcdef0123456789abcdef     bot password (Special:BotPasswords), for the name USER@APP
    weboid@0123456789abcdef…             the same in its older form, for the name USER
    eyJ0eXAiOiJKV1Qi….….…                owner-only OAuth 2 access token, for any name or none
"""

import base64
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from core.errors import ConfigError
from wiki.api.models import LoggedOutError, ThrottledError

SECRET_LIMIT_BYTES: Final = 16_384
LOGIN_THROTTLE_S: Final = 300.0  # the seconds of MediaWiki's $wgPasswordAttemptThrottle
_NAME_LIMIT: Final = 255
_TOKEN = re.compile(r"[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")


@dataclass(frozen=True)
class WikiCredentials:
    """Credentials of an account; its repr shows no secret."""

    name: str = ""  # ``User@app`` for a bot password; only a label when there is a token
    password: str = field(default="", repr=False)  # a bot password; empty without one
    token: str = field(default="", repr=False)  # an OAuth 2 access token; empty without one
    basic: str = field(default="", repr=False)  # ``user:password`` of the web server (RFC 7617)

    def __post_init__(self) -> None:
        if self.password and (not self.name.strip() or len(self.name) > _NAME_LIMIT):
            raise ConfigError("A bot password needs its account's name, such as Repairer@weboid.")
        if self.token and self.basic:
            raise ConfigError(
                "A token and a password of the server in front cannot go together: both are sent "
                "in the same header. Take a bot password for the wiki."
            )

    @property
    def is_anybody(self) -> bool:
        """Return True if the wiki can identify the account."""
        return bool(self.password or self.token)

    @property
    def has_secret(self) -> bool:
        """Return True if requests carry a secret."""
        return bool(self.password or self.token or self.basic)

    def headers(self) -> dict[str, str]:
        """Return the headers for requests to the wiki's own server."""
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        if self.basic:
            packed = base64.b64encode(self.basic.encode()).decode("ascii")
            return {"Authorization": f"Basic {packed}"}
        return {}


def read_account(name: str, password_file: Path | None, *, basic_file: Path | None = None) -> WikiCredentials:
    """Read an account's secret files; raises ConfigError if one is missing, readable by others or invalid."""
    basic = read_secret(basic_file) if basic_file is not None else ""
    if basic and ":" not in basic:
        raise ConfigError(f"{basic_file} must hold one line, user:password.")
    if password_file is None:
        if name:
            raise ConfigError(f"The account {name[:80]} needs its password: name its file.")
        return WikiCredentials(basic=basic)
    secret = read_secret(password_file).removeprefix("Bearer ")
    if _TOKEN.fullmatch(secret):
        return WikiCredentials(name, token=secret, basic=basic)
    return WikiCredentials(name, password=secret, basic=basic)


def read_secret(path: Path) -> str:
    """Read a one-line secret from a file; raises ConfigError unless only its owner can read it."""
    try:
        with path.expanduser().open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                raise ConfigError(f"{path} can be read by others: `chmod 600 {path}`.")
            text = file.read(SECRET_LIMIT_BYTES + 1).decode("utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text.") from error
    if not text or len(text) > SECRET_LIMIT_BYTES or not text.isprintable():
        raise ConfigError(f"{path} must hold one line: a password or a token.")
    return text


def split_basic(url: str) -> tuple[str, str]:
    """Split user and password off a URL; return (url, ``user:password``).

    >>> split_basic("https://me:a%3Ab@wiki.example:8443/api.php")
    ('https://wiki.example:8443/api.php', 'me:a:b')
    """
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, ""
    user, _, password = userinfo.partition(":")
    plain = urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment))
    return plain, f"{unquote(user)}:{unquote(password)}"


def check_login(answer: Any, *, host: str, name: str) -> None:
    """Check ``action=login``; raises LoggedOutError, or ThrottledError, which may also hit a correct password."""
    value = answer.get("login") if isinstance(answer, dict) else None
    if not isinstance(value, dict):
        value = {"result": "its answer has no login result"}
    if value.get("result") == "Success":
        return
    reason, code = value.get("reason"), ""
    if isinstance(reason, dict):
        code = str(reason.get("code"))
        reason = reason.get("text") or reason.get("*") or code
    why = f"{value.get('result')}: {reason}" if reason else f"{value.get('result')}"
    why = " ".join("".join(c if c.isprintable() else " " for c in why[:500]).split()).rstrip(".")
    if "throttled" in code or value.get("result") == "Throttled":
        wait = value.get("wait")
        wait_s = float(wait) if isinstance(wait, int) and 0 < wait <= 86_400 else LOGIN_THROTTLE_S
        raise ThrottledError(f"{host} refuses further logins for a while: {why}.", retry_s=wait_s)
    raise LoggedOutError(
        f"{host} does not accept the account {name}: {why}. Make a bot password at "
        "Special:BotPasswords; the name is then USER@APP."
    )
