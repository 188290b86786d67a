"""Run of a wiki's bot, as `weboid wiki bot run`, the console and its API start it; its results as JSON values."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from core.clock import Clock
from core.config.settings import Settings
from core.errors import BadUrlError, InputError
from core.json_values import FactsOf, json_facts
from core.layout import Layout
from core.urls import fetch_key, host_of
from links.check_history import day_of
from links.feedback.reporter_limits import open_reporter_digests
from links.registry.bot_edits import BotEdit, IntendedEdit, note_nothing_to_do
from links.registry.database import RegistryStore
from links.registry.lookups import pages_by_title
from links.registry.wikis import Wiki, change_wiki, wiki_of
from weboid.app.copy_sources import OwnCaptures, open_archives, open_own_captures
from weboid.app.wiki.wiki_clients import bot_api, settings_of_wiki
from wiki.api.client import ApiTiming
from wiki.api.page_query import read_heads
from wiki.bot.page_edit import PageEditResult, task_basis
from wiki.bot.page_selection import edit_tasks
from wiki.bot.remedies import CopyChecker, CopyPreferences
from wiki.bot.wiki_bot import BotDependencies, BotOptions, BotRunSummary, WikiBot, new_job_name
from wiki.bot.wikitext_adapter import prepare_adapter
from wiki.settings import BotSettings
from wiki.wikitext.citation_model import RepairedText


@dataclass(frozen=True)
class BotRun:
    """Run over a wiki, or its pages."""

    store: RegistryStore
    layout: Layout
    settings: Settings
    wiki: Wiki
    clock: Clock
    run_options: BotOptions
    front: str | None = None  # origin of our own copies in place of the wiki's setting

    @property
    def bot(self) -> BotSettings:
        """Return the bot's settings for this run."""
        return self.adjusted(settings_of_wiki(self.wiki).bot)

    def adjusted(self, settings: BotSettings) -> BotSettings:
        """Return the settings with this run's origin of our own copies; approved edits do not need the bot to be on."""
        front = settings.front if self.front is None else self.front
        return replace(settings, front=front, enabled=settings.enabled or bool(self.run_options.approved))

    @contextmanager
    def own_captures(self) -> Iterator[OwnCaptures | None]:
        """Yield our own captures; None when no public origin of them is known."""
        if front := self.bot.front:
            with open_own_captures(self.layout, self.settings.index.url, front) as own:
                yield own
        else:
            yield None

    async def run(
        self,
        own: OwnCaptures | None,
        on_result: Callable[[PageEditResult | BotEdit], None],
        stopped: asyncio.Event,
        *,
        is_look_back: bool = False,
    ) -> tuple[BotRunSummary, str]:
        """Run the bot until its end or `stopped`; return what it did, and its name. Raises as `WikiBot.run`."""
        settings = settings_of_wiki(self.wiki)
        api = bot_api(self.wiki, self.settings, needs_account=not self.run_options.is_dry)
        origins = (self.bot.front,) if self.bot.front else ()
        async with api, open_archives(self.settings, origins=origins) as archives:
            adapter = await prepare_adapter(api, settings.templates)
            now, order = self.clock.now(), tuple(self.settings.links.archives)  # after our own copies
            choosing = CopyPreferences(now, order)
            if own is not None:
                choosing = CopyPreferences(now, order, own, own.title, has_own=True)
            checker, digests = CopyChecker(archives.client, origins, bool(order)), open_reporter_digests(self.layout)
            makers = BotDependencies(adapter.with_settings, choosing, checker, digests)
            makers = replace(makers, is_over=stopped.is_set, adjust=self.adjusted)
            job = new_job_name(now, random.SystemRandom())

            async def pause(seconds: float) -> None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), seconds)

            bot = WikiBot(
                self.store, api, self.wiki, makers, ApiTiming(self.clock, pause), job, on_result, self.run_options
            )
            return await (bot.look_back() if is_look_back else bot.run()), job

    async def skip(self, page_id: int) -> None:
        """Skip a page until its text or the state of its links changes. Raises InputError."""
        settings, now = self.bot, self.clock.now()
        async with bot_api(self.wiki, self.settings, needs_account=False) as api:
            head = (await read_heads(api, [page_id])).get(page_id)
        tasks = edit_tasks(self.store, self.wiki, [page_id], settings, now=int(now.timestamp()), day=day_of(now))
        if head is None or not head.rev_id or not tasks:
            raise InputError("The page needs no repair.")
        wanted = IntendedEdit(page_id, new_job_name(now, random.SystemRandom()), head.rev_id)
        with self.store.writing() as rows:
            basis = task_basis(tasks[0], settings)
            note_nothing_to_do(rows, self.wiki.id, wanted, basis, moment=int(now.timestamp()))


