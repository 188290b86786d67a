"""The bot in the console's API: its switches, edits, and reviews."""

from typing import Any, Literal

from pydantic import Field

from core.errors import InputError
from links.registry.bot_edits import edits_by_id
from links.registry.wikis import change_wiki, known_wiki, parse_wiki
from weboid.app.wiki_clients import settings_of_wiki
from weboid.console.accounts import ConsoleRole
from weboid.console.operations import Number, OperationContext, OperationFields, Reason, operation
from wiki.bot.edit_settlement import RevertReview, review_revert
from wiki.settings import WikiSettings, replace_settings


class BotFields(OperationFields):
    """Switch of a wiki's bot."""

    wiki: str
    enabled: bool


@operation("/bot", ConsoleRole.OPERATOR)
def set_bot(context: OperationContext, fields: BotFields) -> dict[str, Any]:
    """Switch a wiki's bot on or off; a run in progress stops at its next batch of pages."""
    store = context.registry
    with store.writing() as rows:
        wiki = known_wiki(rows, parse_wiki(fields.wiki))
        settings = settings_of_wiki(wiki)
        if fields.enabled and not settings.bot.account:
            raise InputError(f"The bot has no account yet: `weboid wiki bot on {fields.wiki}` names one.")
        bot = replace_settings(settings.bot, "bot", enabled=fields.enabled)
        merged = WikiSettings(settings.feed, bot, settings.templates).merged_into(wiki.settings)
        change_wiki(rows, wiki, settings=merged)
    return {
        "wiki": fields.wiki,
        "enabled": fields.enabled,
        "message": f"The bot is {'on' if fields.enabled else 'off'}.",
    }


class ReviewFields(OperationFields):
    """Review of an edit that people undid."""

    edit: Number
    verdict: Literal["accept", "decline"] = Field(description="accept: the revert was right; decline: the edit was.")
    reason: Reason = ""


@operation("/bot/reviews", ConsoleRole.REVIEWER)
def review_edit(context: OperationContext, fields: ReviewFields) -> dict[str, Any]:
    """Accept or decline the revert of an edit."""
    store = context.registry
    with store.reading() as rows:
        edit = edits_by_id(rows, [fields.edit]).get(fields.edit)
    if edit is None:
        raise InputError(f"There is no edit {fields.edit}.")
    review = RevertReview(fields.verdict == "accept", context.user.name, fields.reason)
    done = review_revert(store, edit.wiki_id, fields.edit, review, now=context.now)
    return {
        "edit": done.id,
        "state": done.state.name.lower(),
        "message": f"Edit {done.id} is {done.state.name.lower()}.",
    }
