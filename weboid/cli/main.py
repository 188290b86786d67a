"""Root command `weboid`, its `main()`, and the tables of all lazily imported commands."""

import json
import logging
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Never

import click

from core.clock import CLOCK_OFFSET
from core.clock import clock_offset as offset_now
from core.errors import WeboidError
from weboid.cli.support.commands import QUIET, ExitCode, LazyGroup, cli_command, exit_code_for
from weboid.cli.support.former_names import with_current_name

_COMMANDS = {
    "alive": "weboid.cli.healthcheck",
    "archive": "weboid.cli.crawl.archive_command:archive_command",
    "crawl": "weboid.cli.crawl.crawl_command:crawl_command",
    "doctor": "weboid.cli.maintenance:doctor_command",
    "embed": "weboid.cli.main:embed_group",
    "collection": "weboid.cli.maintenance:collection_group",
    "config": "weboid.cli.init:config_group",
    "queue": "weboid.cli.crawl.frontier_items:queue_group",
    "init": "weboid.cli.init",
    "level": "weboid.cli.level",
    "links": "weboid.cli.main:links_group",
    "login": "weboid.cli.setup:login_group",
    "monitor": "weboid.cli.crawl.crawl_status:monitor_command",
    "policy": "weboid.cli.crawl.policy_commands:policy_group",
    "qa": "weboid.cli.qa.qa_check",
    "proxy": "weboid.cli.crawl.cluster_processes:proxy_command",
    "scan": "weboid.cli.scan:scan_group",
    "serve": "weboid.cli.serve",
    "setup": "weboid.cli.installation:setup_group",
    "sheet": "weboid.cli.crawl.crawl_control:sheet_command",
    "status": "weboid.cli.crawl.crawl_status:status_command",
    "takedown": "weboid.cli.takedown:takedown_group",
    "worker": "weboid.cli.crawl.cluster_processes:worker_command",
    "wiki": "weboid.cli.main:wiki_group",
}


_SECTIONS = {
    "Archive": "init archive config login collection",
    "Crawl": "crawl status queue",
    "Read": "serve embed",
    "Quality": "qa",
    "Links": "links",
    "Wikis": "wiki",
    "Rules": "policy level takedown scan",
    "Operate": "doctor setup monitor proxy worker",
}


class _RootGroup(LazyGroup):
    """Group of all commands, which takes former names of commands, too."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the arguments' present or former name."""
        return super().resolve_command(ctx, with_current_name(args))


