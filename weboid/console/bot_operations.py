"""The bot in the console's API: switches of wikis, pages and domains, pages to repair, previews, edits and reviews."""

import asyncio
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from core.errors import ConfigError, InputError, TransientError
from core.json_values import FactsOf, json_facts
from links.registry.bot_edits import BotEdit, EditKind, EditState, count_edits, edits_by_id, last_edits, newest_edits
from links.registry.pages import find_pages
from links.registry.urls import urls_by_id
from links.registry.wikis import Wiki, all_wikis, known_wiki, parse_wiki
from playback.web.i18n import noop
from weboid.app.link_facts import moment_text
from weboid.app.wiki.bot_run import BotRun, OutcomeFacts, change_bot, edit_facts, outcome_facts, switch_parts
from weboid.app.wiki.wiki_clients import settings_of_wiki
from weboid.console import operations
from weboid.console.accounts import ConsoleRole
from weboid.console.link_operations import PageTitle, WikiId, known_page
from wiki.bot.page_edit import PageEditResult, PageEditStatus
from wiki.bot.page_selection import pages_with_lost_links
from wiki.bot.past_edits import RevertReview, review_revert
from wiki.bot.wiki_bot import BotOptions
from wiki.settings import replace_settings

RUN_S = 120.0  # a preview or an approved edit at most


def _wiki(context: operations.OperationContext, name: str) -> Wiki:
    with context.registry.reading() as rows:
        return known_wiki(rows, parse_wiki(name))


# ------------------------------------------------------------------------------------------------------------ switches

BotFacts = Annotated[dict[str, Any], FactsOf(
    "BotFacts", wiki=str, enabled=bool | None, problem=NotRequired[str], not_pages=NotRequired[list[str]],
    not_domains=NotRequired[list[str]], account=NotRequired[str | None], edits=dict[str, int],
)]  # fmt: skip
BotList = TypedDict("BotList", {"wikis": list[BotFacts]})
BotSwitch = TypedDict("BotSwitch", {"wiki": str, "enabled": bool, "message": str})
BotExceptions = TypedDict(
    "BotExceptions", {"wiki": str, "not_pages": tuple[str, ...], "not_domains": tuple[str, ...], "message": str}
)


@operations.resource("/bot", ConsoleRole.REVIEWER)
def list_bots(context: operations.OperationContext) -> BotList:
    """Return the bot's switch and edits by state on every wiki."""
    with context.registry.reading() as rows:
        wikis = [str(each.name) for each in all_wikis(rows)]
    return {"wikis": [read_bot(context, each) for each in wikis]}


@operations.resource("/bot/wiki", ConsoleRole.REVIEWER)
def read_bot(context: operations.OperationContext, wiki: WikiId) -> BotFacts:
    """Return the bot's switch, its account, what it leaves alone, and its edits by state on a wiki."""
    known = _wiki(context, wiki)
    with context.registry.reading() as rows:
        counts = count_edits(rows, known.id, EditKind.PAGE)
    edits = {state.name.lower(): count for state, count in sorted(counts.items())}
    try:
        bot = settings_of_wiki(known).bot
    except ConfigError as error:
        return {"wiki": str(known.name), "enabled": None, "problem": str(error), "edits": edits}
    return {
        "wiki": str(known.name),
        **json_facts(bot, "enabled not_pages not_domains"),
        "account": bot.account or None,
        "edits": edits,
    }


@operations.operation("/bot", ConsoleRole.OPERATOR, state=read_bot)
def set_bot(context: operations.OperationContext, *, wiki: WikiId, enabled: bool) -> BotSwitch:
    """Switch a wiki's bot on or off; a run in progress stops at its next batch of pages."""
    known = _wiki(context, wiki)
    bot = settings_of_wiki(known).bot
    if enabled and not bot.account:
        raise InputError(noop("The bot has no account yet: `weboid wiki bot on %(wiki)s` names one."), wiki=wiki)
    change_bot(context.registry, known, replace_settings(bot, "bot", enabled=enabled))
    return {"wiki": wiki, "enabled": enabled, "message": f"The bot is {'on' if enabled else 'off'}."}


@operations.operation("/bot/switches", ConsoleRole.CURATOR, state=read_bot)
def switch_bot(
    context: operations.OperationContext,
    *,
    wiki: WikiId,
    title: Annotated[str, Field(max_length=1_000, description="A page's title; or `domain`.")] = "",
    domain: Annotated[
        str, Field(max_length=300, description="A host whose links are meant, with its subdomains.")
    ] = "",
    enabled: bool,
    reason: operations.Reason = "",  # noqa: ARG001 for the audit log
) -> BotExceptions:
    """Switch the bot on or off for a page or all links of a domain."""
    if bool(title) == bool(domain):
        raise InputError(noop("Name a page by its title, or a domain."))
    pages, domains = [title] * bool(title), [domain] * bool(domain)
    bot = switch_parts(context.registry, _wiki(context, wiki), pages=pages, domains=domains, is_on=enabled)
    verb = "repairs" if enabled else "leaves alone"
    return {
        "wiki": wiki,
        "not_pages": bot.not_pages,
        "not_domains": bot.not_domains,
        "message": f"The bot {verb} {title or domain}.",
    }


