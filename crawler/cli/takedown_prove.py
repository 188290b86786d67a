"""`weboid takedown prove`: every route of a running archive asked for what must not be shown."""

import asyncio
import json
import socket
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import click

from core.clock import SystemClock
from core.errors import InputError, UnavailableError, WeboidError
from core.layout import Layout
from crawler.cli.exits import Exit
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.tables import clean, table, width
from crawler.cli.takedown_store import opened
from crawler.collection import read_collection
from playback.decisions.takedowns import TakedownKind, canonical
from playback.front.readers import parse_networks
from playback.front.registry.access import Access
from playback.permits import Permits
from playback.proving import (
    Proof,
    Prover,
    Warm,
    cases_of,
    embedding_cases,
    every_route,
    needles_of,
)
from playback.server import serve

_CLOCK = SystemClock()
_MOST_LEAKS = 50
_STARTS = 3


@click.command("prove")
@click.argument("url", metavar="URL")
@click.option(
    "--front", default="", help="Origin of the archive to ask.  [default: one is started]"
)
@click.option("--replay", default="", help="Origin of its copies.")
@click.option(
    "--before",
    "keep",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Ask before the take-down, and keep what readers hold then in this file.",
)
@click.option(
    "--warm",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Ask with what that file says readers hold.",
)
@click.option(
    "--show-logins",
    is_flag=True,
    help="The archive is served with --show-logins: captures made with a login may be shown.",
)
@collection_option
@database_option
@json_option
def prove_command(
    *,
    url: str,
    front: str,
    replay: str,
    keep: Path | None,
    warm: Path | None,
    show_logins: bool,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Ask every route for what must not be shown of URL, and search the answers for it.

    That is what was taken down, and what was captured with a login.

    Routes are those that the applications themselves list. Each is asked for every capture that is
    covered, its artifacts, its payloads at other URLs, and pages in which it is framed; with GET, HEAD, Range and Accept-Datetime;
    and with the ETags of --warm. Ends with 1 when an answer shows something, or nothing could be told.
    """
    if bool(front) != bool(replay):
        raise InputError("An archive has two origins: say both --front and --replay.")
    layout = read_collection(collection)
    held = None if warm is None else _read_warm(warm)
    wanted = _Wanted(layout, database_url, url, held, keep is not None, show_logins)
    proof = _prove(wanted, front, replay) if front else asyncio.run(_started(wanted))
    if keep is not None:
        keep.write_text(proof.warm.to_json(), encoding="utf-8")
        click.echo(f"{len(proof.cases)} captures asked for; what readers hold is in {keep}.")
        return Exit.OK
    _say(proof, as_json=as_json)
    return Exit.OK if proof.is_sound else Exit.SOME_FAILED


class _Wanted(NamedTuple):
    """What is to be proved.

    Attributes:
        warm: what readers held before; None: nothing is known of it.
        before: the take-down is still to come, so everything may be shown.
        show_logins: captures made with a login may be shown.
    """

    layout: Layout
    database_url: str
    url: str
    warm: Warm | None
    before: bool
    show_logins: bool


def _prove(wanted: _Wanted, front: str, replay: str) -> Proof:
    now, before, layout = _CLOCK.now(), wanted.before, wanted.layout
    with ExitStack() as stack:
        at = opened(stack, layout.root, wanted.database_url)
        permits = Permits(
            at.decisions, at.database.rows, lambda: now, show_logins=wanted.show_logins
        )
        named = canonical(TakedownKind.URL, wanted.url)
        cases = cases_of(at.database, None if before else permits, named, now)
        if not cases:
            raise InputError(
                f"Nothing was captured at {named}."
                if before
                else f"No take-down covers a capture of {named}, and none was made with a login;"
                " `weboid takedown list` shows the take-downs."
            )
        sought = needles_of(layout, at.database, cases, permits, now)
        cases += [] if before else embedding_cases(at.database, permits, cases)
        app = every_route(at.database, at.decisions, replay)
        with closing(Prover(front, replay)) as prover:
            return prover.prove(cases, sought, app, wanted.warm)


async def _started(wanted: _Wanted) -> Proof:
    """The proof of an archive that is started for it on this machine, and ended."""
    for attempt in range(1, _STARTS + 1):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = int(probe.getsockname()[1])
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(
            serve(
                wanted.layout,
                replay_port=port,
                on_ready=ready.set_result,
                index_url=wanted.database_url,
                show_logins=wanted.show_logins,
                access=Access(internal=parse_networks(["127.0.0.1"])),
            )
        )
        try:
            await asyncio.wait((ready, serving), return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                if attempt < _STARTS and serving.exception() is not None:
                    continue  # the port may have been taken meanwhile
                serving.result()
                raise UnavailableError("The archive ended before it could be asked.")
            origins = ready.result(), f"http://127.0.0.1:{port}"
            return await asyncio.to_thread(_prove, wanted, *origins)
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError, WeboidError):
                await serving
    raise AssertionError


def _read_warm(path: Path) -> Warm:
    try:
        return Warm.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is nothing that `weboid takedown prove --before` wrote: {error}."
        ) from error


def _say(proof: Proof, *, as_json: bool) -> None:
    rows = list(proof.by_route())
    if as_json:
        names = ("server", "route", "answers", "verdict")
        document: dict[str, Any] = {
            "sound": proof.is_sound,
            "captures": len(proof.cases),
            "requests": len(proof.findings),
            "routes": [dict(zip(names, row, strict=True)) for row in rows],
            "leaks": [
                {
                    "server": each.probe.server,
                    "method": each.probe.method,
                    "target": each.probe.target,
                    "headers": dict(each.probe.headers),
                    "status": each.status,
                    "leak": each.leak,
                }
                for each in proof.leaks
            ],
            "unproved": proof.unproved,
        }
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    for line in table(("server", "route", "answers", "verdict"), rows, columns=width()):
        click.echo(line)
    for each in proof.leaks[:_MOST_LEAKS]:
        headers = ", ".join(f"{name}: {value}" for name, value in each.probe.headers)
        what = f"{each.probe.method} {each.probe.target} {headers}".strip()
        click.echo(clean(f"LEAK  {each.probe.server} {what} -> {each.status}. {each.leak}"))
    said = "nothing of it is shown" if proof.is_sound else "it is NOT proved"
    click.echo(f"{len(proof.cases):,} captures, {len(proof.findings):,} requests: {said}.")
