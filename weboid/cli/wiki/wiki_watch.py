"""`weboid wiki watch`: archiving of pages as they are saved, until stopped."""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from core.config.settings import Settings, store_environment
from core.errors import ConfigError, InputError
from crawler.frontier.base import Frontier
from crawler.status.status_server import parse_listen_address
from links.registry.database import RegistryStore
from links.registry.wikis import Wiki, parse_wiki, use_signature
from net.stop_signals import StopSignals, first_error
from playback.url_paths import http_origin
from weboid.app.malware_scanner import find_clamd
from weboid.app.text_table import clean
from weboid.app.wiki.wiki_clients import open_items, open_wiki_api, route_to, wiki_user_agent
from weboid.app.wiki.wiki_intake import FrontierArchive, WatchNote, open_level_setter, write_note
from weboid.cli.serve import SERVE_OPTIONS, replay_port_for, serve_words
from weboid.cli.support import child_commands
from weboid.cli.support.command_target import WIKI_TARGET, CommandTarget
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option, option_dict
from weboid.cli.support.options import ADDRESS, CONSOLE, CONSOLE_ORIGIN, WORKERS, counted, output, warn_missing_contact
from weboid.cli.support.run_options import QA
from wiki.api.credentials import read_secret
from wiki.api.transport import ApiTransport
from wiki.sync.feed_context import SyncServices, citation_readers
from wiki.sync.webhook import AGE_LIMIT_S, ANY_WIKI, UseSignature, WebhookOptions, check_secret, serve_webhook
from wiki.sync.wiki_source import WikiSource
from wiki.sync.wiki_watcher import Opener, WatcherReport, WikiWatcher, notify_from_stream, select_wikis


@cli_command("watch")
def command(
    *,
    names: tuple[str, ...] = argument("[NAME]..."),
    webhook: str | None = option("Address to listen on for change notifications, UDP and HTTP.", type=ADDRESS),
    secret_files: tuple[str, ...] = option(
        "Secret with which the wiki signs HTTP notifications, at least 32 characters; once for each wiki"
        " where several are watched.",
        "--webhook-secret-file",
        metavar="[WIKI=]FILE",
        envvar="WEBOID_WEBHOOK_SECRET_FILE",
        show_envvar=True,
    ),
    stream: str | None = option(
        "Use a change stream for notifications, too: EventStreams of Wikimedia's wikis.", metavar="URL"
    ),
    once: bool = option("Do what is due now, then exit; for cron."),
    serve: str | None = option("Serve readers there, too: `weboid serve` with its defaults.", "--listen", type=ADDRESS),
    serving: dict[str, Any] = option_dict(SERVE_OPTIONS),
    console: str = CONSOLE,
    console_origin: str = CONSOLE_ORIGIN,
    feed_only: bool = option("Only watch: other processes archive, check links and confirm results."),
    without: tuple[str, ...] = option(
        "Omit a part that runs elsewhere, such as check or confirm; repeatable.",
        choices=child_commands.CHILD_NAMES,
        metavar="PART",
    ),
    qa: bool | None = QA,
    workers: int = WORKERS,
    where: CommandTarget = WIKI_TARGET,
) -> int:
    """Watch wikis: archive new links, and check all of them.

    Links are archived as soon as their page is saved.

    Without NAME all wikis that `weboid wiki add` has added, and those that are added later. Each wiki is polled for its
    changes, and each of its pages is read again once a week, the first time soon. The command also runs, as child
    processes, `archive --stay`, `links check --watch`, `links confirm` and what else a wiki's links need. SIGINT or
    SIGTERM end it; the next run continues where it stopped, however long ago that was. See docs/how-to/wiki.md.
    """
    wanted = [parse_wiki(name) for name in names]
    source = click.get_current_context().get_parameter_source("secret_files")
    secrets = {} if webhook is None else _webhook_secrets(secret_files)
    if webhook is None and secret_files and source is ParameterSource.COMMANDLINE:
        raise InputError("--webhook-secret-file is for the address that --webhook names: add --webhook HOST:PORT.")
    if once and (webhook is not None or stream is not None):
        raise InputError("--once ends before any notification could arrive: leave out --webhook and --stream.")
    if serve is not None and (once or feed_only):
        raise InputError("--once and --feed-only serve no readers: leave out --listen, and run `weboid serve`.")
    for_serve = serve_words(serving)
    if for_serve and serve is None:
        name = for_serve[0].partition("=")[0]
        raise InputError(f"{name} is for the front that --listen starts: add --listen.")
    address = None if serve is None else parse_listen_address(serve)
    home = child_commands.ChildCommandOptions(
        where.layout.root,
        where.profile,
        where.settings.frontier.url,
        where.settings.index.url,
        workers,
        address,
        for_serve,
        output.is_json,
        qa,
        find_clamd(os.environ),
        console=console,
        console_origin=console_origin,
        front=serving["origin"] or (http_origin(*address) if address is not None else ""),
        without=frozenset(without),
    )
    warn_missing_contact(where.settings.links.contact or where.settings.visit.contact)
    with ExitStack() as stack:
        store = stack.enter_context(where.stores.registry(make=True))
        frontier = stack.enter_context(where.frontier(make=True))
        shared = sync_services(where, store, frontier)
        show = WatchReporter()
        watch = WikiWatcher(shared, wiki_opener(where.settings), names=wanted, on_report=show.report)
        if not select_wikis(store, wanted):
            show.notice("No wiki is known yet: add one with `weboid wiki add URL`.")
        if once:
            is_well = asyncio.run(watch.once())
            return ExitCode.OK if is_well else ExitCode.SOME_FAILED
        is_held = partial(child_commands.is_stopped, frontier)
        beside = child_commands.ProcessSupervisor(
            [] if feed_only else child_commands.watch_children(home, where.settings.links, is_held),
            clock=CLOCK,
            report=child_commands.child_output_printer(as_json=output.is_json, clock=CLOCK),
            environment=store_environment(home.database_url, home.frontier_url),
        )
        options = None
        if webhook is not None:
            levels = stack.enter_context(open_level_setter(where.layout, where.settings.index.url, CLOCK))
            known = [str(each.name) for each in select_wikis(store, wanted)] if ANY_WIKI in secrets else []
            if len(known) > 1:
                others = [name for name in known if name not in secrets]
                raise ConfigError(
                    "Several wikis are watched: name the wiki of each secret, "
                    f"--webhook-secret-file {(others or known)[0]}=FILE."
                )
            setters = levels.set_level, levels.set_wiki_levels
            options = WebhookOptions(watch.notify, secrets, CLOCK, signature_store(store), watch.names, *setters)
        write_note(where.layout, _note(home, webhook, secret_files, serving))
        listeners = [] if stream is None else [partial(_read_stream, stream, watch, where.settings)]
        return asyncio.run(_run(watch, [beside.run, *listeners], webhook, options, show))


