"""`weboid config` and `weboid login`: profiles and stored site logins."""

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from core.captures import check_login_name
from core.clock import SystemClock
from core.errors import BadUrlError, ConfigError, InputError
from core.hosts import canonical_host
from core.layout import Layout
from core.urls import fetch_key
from crawler.capture.site_logins import (
    LoginKey,
    login_path,
    make_key_file,
    read_key_file,
    read_login,
    read_login_head,
    write_login,
)
from crawler.jobs.crawl_orders import toml_value
from crawler.profile_check import ProfileFinding, profile_faults, profile_warnings
from crawler.profiles import chain_settings, load_chain, load_profile
from render.chromium import find_browser, find_window_browser
from render.sign_in import Login, SignIn, SiteSession, check_hosts, confine_to_hosts, display_variables, open_sign_in
from weboid.app.settings_facts import list_presets, login_facts, setting_rows
from weboid.app.text_table import clean, table, width
from weboid.cli.support.commands import ExitCode, GroupWithDefault, argument, cli_command, option
from weboid.cli.support.options import COLLECTION, OUTPUT, PROFILE, CommandOutput
from weboid.cli.support.run_options import ask_passphrase
from weboid.cli.support.stores import make_collection

DEFAULT = "default"


@cli_command("ls")
def presets_command(*, output: CommandOutput = OUTPUT) -> None:
    """List the presets: profiles that come with the program."""
    rows = list_presets()
    profiles = [{"name": name, "purpose": purpose} for name, purpose in rows]
    output.show({"profiles": profiles}, table(("name", "purpose"), rows, columns=width()))


def print_settings(name: str, *, changed: bool, output: CommandOutput) -> None:
    """Print the settings of a profile with their sources; `changed`: only what is not as by default."""
    chain = load_chain(name)
    settings = chain_settings(chain)
    rows = list(setting_rows(settings, chain))
    if changed:
        rows = [row for row in rows if row["value"] != row["default"]]
    sheets: list[dict[str, Any]] = [{"prefix": sheet.prefix, **sheet.changes()} for sheet in settings.sheets]
    facts = {
        "profile": chain[0].source,
        "extends": [layer.source for layer in chain[1:]],
        "settings": rows,
        "sheets": sheets,
    }
    if output.json(facts):
        return
    group = ""
    for row in rows:
        if row["group"] != group:
            click.echo(f"\n[{row['group']}]" if group else f"[{row['group']}]")
            group = row["group"]
        differs = row["value"] != row["default"]
        note = ""
        if row["from"] != "default":
            note = f"  # {row['from']}"
            note += f"; default {toml_value(row['default'])}" if differs else "; as by default"
        click.echo(f"{'+' if differs else ' '} {row['key']} = {toml_value(row['value'])}{note}")
    if not rows:
        click.echo("Nothing differs from the defaults.")
    for each in settings.sheets:
        click.echo(f"\n[[sheet]]\n+ prefix = {toml_value(each.prefix)}")
        for group, keys in each.changes().items():
            for key, value in keys.items():
                click.echo(f"+ {group}.{key} = {toml_value(value)}")


def check_profiles(files: Iterable[str], output: CommandOutput) -> ExitCode:
    """Print every error of profiles, and unusual settings; INPUT: one of them cannot be used."""
    wrong = False
    for file in files:
        doubtful: list[ProfileFinding] = []
        try:
            chain = load_chain(file)
            bad = profile_faults(chain)
            if not bad:
                doubtful = profile_warnings(chain, chain_settings(chain))
        except ConfigError as error:
            bad = [ProfileFinding(file, str(error))]
        wrong = wrong or bool(bad)
        if output.is_json:
            facts = {
                "file": file,
                "usable": not bad,
                "faults": [_profile_facts(each) for each in bad],
                "warnings": [_profile_facts(each) for each in doubtful],
            }
            click.echo(json.dumps(facts, ensure_ascii=False))
            continue
        for each in bad:
            click.echo(f"fault    {clean(each.where)}: {clean(each.text)}")
        for each in doubtful:
            click.echo(f"warning  {clean(each.where)}: {clean(each.text)}")
        if not bad:
            click.echo(f"{clean(file)} can be used.")
    return ExitCode.INPUT if wrong else ExitCode.OK


def _profile_facts(finding: ProfileFinding) -> dict[str, Any]:
    return {key: value for key, value in asdict(finding).items() if value}


_CLOCK = SystemClock()


