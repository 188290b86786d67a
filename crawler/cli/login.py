"""`weboid login`: log in to a site once, by hand, so that its pages are archived as you see them."""

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import click

from core.clock import SystemClock
from core.errors import BadUrlError, ConfigError, InputError
from core.hosts import canonical_host
from core.layout import Layout
from core.logins import check_login_name
from core.settings import BrowserSettings
from core.urls import fetch_key
from crawler.cli.exits import Exit
from crawler.cli.groups import GroupWithDefault
from crawler.cli.options import collection_option, json_option, profile_option
from crawler.cli.tables import clean, table, width
from crawler.cli.unlocking import ask_passphrase
from crawler.collection import open_collection
from crawler.login_file import (
    Key,
    Login,
    login_path,
    make_key_file,
    read_head,
    read_key_file,
    read_login,
    write_login,
)
from crawler.profiles import load_profile
from render.executable import BrowserExecutable, find_browser, find_window_browser
from render.session import Session, check_hosts, confined
from render.signin import SignIn, open_sign_in, screen_of

_CLOCK = SystemClock()


@click.group("login", cls=GroupWithDefault, invoke_without_command=True)
@click.argument("url", metavar="URL")
@click.option("--name", help="What profiles call it: [login] names.  [default: the host]")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Use it for that host, and for no other; *.example.org: for all in it. Repeatable.  "
    "[default: the URL's]",
)
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Encrypt it with the key in that file instead of a passphrase; made when it is not there.",
)
@click.option(
    "--unverified-tls",
    is_flag=True,
    help="Send the login to servers whose certificate does not verify, too. Whoever is on the way "
    "to them can take it.",
)
@collection_option
@profile_option
@json_option
def command(
    *,
    url: str,
    name: str | None,
    hosts: tuple[str, ...],
    key_file: Path | None,
    unverified_tls: bool,
    collection: Path,
    profile: str,
    as_json: bool,
) -> int:
    """Log in to a site in a browser window, and keep the session for archiving.

    A window opens at URL. Log in, then close it, or press Enter here. Cookies and local storage of
    the hosts are kept in the collection, encrypted with a passphrase (WEBOID_LOGIN_PASSPHRASE, or it
    is asked for) or a key file. Profiles that name the login visit pages of these hosts with it.
    """
    try:
        url = fetch_key(url, allow_single_label=True)
        host = canonical_host(urlsplit(url).hostname or "")
    except (BadUrlError, ValueError) as error:
        raise InputError(f"{url[:200]!r} is no URL to log in at: {error}") from error
    name = check_login_name(name or host.strip("[]").replace(":", "."))
    hosts = tuple(hosts) or (host,)
    check_hosts(hosts)
    settings = load_profile(profile)
    screen, executable = screen_of(os.environ), _executable(settings.browser)
    key = _key(key_file or (Path(settings.login.key_file) if settings.login.key_file else None))
    layout = Layout(collection)
    click.echo("Log in, then close the window, or press Enter here.", err=True)
    taken = asyncio.run(_sign_in(url, executable, screen))
    session = confined(taken.cookies, taken.storage, hosts)
    if not session.cookies and not any(session.storage.values()):
        raise InputError(
            f"The browser had neither cookies nor storage of {', '.join(hosts)}: nothing is kept. "
            "Log in before you close the window; --host names other hosts."
        )
    if not layout.marker.exists():
        asyncio.run(_make_collection(collection))
    login = made(name, hosts, session, now=_CLOCK.now())
    login = replace(login, unverified_tls=unverified_tls)
    path = write_login(layout.logins, login, key)
    _tell(login, path, as_json=as_json)
    return Exit.OK


