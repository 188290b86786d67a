"""`weboid login`: stored logins of sites."""

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from core.captures import check_login_name
from core.errors import BadUrlError, ConfigError, InputError, UnavailableError
from core.layout import Layout
from core.urls import fetch_key, host_of
from crawler.capture import site_logins
from crawler.profiles import load_profile
from render.chromium import find_browser, find_window_browser
from render.sign_in import Login, SignIn, check_hosts, confine_to_hosts, display_variables, open_sign_in
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, GroupWithDefault, argument, cli_command, option
from weboid.cli.support.options import COLLECTION, FILE, PROFILE, output
from weboid.cli.support.progress import stopped_by_enter
from weboid.cli.support.run_options import PASSPHRASE_VARIABLE
from weboid.cli.support.stores import make_collection


@cli_command("login", cls=GroupWithDefault, invoke_without_command=True)
def login_group(
    *,
    url: str = argument("URL"),
    name: str | None = option("Name of the login in profiles: [login] names.  [default: the host]"),
    hosts: tuple[str, ...] = option(
        "Use it for this host only; *.example.org: for its subdomains. Repeatable.  [default: the URL's]",
        "--host",
        metavar="HOST",
    ),
    key_file: Path | None = option(
        "Encrypt it with the key in this file instead of a passphrase; the file is created if missing.", type=FILE
    ),
    unverified_tls: bool = option(
        "Send the login to servers whose certificate does not verify, too. An attacker on the network path can read it."
    ),
    collection: Path = COLLECTION,
    profile: str = PROFILE,
) -> None:
    """Log in to a site in a browser, and store the session.

    A window opens at URL. Log in, then close it, or press Enter here. Cookies and local storage of
    the hosts are stored in the collection, encrypted with a passphrase (WEBOID_LOGIN_PASSPHRASE, or
    a prompt) or a key file. Profiles that name the login use it for pages of these hosts.
    """
    try:
        url = fetch_key(url, allow_single_label=True)
        host = host_of(url)
    except BadUrlError as error:
        raise InputError(f"{url[:200]!r} is not a URL to log in at: {error}") from error
    name = check_login_name(name or host.strip("[]").replace(":", "."))
    hosts = tuple(hosts) or (host,)
    check_hosts(hosts)
    settings = load_profile(profile)
    screen, named = display_variables(os.environ), settings.browser.executable
    executable = find_browser(named) if named else find_window_browser()
    key = _login_key(key_file or (Path(settings.login.key_file) if settings.login.key_file else None))
    layout = Layout(collection)
    click.echo("Log in, then close the window, or press Enter here.", err=True)

    async def sign_in() -> SignIn:
        async with open_sign_in(url, executable, screen=screen) as opened:
            with stopped_by_enter(opened.over):
                await opened.watch()
            return opened

    browser = asyncio.run(sign_in())
    session = confine_to_hosts(browser.cookies, browser.storage, hosts)
    if not session.cookies and not any(session.storage.values()):
        raise InputError(
            f"The browser has neither cookies nor storage of {', '.join(hosts)}: nothing is stored. "
            "Log in before you close the window; --host names other hosts."
        )
    if not layout.marker.exists():
        asyncio.run(make_collection(collection))
    ends = [each["expires"] for each in session.cookies if "expires" in each]
    # A cookie may be dated beyond all calendars.
    last = datetime.fromtimestamp(min(max(ends), 4e9), tz=UTC) if ends else None
    count = len(session.cookies)
    login = Login(name, hosts, CLOCK.now(), last, count, unverified_tls=unverified_tls, session=session)
    path = site_logins.write_login(layout.logins, login, key)
    storage = sum(map(len, login.session.storage.values()))
    output.show(
        {**site_logins.login_facts(login), "file": str(path)},
        f"The login {login.name} is stored in {path}: {login.cookies} cookies and {storage} stored items "
        f"of {', '.join(login.hosts)}.\nPages of these hosts are visited with it where a profile has\n"
        f'  [login]\n  names = ["{login.name}"]',
    )


@cli_command("ls", login_group)
def login_list(*, collection: Path = COLLECTION) -> None:
    """Show the collection's logins; no passphrase is needed."""
    rows, facts = [], []
    for path in sorted(Layout(collection).logins.glob("*.login")):
        try:
            login = site_logins.read_login_head(site_logins.read_login(path.parent, path.stem))
        except InputError as error:
            click.echo(f"{clean(path.name)}: {error}", err=True)
            continue
        over = login.expires_at is not None and login.expires_at <= CLOCK.now()
        until = login.expires_at and f"{login.expires_at:%Y-%m-%d %H:%M}{' (over)' if over else ''}"
        facts.append({**site_logins.login_facts(login), "expired": over})
        hosts = " ".join(login.hosts)
        rows.append((login.name, hosts, str(login.cookies), login.made_at.date(), until, login.key))
    head = ("name", "hosts", "cookies", "made", "cookies last until", "key")
    output.table({"logins": facts}, head, rows, f"There is no login in {collection}; weboid login URL makes one.")


@cli_command("rm", login_group)
def login_remove(*, names: tuple[str, ...] = argument("NAME...", required=True), collection: Path = COLLECTION) -> None:
    """Remove logins. The session itself stays valid until you log out at the site."""
    folder = Layout(collection).logins
    for name in names:
        site_logins.read_login(folder, name)
    for name in names:
        site_logins.login_path(folder, name).unlink(missing_ok=True)
    output.show({"removed": names}, f"Removed {', '.join(names)}.")


def _login_key(path: Path | None) -> site_logins.LoginKey:
    if path is None:
        return ask_passphrase("Passphrase for the new login", confirm=True)
    if path.exists():
        return site_logins.read_key_file(path)
    if path.suffix in (".toml", ".login"):
        raise ConfigError(f"{path} does not look like a key file: name a new one, such as weboid.key.")
    click.echo(f"A new key is in {path}: keep it safe, since the login cannot be opened without it.", err=True)
    return site_logins.make_key_file(path)


def ask_passphrase(question: str, *, confirm: bool = False) -> site_logins.LoginKey:
    """Return the key from the environment's passphrase, which is then unset, or from a prompt."""
    text = os.environ.pop(PASSPHRASE_VARIABLE, "")
    if not text:
        if not sys.stdin.isatty():
            raise UnavailableError(
                f"The passphrase of the logins is needed: set {PASSPHRASE_VARIABLE}, or make them with --key-file."
            )
        text = click.prompt(question, hide_input=True, confirmation_prompt=confirm, err=True)
    return site_logins.passphrase_key(text)