def change_bot(store: RegistryStore, wiki: Wiki, bot: BotSettings) -> None:
    """Store the bot's settings for a wiki; its other settings stay as they are by now."""
    with store.writing() as rows:
        wiki = wiki_of(rows, wiki.id)
        change_wiki(rows, wiki, settings=replace(settings_of_wiki(wiki), bot=bot).merged_into(wiki.settings))


def switch_parts(
    store: RegistryStore, wiki: Wiki, *, pages: Sequence[str] = (), domains: Sequence[str] = (), is_on: bool
) -> BotSettings:
    """Switch the bot on or off for pages and domains; return its settings. InputError: one of them is unknown."""
    try:
        hosts = [host_of(fetch_key(each if "://" in each else f"http://{each}")).partition(":")[0] for each in domains]
    except BadUrlError as error:
        raise InputError(f"{', '.join(domains)[:200]!r} has a name that is not a domain: write example.org.") from error
    with store.writing() as rows:
        wiki = wiki_of(rows, wiki.id)
        known = pages_by_title(rows, wiki.id, pages)
        if missing := [title for title in pages if title not in known and not is_on]:
            raise InputError(f"The registry does not know the page {missing[0][:200]!r} of {wiki.name}.")
        settings = settings_of_wiki(wiki)
        titles = [known[title].title if title in known else title for title in pages]
        bot = settings.bot.switched(pages=titles, domains=hosts, is_on=is_on)
        change_wiki(rows, wiki, settings=replace(settings, bot=bot).merged_into(wiki.settings))
    return bot


RepairedLink = Annotated[dict[str, Any], FactsOf("RepairedLink", kind=str, url=str, copy=str | None)]
UnrepairedLink = Annotated[dict[str, Any], FactsOf("UnrepairedLink", url=str, reason=str)]
OutcomeFacts = Annotated[dict[str, Any], FactsOf(
    "OutcomeFacts", PageEditResult, "page_id note did", event=Literal["page"], page=str, rev=int | None,
    digest=str | None, changes=list[RepairedLink], refused=list[UnrepairedLink], diff=list[str],
)]  # fmt: skip


def outcome_facts(outcome: PageEditResult) -> OutcomeFacts:
    """Return an outcome as JSON values."""
    done = RepairedText("") if outcome.repaired is None else outcome.repaired
    return {
        "event": "page",
        **json_facts(outcome, "page_id note", page="title"),
        "did": outcome.did.name.lower(),
        "rev": outcome.rev or None,
        "digest": outcome.digest or None,
        "changes": [json_facts(each, "kind url") | {"copy": each.archive_url or None} for each in done.changes],
        "refused": [{"url": each.citation.url, "reason": str(each.reason)} for each in done.refused],
        "diff": outcome.diff(),
    }


def edit_facts(edit: BotEdit) -> dict[str, Any]:
    """Return an edit as JSON values."""
    return {
        "event": "edit",
        **json_facts(edit, "page_id kind state job moment rev undone_rev note", edit="id"),
        "undone_by": edit.undone_by or None,
        "reviewed_by": edit.reviewed_by or None,
        "changes": [json_facts(each, "kind url_id is_undone") for each in edit.changes],
    }


def tally_facts(tally: BotRunSummary, job: str) -> dict[str, Any]:
    """Return the summary of a run as JSON values."""
    return {
        "event": "summary",
        "job": job,
        "did": {status.name.lower(): count for status, count in tally.did.items()},
        **json_facts(tally, "changes refused skipped settled undone to_review messages unknown"),
    }