@cli_command("login", cls=GroupWithDefault, invoke_without_command=True)
def login_group(
    *,
    url: str = argument("URL"),
    name: str | None = option("What profiles call it: [login] names.  [default: the host]"),
    hosts: tuple[str, ...] = option(
        "Use it for that host, and for no other; *.example.org: for all in it. Repeatable.  [default: the URL's]",
        "--host",
        metavar="HOST",
    ),
    key_file: Path | None = option(
        "Encrypt it with the key in that file instead of a passphrase; made when it is not there.",
        type=click.Path(dir_okay=False, path_type=Path),
    ),
    unverified_tls: bool = option(
        "Send the login to servers whose certificate does not verify, too. An attacker on the network path can read it."
    ),
    collection: Path = COLLECTION,
    profile: str = PROFILE,
    output: CommandOutput = OUTPUT,
) -> None:
    """Log in to a site in a browser, and store the session.

    A window opens at URL. Log in, then close it, or press Enter here. Cookies and local storage of
    the hosts are stored in the collection, encrypted with a passphrase (WEBOID_LOGIN_PASSPHRASE, or
    a prompt) or a key file. Profiles that name the login use it for pages of these hosts.
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
    screen, named = display_variables(os.environ), settings.browser.executable
    executable = find_browser(named) if named else find_window_browser()
    key = _login_key(key_file or (Path(settings.login.key_file) if settings.login.key_file else None))
    layout = Layout(collection)
    click.echo("Log in, then close the window, or press Enter here.", err=True)

    async def sign_in() -> SignIn:
        async with open_sign_in(url, executable, screen=screen) as opened:
            loop = asyncio.get_running_loop()
            has_terminal = sys.stdin.isatty()
            if has_terminal:
                loop.add_reader(sys.stdin, opened.over.set)
            try:
                await opened.watch()
            finally:
                if has_terminal:
                    loop.remove_reader(sys.stdin)
            return opened

    taken = asyncio.run(sign_in())
    session = confine_to_hosts(taken.cookies, taken.storage, hosts)
    if not session.cookies and not any(session.storage.values()):
        raise InputError(
            f"The browser had neither cookies nor storage of {', '.join(hosts)}: nothing is stored. "
            "Log in before you close the window; --host names other hosts."
        )
    if not layout.marker.exists():
        asyncio.run(make_collection(collection))
    login = login_of_session(name, hosts, session, now=_CLOCK.now())
    login = replace(login, unverified_tls=unverified_tls)
    path = write_login(layout.logins, login, key)
    storage = sum(map(len, login.session.storage.values()))
    output.show(
        {**login_facts(login), "file": str(path)},
        f"The login {login.name} is stored in {path}: {login.cookies} cookies and {storage} stored items "
        f"of {', '.join(login.hosts)}.\nPages of these hosts are visited with it where a profile has\n"
        f'  [login]\n  names = ["{login.name}"]',
    )


@cli_command("ls", login_group)
def login_list(*, collection: Path = COLLECTION, output: CommandOutput = OUTPUT) -> None:
    """Show the collection's logins; no passphrase is needed."""
    rows, facts = [], []
    for path in sorted(Layout(collection).logins.glob("*.login")):
        try:
            login = read_login_head(read_login(path.parent, path.stem))
        except InputError as error:
            click.echo(f"{clean(path.name)}: {error}", err=True)
            continue
        over = login.expires_at is not None and login.expires_at <= _CLOCK.now()
        until = "" if login.expires_at is None else f"{login.expires_at:%Y-%m-%d %H:%M}"
        facts.append({**login_facts(login), "expired": over})
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
    head = ("name", "hosts", "cookies", "made", "cookies last until", "key")
    output.show(
        {"logins": facts},
        table(head, rows, columns=width())
        if rows
        else f"There is no login in {collection}; weboid login URL makes one.",
    )


@cli_command("rm", login_group)
def login_remove(
    *,
    names: tuple[str, ...] = argument("NAME...", required=True),
    collection: Path = COLLECTION,
    output: CommandOutput = OUTPUT,
) -> None:
    """Remove logins. The session itself stays valid until you log out at the site."""
    folder = Layout(collection).logins
    for name in names:
        read_login(folder, name)
    for name in names:
        login_path(folder, name).unlink(missing_ok=True)
    output.show({"removed": names}, f"Removed {', '.join(names)}.")


def login_of_session(name: str, hosts: Iterable[str], session: SiteSession, *, now: datetime) -> Login:
    """Create the login of a session."""
    ends = [each["expires"] for each in session.cookies if "expires" in each]
    # A cookie may be dated beyond all calendars.
    last = datetime.fromtimestamp(min(max(ends), 4e9), tz=UTC) if ends else None
    return Login(name, tuple(hosts), now, last, len(session.cookies), session=session)


def _login_key(path: Path | None) -> LoginKey:
    if path is None:
        return ask_passphrase("Passphrase for the new login", confirm=True)
    if path.exists():
        return read_key_file(path)
    if path.suffix in (".toml", ".login"):
        raise ConfigError(f"{path} looks like no key file: name a new one, such as weboid.key.")
    click.echo(f"A new key is in {path}: keep it, nothing opens the login without it.", err=True)
    return make_key_file(path)
