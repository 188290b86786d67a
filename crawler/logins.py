"""The logins of a run, opened: which of them a page is visited with."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from core.errors import ConfigError, InputError
from core.settings import LoginSettings
from crawler.login_file import Key, Login, read_head, read_key_file, read_login, unseal
from render.session import covers


class Logins:
    """Opened logins; the first that names a page's host is the page's."""

    def __init__(self, logins: Sequence[Login] = ()) -> None:
        self._logins = tuple(logins)

    def __repr__(self) -> str:
        return f"<Logins [{', '.join(each.name for each in self._logins)}]>"

    def __len__(self) -> int:
        return len(self._logins)

    def of(self, url: str) -> Login | None:
        """The login that the page is visited with; None: without one."""
        return next((each for each in self._logins if covers(each.hosts, url)), None)


NO_LOGINS = Logins()


def open_logins(
    folder: Path,
    settings: LoginSettings,
    *,
    now: datetime,
    ask: Callable[[], Key],
    warn: Callable[[str], None],
) -> Logins:
    """The logins that the settings name.

    Args:
        folder: where their files lie.
        settings: which, and the key file.
        now: the time; what has expired is left out.
        ask: the passphrase, called at most once, and only when a login needs it.
        warn: told in a sentence what has expired.

    Raises:
        InputError: one of them is not there, or does not open.
        ConfigError: there is no key file, or others can read it.
    """
    keys: dict[str, Key] = {}
    opened = []
    for name in settings.names:
        data = read_login(folder, name)
        kind = read_head(data).key
        if kind not in keys:
            keys[kind] = _key(kind, name, settings, ask)
        login = unseal(data, keys[kind])
        if login.name != name:
            raise InputError(f"The file of the login {name} is that of {login.name}: rename it.")
        opened.append(_alive(login, now=now, warn=warn))
    return Logins(opened)


def _key(kind: str, name: str, settings: LoginSettings, ask: Callable[[], Key]) -> Key:
    if kind != "file":
        return ask()
    if not settings.key_file:
        raise ConfigError(
            f"The login {name} was made with a key file: name it as [login] key_file."
        )
    return read_key_file(Path(settings.key_file))


def _alive(login: Login, *, now: datetime, warn: Callable[[str], None]) -> Login:
    """The login without what has expired."""
    session = login.session.alive(now.timestamp())
    gone, left = len(login.session.cookies) - len(session.cookies), len(session.cookies)
    if gone:
        advice = "" if left else f": make it anew with weboid login URL --name {login.name}"
        warn(f"Of the login {login.name} {gone} cookies have expired, {left} are left{advice}.")
    return replace(login, session=session)