async def _run(
    watch: WikiWatcher,
    beside: Sequence[Callable[[asyncio.Event], Coroutine[Any, Any, None]]],
    webhook: str | None,
    options: WebhookOptions | None,
    show: "WatchReporter",
) -> int:
    async with AsyncExitStack() as stack:
        if webhook is not None and options is not None:
            host, port = await stack.enter_async_context(serve_webhook(*parse_listen_address(webhook), options))
            show.notice(f"Listening for change notifications on {host}:{port}.")
        stop = stack.enter_context(StopSignals(lambda: show.notice("Stopping: work in progress finishes.")))
        with stop.cut_short():
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(watch.run(stop.event))
                    for each in beside:
                        group.create_task(each(stop.event))
            except BaseExceptionGroup as group:
                raise first_error(group) from group
    return ExitCode.STOPPED if stop.at_once else ExitCode.OK


async def _read_stream(url: str, watch: WikiWatcher, settings: Settings, stop: asyncio.Event) -> None:
    """Forward notifications from a change stream until stopped."""
    async with ApiTransport(user_agent=wiki_user_agent(settings), route=route_to(url, settings)) as wire:
        await notify_from_stream(wire, url, notify=watch.notify, watched=watch.databases, stop=stop)


def sync_services(where: CommandTarget, store: RegistryStore, frontier: Frontier) -> SyncServices:
    """Return what feeds of wikis share: registry, frontier and this process's name."""
    return SyncServices(
        store,
        FrontierArchive(frontier, where.settings, clock=CLOCK, layout=where.layout),
        CLOCK,
        lease_holder_name(),
        citation_readers(CLOCK),
        is_gone=has_holder_ended,
    )


