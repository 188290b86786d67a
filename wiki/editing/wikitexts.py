"""The craft of a wiki whose pages are wikitext, with its template map (`wiki.editing.crafts.Craft`).

    kit = await prepare(api, settings.templates)
    craft = kit.craft(settings.bot, now)

`prepare` asks the wiki for its language, and which of the templates that an edit would write it has: what
it has not is never written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from wiki.api.client import Api
from wiki.api.revisions import existing
from wiki.api.site import site_facts
from wiki.settings import BotSettings
from wiki.wikitext.citations import Citation
from wiki.wikitext.permission import is_busy, may_edit, may_message
from wiki.wikitext.reading import read_citations
from wiki.wikitext.repairing import repair
from wiki.wikitext.repairing_types import Remedy, Repaired, RepairOptions
from wiki.wikitext.repairing_words import limited
from wiki.wikitext.rules import Rules, rules_for
from wiki.wikitext.telling import Message, Sender, message, summary

_TEMPLATES: Final = 10  # the namespace


@dataclass(frozen=True)
class WikitextCraft:
    """Reads and repairs wikitext; see `Craft`.

    Attributes:
        rules: the wiki's, for reading.
        writing: the same without templates that the wiki does not have.
        options: how repairs are made.
        sender: who speaks; its job is filled in.
    """

    rules: Rules
    writing: Rules
    options: RepairOptions
    sender: Sender

    @property
    def today(self) -> date:
        """The day until which a date can be one of access."""
        return self.options.now.date()

    def read(self, text: str) -> Sequence[Citation]:
        """The citations in the text, in its order."""
        return read_citations(text, self.rules, today=self.today, own=self.options.own)

    def repair(self, text: str, remedies: Mapping[str, Remedy]) -> Repaired:
        """The text, with the remedies (by `Citation.url`) applied."""
        return repair(text, self.read(text), remedies, self.writing, self.options)

    def may_edit(self, text: str) -> bool:
        """Whether the page lets this bot edit it, and nobody says to be at work on it."""
        return may_edit(text, self.options.bot) and not is_busy(text)

    def may_write(self, text: str) -> bool:
        """Whether a talk page lets this bot write on it."""
        return may_message(text, self.options.bot)

    def summary(self, repaired: Repaired, job: str) -> str:
        """The summary of the edit."""
        return summary(repaired.changes, self.rules.language, self._sender(job))

    def message(self, repaired: Repaired, job: str, *, is_done: bool) -> Message:
        """What is said on the talk page."""
        language = self.rules.language
        return message(repaired.changes, language, self._sender(job), is_done=is_done)

    def _sender(self, job: str) -> Sender:
        return Sender(job, self.sender.run_page, self.sender.hold)


@dataclass(frozen=True)
class Kit:
    """What a wiki's craft is made of.

    Attributes:
        rules: for reading.
        writing: for writing.
        hold: the template that keeps bots from a link; empty when the wiki has none.
        language: of the wiki's content; its rules may be another language's.
    """

    rules: Rules
    writing: Rules
    hold: str = ""
    language: str = ""

    def craft(self, settings: BotSettings, now: datetime) -> WikitextCraft:
        """The craft, as the settings want it at that moment."""
        options = RepairOptions(
            now,
            account_name(settings.account),
            settings.convert_bare,
            settings.tag_dead,
            (settings.front.rstrip("/"),) if settings.front else (),
            self.language,
        )
        sender = Sender("", settings.run_page, self.hold)
        return WikitextCraft(self.rules, self.writing, options, sender)


async def prepare(api: Api, templates: Mapping[str, Any] | None = None) -> Kit:
    """What the wiki's craft is made of.

    Args:
        api: the wiki's.
        templates: its own template map (`wiki.settings.WikiSettings`).

    Raises:
        ConfigError: the map has unknown keys, or values of the wrong kind.
        WikiAwayError: the wiki does not answer.
    """
    facts = await site_facts(api)
    rules = rules_for(facts.language, templates)
    namespace = facts.namespaces.get(_TEMPLATES)
    prefix = namespace.name if namespace is not None else "Template"
    asked: dict[str, str] = {}

    def ask(name: str) -> bool:
        asked[name] = f"{prefix}:{name}"
        return True

    limited(rules, ask)  # which it wants to know of
    hold = next(iter(sorted(rules.hold_tags)), "")
    if hold:
        ask(hold)
    there = await existing(api, asked.values())
    has: Callable[[str], bool] = lambda name: asked.get(name, "") in there  # noqa: E731
    return Kit(rules, limited(rules, has), hold if has(hold) else "", facts.language)


def account_name(login: str) -> str:
    """The account of a login: without the bot password's own name.

    >>> account_name("Repairer@weboid")
    'Repairer'
    """
    return login.partition("@")[0].strip()
