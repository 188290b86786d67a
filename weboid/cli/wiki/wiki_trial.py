"""`weboid wiki trial`: simulation of the coming weeks on a copy of the registry."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import click

from core.clock import CLOCK_OFFSET, SystemClock
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.checker.check_leases import release_all_leases
from links.registry.database import RegistryStore, open_registry_store
from links.registry.wikis import Wiki, change_wiki
from playback.access.decision_store import copy_decisions
from warc.index.database import INDEX_URL
from weboid.app.collection_snapshot import make_trial_copy
from weboid.app.registry_trial import LinkForecast, RegistryTrial
from weboid.app.text_table import clean
from weboid.app.wiki_clients import settings_of_wiki
from weboid.app.wiki_intake import read_note
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import ExitCode, argument, cli_command, option
from weboid.cli.support.options import OUTPUT, CommandOutput
from weboid.cli.wiki.bot_setup import choose_wiki
from weboid.cli.wiki.wiki_watch import lease_holder_name
from wiki.settings import WikiSettings, replace_settings

_CLOCK = SystemClock()
_SHARED = frozenset({INDEX_URL, "WEBOID_FRONTIER", "WEBOID_DEDUP"})  # stores that are no copies
_GONE = CheckResult(
    StatusCode.REFUSED, CheckVerdict.FAILING, CheckMethod.HEAD, note="tcp: refused", whole_host=True
)


@cli_command("trial")
def command(
    *,
    name: str = argument("[WIKI]", required=False, default=""),
    days: int = option("Days to simulate.", type=click.IntRange(1, 400), default=40),
    gone: tuple[str, ...] = option(
        "Simulate that this host no longer answers; may be given several times.", metavar="HOST"
    ),
    limit: int = option("So many links.", type=click.IntRange(1, 10_000), default=200),
    keep: Path | None = option(
        "Keep the copy there, for `weboid --clock-offset 40d … --collection DIR`.",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
    ),
    bot: bool = option(
        "Show what the bot would write then.", "--bot/--no-bot", default=True, show_default=False
    ),
    where: CommandTarget = TARGET,
    output: CommandOutput = OUTPUT,
) -> int:
    """Simulate the coming weeks of a wiki's links, and show the bot's edits at the end.

    Every link is checked once, now; each later check that is due, and each browser confirmation, is
    assumed to have the same result. --gone simulates the loss of a host. All happens on a copy of
    the
    registry: neither the real one nor the wiki is changed.
    """
    with ExitStack() as stack:
        root = keep or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "trial"
        url = where.settings.index.url
        copy = make_trial_copy(where.layout, root, url)
        if url:
            with where.stores.decisions() as decisions:
                copy_decisions(decisions, copy.decisions_db)
        store = stack.enter_context(closing(open_registry_store(copy, "")))
        wiki = _released(store, choose_wiki(store, name), read_note(where.layout).front)
        trial = RegistryTrial(store, wiki, where.settings, lease_holder_name(), limit)
        forecasts = trial.run(days, {host.lower() for host in gone})
        document = {"wiki": str(wiki.name), "links": [vars(each) for each in forecasts]}
        output.show(document, _lines(forecasts, days))
        if bot and not output.is_json and any(each.events for each in forecasts):
            click.echo(f"\nThe bot, {days} days from now:")
            return _bot(root, wiki, days, where.profile)
    return ExitCode.OK


def _released(store: RegistryStore, wiki: Wiki, front: str) -> Wiki:
    settings = settings_of_wiki(wiki)
    bot = replace_settings(
        settings.bot,
        "bot",
        enabled=False,
        account="",
        password_file="",
        front=settings.bot.front or front,
    )
    merged = WikiSettings(settings.feed, bot, settings.templates).merged_into(wiki.settings)
    with store.writing() as rows:
        change_wiki(rows, wiki, settings=merged)
        release_all_leases(rows)  # the checkers of a running watch
    return choose_wiki(store, str(wiki.name))


def _lines(forecasts: Sequence[LinkForecast], days: int) -> list[str]:
    lines = []
    same = 0
    for each in forecasts:
        if not each.events:
            same += 1
            continue
        lines.append(clean(each.url))
        for event in each.events:
            why = f" ({event['evidence']})" if event["evidence"] else ""
            after = f" after {event['failed']} failed checks" if event["failed"] else ""
            lines.append(clean(f"  {event['day']}  {event['state']}{after}{why}"))
    lines.append(f"{same} of {len(forecasts)} links stay as they are for {days} days.")
    return lines


def _bot(root: Path, wiki: Wiki, days: int, profile: str) -> int:
    line = [sys.executable, "-m", "weboid", "wiki", "bot", "run", str(wiki.name), "--dry-run"]
    options = [f"--collection={root}", f"--profile={profile}"]
    env = {name: value for name, value in os.environ.items() if name not in _SHARED}
    ran = subprocess.run([*line, *options], env={**env, CLOCK_OFFSET: f"{days}d"}, check=False)
    # A bot without a front or archives refuses with the reason, as it would on that day.
    refused = (ExitCode.OK, ExitCode.SOME_FAILED, ExitCode.INPUT)
    return ExitCode.OK if ran.returncode in refused else ExitCode.SOME_FAILED