def wiki_opener(settings: Settings) -> Opener:
    """Return a function that opens wikis with their settings."""

    @asynccontextmanager
    async def opened(wiki: Wiki) -> AsyncIterator[WikiSource]:
        async with open_wiki_api(wiki, settings) as api, open_items(api, settings) as items:
            yield WikiSource(api, items)

    return opened


def lease_holder_name() -> str:
    """Return a name that no other process has."""
    return f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(4)}"


def has_holder_ended(holder: str) -> bool:
    """Return True if the process of that `lease_holder_name` ran on this machine and has ended."""
    host, _, rest = holder.rpartition("-")[0].rpartition("-")
    if host != socket.gethostname()[:60] or not rest.isdigit():
        return False
    if int(rest) == os.getpid():
        return True  # that of a process which had our number before us
    try:
        os.kill(int(rest), 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, ProcessLookupError | OverflowError)
    return False


class WatchReporter:
    """Output of a watch: one line for each round with changes."""

    def __init__(self) -> None:
        self._troubles: dict[str, str] = {}

    def notice(self, sentence: str) -> None:
        """Print a sentence on standard error; standard output stays machine-readable."""
        click.echo(child_commands.with_time(sentence, CLOCK.now()), err=True)

    def report(self, report: WatcherReport) -> None:
        """Print the result of a round, or its error."""
        name = str(report.wiki)
        before = self._troubles.get(name, "")
        self._troubles[name] = report.trouble
        if report.trouble:
            if report.trouble != before:
                self._line({"wiki": name, "trouble": report.trouble}, f"{name}: {report.trouble}")
            return
        if before:
            self._line({"wiki": name, "trouble": None}, f"{name}: recovered.")
        if (done := report.done) is None:
            return
        both = done.pages.plus(done.swept)
        counts = (
            ("changes", "change", "", done.followed.changes),
            ("pages", "page", " read", done.pages.pages),
            ("swept", "page", " swept", done.swept.pages),
            ("added", "link", " new", both.added),
            ("gone", "link", " gone", both.gone),
            ("dropped", "page", " deleted", both.dropped),
            ("taken", "link", " to be archived", done.handed.taken),
            ("archived_already", "link", " archived lately", done.handed.fresh),
            ("put_off", "link", " put off, as the archive does not accept them", done.handed.put_off),
        )
        if words := [counted(count, noun) + state for _, noun, state, count in counts if count]:
            self._line({"wiki": name, **{key: count for key, *_, count in counts}}, f"{name}: {', '.join(words)}.")

    def _line(self, facts: dict[str, object], sentence: str) -> None:
        output.show(facts, child_commands.with_time(clean(sentence), CLOCK.now()))


def _owned_files(secret_files: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name, equals, file in (each.rpartition("=") for each in secret_files):
        yield str(parse_wiki(name)) if equals else ANY_WIKI, file


def _webhook_secrets(secret_files: Sequence[str]) -> dict[str, bytes]:
    """Return the secrets by wiki; without any, only UDP datagrams are taken."""
    secrets: dict[str, bytes] = {}
    for owner, file in _owned_files(secret_files):
        if owner in secrets:
            raise ConfigError(f"--webhook-secret-file is given twice for {owner or 'no wiki in particular'}.")
        secrets[owner] = check_secret(read_secret(Path(file)))
    if len(set(secrets.values())) < len(secrets):
        raise ConfigError("Two wikis have the same secret: make each one with `openssl rand -hex 32`.")
    return secrets


def _note(
    home: child_commands.ChildCommandOptions, webhook: str | None, secret_files: Sequence[str], serving: dict[str, Any]
) -> WatchNote:
    replay = serving["replay_origin"]
    if home.serve is not None and not serving["origin"]:
        host, port = home.serve
        replay = http_origin(host, replay_port_for(port, serving["replay_port"]))
    files = {owner: str(Path(file).expanduser().absolute()) for owner, file in _owned_files(secret_files)}
    return WatchNote(home.front, replay, webhook or "", files)


def signature_store(store: RegistryStore) -> UseSignature:
    """Return a function that stores used signatures persistently in the registry."""
    lifetime = timedelta(seconds=2 * AGE_LIMIT_S)

    def use(signature: bytes, moment: datetime) -> bool:
        with store.writing() as connection:
            return use_signature(connection, signature, moment, lifetime=lifetime)

    async def used(signature: bytes, moment: datetime) -> bool:
        return await asyncio.to_thread(use, signature, moment)

    return used