@command.command("ls")
@collection_option
@json_option
def ls(*, collection: Path, as_json: bool) -> int:
    """Show the collection's logins; no passphrase is needed."""
    rows, facts = [], []
    for path in sorted(Layout(collection).logins.glob("*.login")):
        try:
            login = read_head(read_login(path.parent, path.stem))
        except InputError as error:
            click.echo(f"{clean(path.name)}: {error}", err=True)
            continue
        over = login.expires_at is not None and login.expires_at <= _CLOCK.now()
        until = "" if login.expires_at is None else f"{login.expires_at:%Y-%m-%d %H:%M}"
        facts.append({**_facts(login), "expired": over})
        rows.append(
            (
                login.name,
                " ".join(login.hosts),
                str(login.cookies),
                f"{login.made_at:%Y-%m-%d}",
                f"{until} (over)" if over else until,
                login.key,
            )
        )
    if as_json:
        click.echo(json.dumps({"logins": facts}, ensure_ascii=False))
    elif not rows:
        click.echo(f"There is no login in {collection}; weboid login URL makes one.")
    else:
        head = ("name", "hosts", "cookies", "made", "cookies last until", "key")
        for line in table(head, rows, columns=width()):
            click.echo(line)
    return Exit.OK


@command.command("rm")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@collection_option
@json_option
def rm(*, names: tuple[str, ...], collection: Path, as_json: bool) -> int:
    """Remove logins. The session itself lives on until you log out at the site."""
    folder = Layout(collection).logins
    for name in names:
        read_login(folder, name)
    for name in names:
        login_path(folder, name).unlink(missing_ok=True)
    click.echo(json.dumps({"removed": names}) if as_json else f"Removed {', '.join(names)}.")
    return Exit.OK


def made(name: str, hosts: Iterable[str], session: Session, *, now: datetime) -> Login:
    """The login that a session is."""
    ends = [each["expires"] for each in session.cookies if "expires" in each]
    # A cookie may be dated beyond all calendars.
    last = datetime.fromtimestamp(min(max(ends), 4e9), tz=UTC) if ends else None
    return Login(name, tuple(hosts), now, last, len(session.cookies), session=session)


async def _sign_in(url: str, executable: BrowserExecutable, screen: dict[str, str]) -> SignIn:
    async with open_sign_in(url, executable, screen=screen) as opened:
        loop = asyncio.get_running_loop()
        asked = sys.stdin.isatty()
        if asked:
            loop.add_reader(sys.stdin, opened.over.set)
        try:
            await opened.watch()
        finally:
            if asked:
                loop.remove_reader(sys.stdin)
        return opened


async def _make_collection(root: Path) -> None:
    async with open_collection(root, clock=_CLOCK):
        pass


def _executable(settings: BrowserSettings) -> BrowserExecutable:
    """The profile's browser, else the first with windows."""
    if settings.executable:
        return find_browser(settings.executable)
    return find_window_browser()


def _key(path: Path | None) -> Key:
    if path is None:
        return ask_passphrase("Passphrase for the new login", confirm=True)
    if path.exists():
        return read_key_file(path)
    if path.suffix in (".toml", ".login"):
        raise ConfigError(f"{path} looks like no key file: name a new one, such as weboid.key.")
    click.echo(f"A new key is in {path}: keep it, nothing opens the login without it.", err=True)
    return make_key_file(path)


def _tell(login: Login, path: Path, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**_facts(login), "file": str(path)}, ensure_ascii=False))
        return
    storage = sum(map(len, login.session.storage.values()))
    click.echo(
        f"The login {login.name} is kept in {path}: {login.cookies} cookies and {storage} stored items "
        f"of {', '.join(login.hosts)}.\nPages of these hosts are visited with it where a profile says\n"
        f'  [login]\n  names = ["{login.name}"]'
    )


def _facts(login: Login) -> dict[str, object]:
    return {
        "name": login.name,
        "hosts": login.hosts,
        "cookies": login.cookies,
        "made_at": login.made_at.isoformat(),
        "expires_at": None if login.expires_at is None else login.expires_at.isoformat(),
        "unverified_tls": login.unverified_tls,
    }
