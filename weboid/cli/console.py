"""`weboid console`: serve the operator's console and its API, with a worker; accounts and API tokens."""

import asyncio
import getpass
import sys
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from core.errors import InputError
from core.layout import Layout
from crawler.status.status_server import parse_listen_address
from weboid.app.operator_identity import known_operator
from weboid.cli.support.child_commands import is_stopped, queue_worker, running_children
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import CLOCK, COMMANDS, LazyGroupWithDefault, argument, cli_command, option
from weboid.cli.support.options import COLLECTION, CONSOLE_ADDRESS, ORIGIN, output
from weboid.cli.support.stores import make_collection

_ROLES = ("reader", "reviewer", "curator", "operator", "admin")


@cli_command(
    "console", cls=LazyGroupWithDefault, commands_at=COMMANDS["console"], invoke_without_command=True, has_json=False
)
def console_command(
    *,
    listen: str = option("Address to serve on; port 0: any free port.", default=CONSOLE_ADDRESS, metavar="HOST:PORT"),
    origin: str = option("Public origin, behind a proxy with TLS: https://console.example.", type=ORIGIN, default=""),
    front: str = option("Origin of the reader pages, which the console links to.", type=ORIGIN, default=""),
    worker: bool = option("Visit queued pages.", "--worker/--no-worker", default=True),
    where: CommandTarget = TARGET,
) -> None:
    """Serve the console: crawls, captures, links, rules; and an API.

    Prints its address, and at the first start a link that signs in an administrator, once. Pages that
    are saved or crawled in the console are visited by a worker of this command, unless another run
    writes the collection. Ctrl-C ends it. See docs/how-to/operator-console.md.
    """
    from weboid.cli.init import option_faults
    from weboid.console.server import open_stores, serve_console

    root = where.layout.root
    if not where.is_shared:
        asyncio.run(make_collection(root))
    operator, settings, url = known_operator(root), where.settings, where.settings.index.url
    with open_stores(where.layout, settings, clock=CLOCK, database_url=url, option_faults=option_faults) as stores:

        def ready(address: str) -> None:
            click.echo(f"{address}/console")
            if not stores.accounts.users():
                key = stores.accounts.make_link(getpass.getuser())
                click.echo(f"First sign-in, within half an hour: {address}/enter?key={key}")

        async def run() -> None:
            own = replace(queue_worker(root, where.profile), is_held=partial(is_stopped, stores.frontier))
            async with running_children([own] if worker and not where.is_shared else [], CLOCK):
                address, titles = parse_listen_address(listen), (operator.name or "", front)
                await serve_console(stores, listen=address, origin=origin, titles=titles, on_ready=ready)

        with suppress(KeyboardInterrupt):
            asyncio.run(run())


@cli_command("user")
def user_command(
    *,
    name: str | None = argument("[NAME]"),
    role: str | None = option("Add the account, or change its role.", choices=_ROLES),
    password_file: Path | None = option(
        "Its password; - is standard input.", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE"
    ),
    link: bool = option("Print a link that signs the account in, once."),
    is_removal: bool = option("Remove it, with its sessions and tokens.", "--remove"),
    console: str = option(
        "Origin of the console, for the link.", default=f"http://{CONSOLE_ADDRESS}", metavar="ORIGIN"
    ),
    collection: Path = COLLECTION,
) -> None:
    """List the console's accounts; add, change or remove one.

    Roles, each with what those before it may: reader, reviewer (reviews of edits), curator (rules,
    take-downs, levels, marks), operator (crawls, queue, bot), admin (accounts).
    """
    from weboid.console.accounts import AccountStore, ConsoleRole

    with closing(AccountStore(Layout(collection).console_db, CLOCK)) as accounts:
        if name is None:
            users = accounts.users()
            rows = [(each.name, str(each.role), f"{each.added:%Y-%m-%d}") for each in users]
            facts = {"users": [{"name": each.name, "role": each.role} for each in users]}
            output.table(facts, ("name", "role", "added"), rows, "There is no account yet.")
            return
        actor = f"{getpass.getuser()} on the command line"
        if is_removal:
            accounts.remove_user(name)
            accounts.log(actor, "remove_user", {"name": name}, "done")
            output.show({"name": name, "removed": True}, f"{name} was removed.")
            return
        known = {each.name: each.role for each in accounts.users()}
        if role is None and name not in known:
            raise InputError(f"There is no account {name!r}: --role adds it.")
        password = None
        if password_file is not None:
            text = sys.stdin.read() if str(password_file) == "-" else password_file.read_text(encoding="utf-8")
            password = text.rstrip("\n")
        if role is not None or password is not None:
            accounts.set_user(name, ConsoleRole(role) if role else known[name], password=password)
            accounts.log(actor, "set_user", {"name": name, "role": role or known[name]}, "done")
        shown = next(each for each in accounts.users() if each.name == name)
        address = f"{console.rstrip('/')}/enter?key={accounts.make_link(name)}" if link else ""
        lines = [f"{name} is {shown.role}.", *filter(None, [address])]
        output.show({"name": name, "role": shown.role, "link": address}, lines)