# ------------------------------------------------------------------------------------------------------------- repairs

LastRepair = TypedDict("LastRepair", {"state": str, "moment": operations.Moment | None})
PageToRepair = TypedDict("PageToRepair", {"page_id": int, "title": str, "off": bool, "last": LastRepair | None})
RepairList = TypedDict("RepairList", {"pages": list[PageToRepair], "next": str | None})
NeedlessRepair = TypedDict(
    "NeedlessRepair",
    {"page": str, "did": Literal["off", "nothing"], "changes": list[str], "diff": list[str], "digest": None},
)
ApprovedRepair = Annotated[dict[str, Any], FactsOf("ApprovedRepair", OutcomeFacts, message=str)]
SkippedRepair = TypedDict("SkippedRepair", {"page": str, "message": str})


@operations.resource("/bot/pages", ConsoleRole.REVIEWER)
def list_pages_to_repair(
    context: operations.OperationContext, wiki: WikiId, cursor: operations.Cursor = "", limit: operations.Limit = 100
) -> RepairList:
    """Return pages of a wiki with dead links, and what the bot did there last."""
    known = _wiki(context, wiki)
    bot = settings_of_wiki(known).bot
    ids = list(islice(pages_with_lost_links(context.registry, known, beyond=operations.cursor_number(cursor)), limit))
    with context.registry.reading() as rows:
        pages, last = find_pages(rows, known.id, ids), last_edits(rows, known.id, ids)
    repairs: list[PageToRepair] = [
        {
            "page_id": each,
            "title": pages[each].title,
            "off": bot.is_off_for(title=pages[each].title),
            "last": {"state": last[each].state.name.lower(), "moment": moment_text(last[each].moment)}
            if each in last
            else None,
        }
        for each in ids
        if each in pages
    ]
    return {"pages": repairs, "next": str(ids[-1]) if len(ids) == limit else None}


@operations.resource("/bot/preview", ConsoleRole.REVIEWER)
def preview_repair(
    context: operations.OperationContext, wiki: WikiId, title: PageTitle
) -> OutcomeFacts | NeedlessRepair:
    """Read a page from its wiki, and return what the bot would change there, as a unified diff; nothing is written.

    `digest` names this very change: an approval carries it.
    """
    known, _ = known_page(context, wiki, title)
    is_off = settings_of_wiki(known).bot.is_off_for(title=title)
    return _run(context, known, BotOptions((title,), is_dry=True)) or {
        "page": title,
        "did": "off" if is_off else "nothing",
        "changes": [],
        "diff": [],
        "digest": None,
    }


def _run(context: operations.OperationContext, wiki: Wiki, run_options: BotOptions) -> OutcomeFacts:
    """Run the bot over the one page that `run_options` names; return what it did there, empty for nothing."""
    stores = context.stores
    run = BotRun(context.registry, stores.layout, stores.settings, wiki, stores.clock, run_options)
    done: list[PageEditResult] = []

    def note(each: PageEditResult | BotEdit) -> None:
        if isinstance(each, PageEditResult):
            done.append(each)

    async def bounded() -> None:
        with run.own_captures() as own:
            await asyncio.wait_for(run.run(own, note, asyncio.Event()), RUN_S)

    try:
        asyncio.run(bounded())
    except TimeoutError as error:
        raise TransientError(f"{wiki.name} did not answer within {RUN_S:.0f} s: try again.") from error
    return outcome_facts(done[-1]) if done else {}


@operations.operation("/bot/repairs", ConsoleRole.CURATOR)
def approve_repair(
    context: operations.OperationContext,
    wiki: WikiId,
    title: PageTitle,
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="Of the preview.")],
) -> ApprovedRepair:
    """Edit a page as its preview showed, also where the bot is off; 409 when it would be another one by now."""
    known, _ = known_page(context, wiki, title)
    done = _run(context, known, BotOptions((title,), limit=1, approved=digest))
    if done.get("did") == PageEditStatus.EDITED.name.lower():
        return {**done, "message": f"{title} was edited."}
    if done.get("did") == PageEditStatus.CHANGED.name.lower():
        raise operations.StateConflictError(noop("The edit would be different now: look at the preview again."))
    why = ": ".join(filter(None, (str(done.get("did", "nothing to do")), str(done.get("note", "")))))
    raise InputError(noop("%(title)s was not edited (%(reason)s)."), title=title[:200], reason=why)