class _JsonFormatter(logging.Formatter):
    """Log lines as JSON objects: time, level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=False)


def _print_versions(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 of click
    """Print the versions of the program, its libraries and the browser, and end."""
    if not value:
        return
    from render.chromium import find_browser

    click.echo(f"weboid, version {version('weboid')}")
    try:
        browser = find_browser()
        click.echo(f"browser {browser.version} ({browser.path})")
    except WeboidError:
        click.echo("browser: none found; see `weboid doctor`")
    libraries = ("warcio", "warcprox", "nh3", "pillow", "sqlalchemy", "redis", "click")
    click.echo(", ".join(f"{name} {version(name)}" for name in libraries))
    click.echo(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    context.exit()


@click.group(cls=_RootGroup, commands_at=_COMMANDS, sections=_SECTIONS, rare="alive sheet")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Show the versions of program, browser and libraries, and exit.",
)
@click.option(
    "-q", "--quiet", is_flag=True, envvar="WEBOID_QUIET", help="Print errors and results only."
)
@click.option("-v", "--verbose", is_flag=True, envvar="WEBOID_VERBOSE", help="Log more details.")
@click.option(
    "--no-color",
    is_flag=True,
    envvar="WEBOID_NO_COLOR",
    help="Print without colours.",
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    envvar="WEBOID_LOG_FORMAT",
    help="Format of log lines on standard error.",
)
@click.option(
    "--clock-offset",
    metavar="DURATION",
    envvar=CLOCK_OFFSET,
    help="Move the clock forward, on the copy of a trial (`weboid wiki trial --keep DIR`): 10d.",
)
@click.pass_context
def weboid(
    context: click.Context,
    *,
    quiet: bool,
    verbose: bool,
    no_color: bool,
    log_format: str,
    clock_offset: str | None,
) -> None:
    """Archive what a wiki cites, and play it back safely."""
    if clock_offset:
        os.environ[CLOCK_OFFSET] = clock_offset  # the processes that we start have the same time
    if moved := offset_now():
        click.echo(f"weboid: the clock is moved by {moved}: this is a trial.", err=True)
    if no_color or os.environ.get("NO_COLOR"):  # https://no-color.org
        os.environ["NO_COLOR"] = "1"
        context.color = False
    handler = logging.StreamHandler(sys.stderr)
    is_json = log_format == "json"
    handler.setFormatter(
        _JsonFormatter() if is_json else logging.Formatter("%(levelname)s %(message)s")
    )
    level = logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, handlers=[handler])
    context.meta[QUIET] = quiet


def main(arguments: Sequence[str] | None = None) -> Never:
    """Run the command line; every expected error ends with a message and its exit code."""
    os.umask(os.umask(0o077) | 0o007)  # what we write is for the owner, and for a group if he likes
    try:
        code = weboid.main(arguments, prog_name="weboid", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else ExitCode.OK)
    except click.ClickException as error:
        error.show()
        sys.exit(ExitCode.INPUT)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(ExitCode.STOPPED)
    except WeboidError as error:
        click.echo(f"weboid: {error}", err=True)
        sys.exit(exit_code_for(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has closed the pipe
        sys.exit(ExitCode.OK)


_LINKS_COMMANDS: dict[str, str] = {
    "add-page": "weboid.cli.links.registry_input:add_page_command",
    "check": "weboid.cli.links.link_check:check_command",
    "confirm": "weboid.cli.links.link_confirmation:confirm_command",
    "copies": "weboid.cli.links.link_copies",
    "exclude": "weboid.cli.links.link_search_commands:exclude_group",
    "import": "weboid.cli.links.registry_input:import_command",
    "interwiki": "weboid.cli.links.registry_input:interwiki_command",
    "ls": "weboid.cli.links.registry_view:list_command",
    "mark": "weboid.cli.links.link_feedback:mark_group",
    "mirror": "weboid.cli.links.other_archives:mirror_command",
    "passes": "weboid.cli.links.registry_upkeep:passes_command",
    "purge": "weboid.cli.links.registry_upkeep:purge_command",
    "recognise": "weboid.cli.links.other_archives:recognise_command",
    "replace": "weboid.cli.links.link_feedback:replace_command",
    "report": "weboid.cli.links.link_feedback:report_command",
    "search": "weboid.cli.links.link_search_commands:search_command",
    "show": "weboid.cli.links.registry_view:show_command",
    "spam": "weboid.cli.links.link_spam:spam_group",
}


@cli_command(
    "links",
    cls=LazyGroup,
    commands_at=_LINKS_COMMANDS,
    rare="add-page confirm interwiki passes purge recognise",
)
def links_group() -> None:
    """Manage the registry of cited links and their state.

    The registry stores every external link of every known page, checks each for years, and answers
    at once. See docs/reference/registry.md.
    """


_WIKI_COMMANDS: dict[str, str] = {
    "add": "weboid.cli.wiki.wiki_add",
    "bot": "weboid.cli.main:bot_group",
    "check": "weboid.cli.wiki.wiki_overview:check_command",
    "ls": "weboid.cli.wiki.wiki_overview:list_command",
    "read": "weboid.cli.wiki.wikitext_files:read_command",
    "repair": "weboid.cli.wiki.wikitext_files:repair_command",
    "set": "weboid.cli.links.registry_input:set_wiki_command",
    "sweep": "weboid.cli.wiki.wiki_sweep",
    "trial": "weboid.cli.wiki.wiki_overview:trial_command",
    "watch": "weboid.cli.wiki.wiki_watch",
}


@cli_command("wiki", cls=LazyGroup, commands_at=_WIKI_COMMANDS, rare="read set sweep")
def wiki_group() -> None:
    """Archive the pages a wiki cites, and watch their links.

    Nothing has to be installed in the wiki: its API is polled for changes. See docs/how-to/wiki.md.
    """


_BOT_COMMANDS: dict[str, str] = {
    "ls": "weboid.cli.wiki.bot_edits:list_command",
    "off": "weboid.cli.wiki.bot_setup:off_command",
    "on": "weboid.cli.wiki.bot_setup:on_command",
    "review": "weboid.cli.wiki.bot_edits:review_command",
    "run": "weboid.cli.wiki.bot_run",
    "show": "weboid.cli.wiki.bot_edits:show_command",
}


@cli_command("bot", cls=LazyGroup, commands_at=_BOT_COMMANDS)
def bot_group() -> None:
    """Repair citations of dead links on a wiki, as a bot. See docs/how-to/bot.md.

    Nothing is edited until `on` has named an account of the bot's own; `run --dry-run` shows the
    planned edits before that. NAME may be omitted where one wiki is known.
    """


_EMBED_COMMANDS: dict[str, str] = {
    "filter": "weboid.cli.embed:filter_command",
    "proxy": "weboid.cli.embed:proxy_command",
    "urls": "weboid.cli.embed:urls_command",
}


@cli_command("embed", cls=LazyGroup, commands_at=_EMBED_COMMANDS, rare="urls")
def embed_group() -> None:
    """Insert the cached copy next to each external link of any HTML.

    For wikis of every engine, and for sites of plain files: nothing is installed there. See
    docs/how-to/embedding.md.
    """
