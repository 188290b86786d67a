"""Adapter between bot and wikitext: reads, repairs and verifies the pages of one wiki.

Templates for edits that do not exist on the wiki are never written. Repairs are verified: the recorded
replacements must convert each text into the other; the same links must be present in the same order; and a
second repair must change nothing.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Self

from core.errors import BadUrlError, InvariantError
from core.urls import fetch_key, identity_key
from wiki.api.client import WikiApi
from wiki.api.page_query import existing_titles
from wiki.api.site_info import read_site_facts
from wiki.settings import BotSettings
from wiki.wikitext.citation_model import Citation, LinkRemedy, RepairedText, RepairOptions, ReplacedSpan
from wiki.wikitext.citation_reader import read_citations
from wiki.wikitext.edit_messages import MessageSender, TalkMessage, edit_summary, talk_message
from wiki.wikitext.page_repair import repair_page
from wiki.wikitext.repair_markup import limit_rules
from wiki.wikitext.template_map import TemplateRules, rules_for


def url_key_or_empty(url: str) -> str:
    """Return the registry's key of a URL; empty for an invalid one."""
    try:
        return identity_key(fetch_key(url, allow_single_label=True))
    except BadUrlError:
        return ""


_TEMPLATES: Final = 10  # the namespace
_NO_SETTINGS: Final = RepairOptions(datetime.min.replace(tzinfo=UTC))


@dataclass(frozen=True)
class PageAdapter:
    """Reading and repairing the wikitext of one wiki; pure."""

    rules: TemplateRules  # the wiki's, for reading
    writing: TemplateRules  # the same without templates that the wiki does not have
    hold: str = ""  # the template that excludes a link from bot edits; empty when the wiki has none
    language: str = ""  # of the wiki's content; its rules may be another language's
    options: RepairOptions = _NO_SETTINGS
    run_page: str = ""  # named in messages

    def with_settings(self, settings: BotSettings, now: datetime) -> Self:
        """Return the adapter for these settings and time."""
        options = RepairOptions(
            now,
            account_name(settings.account),
            settings.convert_bare,
            settings.tag_dead,
            (settings.front.rstrip("/"),) if settings.front else (),
            self.language,
        )
        return replace(self, options=options, run_page=settings.run_page)

    def read(self, text: str) -> Sequence[Citation]:
        """Read the citations in the text, in text order."""
        return read_citations(text, self.rules, today=self.options.now.date(), own=self.options.own)

    def repair(self, text: str, remedies: Mapping[str, LinkRemedy]) -> RepairedText:
        """Apply the remedies (by `Citation.url`) to the text."""
        return repair_page(text, self.read(text), remedies, self.writing, self.options)

    def summary(self, repaired: RepairedText, job: str) -> str:
        """Return the edit summary."""
        return edit_summary(repaired.changes, self.rules.language, self._sender(job))

    def message(self, repaired: RepairedText, job: str, *, is_done: bool) -> TalkMessage:
        """Return the talk page message."""
        return talk_message(repaired.changes, self.rules.language, self._sender(job), is_done=is_done)

    def _sender(self, job: str) -> MessageSender:
        return MessageSender(job, self.run_page, self.hold)


async def prepare_adapter(api: WikiApi, templates: Mapping[str, Any] | None = None) -> PageAdapter:
    """Create a wiki's adapter, without settings. ConfigError: an invalid template map; WikiAwayError: no answer."""
    facts = await read_site_facts(api)
    rules = rules_for(facts.language, templates)
    namespace = facts.namespaces.get(_TEMPLATES)
    prefix = namespace.name if namespace is not None else "Template"
    hold = min(rules.hold_tags, default="")
    names = {hold} - {""}

    def note(name: str) -> bool:
        names.add(name)
        return True

    limit_rules(rules, note)  # notes the names that it asks for
    titles = await existing_titles(api, [f"{prefix}:{name}" for name in sorted(names)])
    has: Callable[[str], bool] = lambda name: f"{prefix}:{name}" in titles  # noqa: E731
    return PageAdapter(rules, limit_rules(rules, has), hold if has(hold) else "", facts.language)


def account_name(login: str) -> str:
    """Return the account of a login, without the bot password's app name.

    >>> account_name("Repairer@weboid")
    'Repairer'
    """
    return login.partition("@")[0].strip()


_MOST_GROWTH: Final = 4_000  # characters that one change may add


class UnsafeRepairError(InvariantError):
    """Mismatch between a repair and its record: the page is not edited."""


def verify_repair(text: str, repaired: RepairedText, before: Sequence[Citation], after: Sequence[Citation]) -> None:
    """Raise UnsafeRepairError if the repair has unrecorded changes, loses a link or adds an unrelated one."""
    pieces = [piece for change in repaired.changes for piece in change.replacements]
    pieces.sort(key=lambda piece: (piece.span.start, piece.span.end))
    if _with_replacements(text, pieces) != repaired.text:
        raise UnsafeRepairError("A repair changes more than the parts that it declares.")
    if len(repaired.text) > len(text) + _MOST_GROWTH * len(repaired.changes):
        raise UnsafeRepairError("A repair makes the page much longer.")
    if align_citations(before, after) is None:
        raise UnsafeRepairError("The repaired text has other links than before.")
    mended = {url_key_or_empty(change.url) for change in repaired.changes}
    more = Counter(url_key_or_empty(each.url) for each in after)
    more.subtract(url_key_or_empty(each.url) for each in before)
    if any(count and key not in mended for key, count in more.items()):
        raise UnsafeRepairError("The repaired text has links that the repair does not explain.")


def align_citations(before: Sequence[Citation], after: Sequence[Citation]) -> list[int] | None:
    """Return the index of each citation in the repaired text, which may have more; None if one has none."""
    rest = enumerate(url_key_or_empty(each.url) for each in after)
    places = [next((place for place, key in rest if key == url_key_or_empty(each.url)), -1) for each in before]
    return None if -1 in places else places


def verify_idempotent(again: RepairedText, *, waits: bool) -> None:
    """Raise UnsafeRepairError if a second repair changes something that the first did not postpone."""
    if again.changes and not waits:
        raise UnsafeRepairError("A repair does not settle after one edit.")


def _with_replacements(text: str, pieces: Sequence[ReplacedSpan]) -> str:
    """Return the text with the replacements applied; empty when they do not match."""
    parts, place = [], 0
    for piece in pieces:
        if piece.span.start < place or text[piece.span.start : piece.span.end] != piece.before:
            return ""
        parts += [text[place : piece.span.start], piece.after]
        place = piece.span.end
    return "".join([*parts, text[place:]])