@operations.operation("/bot/skips", ConsoleRole.CURATOR)
def skip_repair(context: operations.OperationContext, wiki: WikiId, title: PageTitle) -> SkippedRepair:
    """Skip a page until its text or the state of its links changes."""
    known, page = known_page(context, wiki, title)
    stores = context.stores
    run = BotRun(context.registry, stores.layout, stores.settings, known, stores.clock, BotOptions())
    asyncio.run(asyncio.wait_for(run.skip(page.page_id), RUN_S))
    return {"page": title, "message": f"{title} is left unchanged until it changes."}


# --------------------------------------------------------------------------------------------------- edits and reviews

LinkEdit = Annotated[dict[str, Any], FactsOf(
    "LinkEdit", kind=str, before=str, after=str, is_undone=bool, url=str | None,
)]  # fmt: skip
EditFacts = Annotated[dict[str, Any], FactsOf(
    "EditFacts", BotEdit, "page_id kind state job rev undone_rev note", event=Literal["edit"], edit=int,
    undone_by=str | None, reviewed_by=str | None, moment=datetime | None, wiki=str, page=str | None,
    changes=list[LinkEdit],
)]  # fmt: skip
EditList = TypedDict("EditList", {"edits": list[EditFacts], "next": str | None})
ReviewedEdit = TypedDict("ReviewedEdit", {"edit": int, "state": str, "message": str})


@operations.resource("/bot/edits", ConsoleRole.REVIEWER)
def list_bot_edits(
    context: operations.OperationContext,
    wiki: Annotated[str, Field(max_length=200)] = "",
    state: operations.names_of(EditState) | None = None,  # type: ignore[valid-type]
    cursor: operations.Cursor = "",
    limit: operations.Limit = 100,
) -> EditList:
    """Return edits of the bot with their changes, the newest first."""
    states = [EditState[state.upper()]] if state else list(EditState)
    before = {"before": operations.cursor_number(cursor)} if cursor else {}
    with context.registry.reading() as rows:
        wikis = [known_wiki(rows, parse_wiki(wiki))] if wiki else all_wikis(rows)
        wiki_edits = [e for each in wikis for e in newest_edits(rows, each.id, states, limit=limit, **before)]
    edits = sorted(wiki_edits, key=lambda each: each.id, reverse=True)[:limit]
    return {"edits": _edit_facts(context, edits), "next": str(edits[-1].id) if len(edits) == limit else None}


@operations.resource("/bot/edit", ConsoleRole.REVIEWER)
def read_edit(context: operations.OperationContext, edit: operations.Number) -> EditFacts:
    """Return an edit of the bot with its changes."""
    return _edit_facts(context, [_edit(context, edit)])[0]


def _edit(context: operations.OperationContext, number: int) -> BotEdit:
    with context.registry.reading() as rows:
        edit = edits_by_id(rows, [number]).get(number)
    if edit is None:
        raise operations.UnknownThingError(f"There is no edit {number}.")
    return edit


def _edit_facts(context: operations.OperationContext, edits: list[BotEdit]) -> list[EditFacts]:
    with context.registry.reading() as rows:
        names = {each.id: str(each.name) for each in all_wikis(rows)}
        links = urls_by_id(rows, {change.url_id for edit in edits for change in edit.changes})
        titles = {
            (wiki_id, page.page_id): page.title
            for wiki_id in {each.wiki_id for each in edits}
            for page in find_pages(rows, wiki_id, {e.page_id for e in edits if e.wiki_id == wiki_id}).values()
        }
    return [
        {
            **edit_facts(edit),
            "moment": moment_text(edit.moment),
            "wiki": names.get(edit.wiki_id, ""),
            "page": titles.get((edit.wiki_id, edit.page_id)),
            "changes": [
                {
                    **json_facts(each, "kind before after is_undone"),
                    "url": links[each.url_id].url if each.url_id in links else None,
                }
                for each in edit.changes
            ],
        }
        for edit in edits
    ]


@operations.operation("/bot/reviews", ConsoleRole.REVIEWER, state=read_edit)
def review_edit(
    context: operations.OperationContext,
    edit: operations.Number,
    verdict: Annotated[
        Literal["accept", "decline"], Field(description="accept: the revert was right; decline: the edit was.")
    ],
    reason: operations.Reason = "",
) -> ReviewedEdit:
    """Accept or decline the revert of an edit."""
    review = RevertReview(verdict == "accept", context.user.name, reason)
    done = review_revert(context.registry, _edit(context, edit).wiki_id, edit, review, now=context.now)
    state = done.state.name.lower()
    return {"edit": done.id, "state": state, "message": f"Edit {done.id} is {state}."}
