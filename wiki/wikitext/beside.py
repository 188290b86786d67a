"""What stands beside a citation and speaks of it: dead-link tags, archive templates, access dates.

A tag speaks of the last link before it: in the same reference, or the same parameter, however far; in
a line of a list; directly behind a reference; in running text when it is near. An archive template whose
copy is of another page is a citation of its own, and so is a dead-link tag that names a link when there
is none before it.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from links.archives.recognising import is_same_page
from wiki.wikitext.citations import Parameter, Role, Tag, Way
from wiki.wikitext.drafts import Draft, Reader, address_of, decoded, is_of
from wiki.wikitext.external import is_url
from wiki.wikitext.rules import Rules
from wiki.wikitext.stretches import Beside, Stretch

_NEAR: Final = 80  # characters of running text between a link and its tag
_IN_LINE: Final = 500  # the same in a line of a list
_AFTER: Final = 160  # in which an access date is looked for
_JOINTS = re.compile(r"[\s.,;:)\]'\"*\u2013-]*")
_STOPS = re.compile(r"[\s.,;]*")
_UNSAFE = re.compile(r"\{\{|\}\}|\[\[|\]\]|[|<>\n\x00-\x08\x7f]")
_PLAIN_WAYS: Final = (Way.BARE, Way.BRACKETS, Way.TEMPLATE)


def join(stretches: Sequence[Stretch], text: str, reader: Reader, drafts: list[Draft]) -> None:
    """Give each draft what stands beside it; drafts of what stands alone are added."""
    by_reference = _by_reference(drafts)
    named = {
        item.name: item.start
        for stretch in stretches
        for item in stretch.items
        if item.name and item.start in by_reference
    }
    for stretch in stretches:
        if stretch.items:
            _Joining(text, reader, drafts, by_reference, named).join(stretch)


def _by_reference(drafts: Iterable[Draft]) -> dict[int, list[Draft]]:
    found: dict[int, list[Draft]] = {}
    for draft in drafts:
        if draft.reference is not None:
            found.setdefault(draft.reference.start, []).append(draft)
    for each in found.values():
        each.sort(key=lambda draft: draft.span.end)
    return found


@dataclass(slots=True)
class _Joining:
    text: str
    reader: Reader
    drafts: list[Draft]
    by_reference: dict[int, list[Draft]]
    named: dict[str, int]  # where the reference of that name is
    last: Draft | None = None  # the link before
    last_end: int = 0  # where it, or what already speaks of it, ends
    is_behind_reference: bool = False

    def join(self, stretch: Stretch) -> None:
        for number, item in enumerate(stretch.items):
            if item.draft is not None:
                self._seen(item.draft, item.end)
                self._accessed(stretch, number)
            elif item.inner is not None:
                self._reference(item)
            elif item.tag is not None:
                self._tag(stretch, item, item.tag)
        if stretch.is_ref and self.reader.rules.writing.citation:
            _judge_alone(stretch, self.text)

    def _seen(self, draft: Draft, end: int) -> None:
        self.last = draft
        self.last_end = end
        self.is_behind_reference = False

    def _reference(self, item: Beside) -> None:
        if item.inner is None or not item.inner.is_ref:
            return
        within = self.by_reference.get(item.start)
        if not within and item.name in self.named:
            within = self.by_reference[self.named[item.name]]
        self.last = within[-1] if within else None
        self.last_end = item.end
        self.is_behind_reference = True

    def _tag(self, stretch: Stretch, item: Beside, tag: Tag) -> None:
        target = self._target(stretch, item)
        if item.copy is not None:
            address, original, _place = item.copy
            if target is None or not is_of(original, _url_of(target, self.reader)):
                self._own_archive(stretch, item, tag)
                return
            if not target.archived:
                target.archived = address
                target.dated = item.dated
            target.archive_tag = target.archive_tag or tag
        elif item.dead is not None:
            if target is None or self._is_other(item, target):
                self._own_dead(stretch, item, tag)
                return
            if target.dead_tag is None:
                target.dead_tag = tag
                target.dead_says = item.dead
        elif target is not None:
            target.is_held = target.is_held or item.is_hold
            target.is_paywalled = target.is_paywalled or item.is_paywall
        if target is not None and target is self.last:
            self.last_end = item.end

    def _target(self, stretch: Stretch, item: Beside) -> Draft | None:
        if stretch.is_ref and stretch.reference is not None:
            within = self.by_reference.get(stretch.reference.start, ())
            place = bisect_left(within, item.start + 1, key=lambda draft: draft.span.end)
            if place:
                return within[place - 1]
        if self.last is None:
            return stretch.cited
        if stretch.is_value:
            return self.last
        gap = item.start - self.last_end
        if gap < 0:
            return self.last  # in its label
        if self.is_behind_reference:
            near = gap <= _NEAR and _JOINTS.fullmatch(self.text, self.last_end, item.start)
            return self.last if near and not self._breaks(item.start) else None
        limit = _IN_LINE if self._is_listed(item.start) else _NEAR
        return self.last if gap <= limit and not self._breaks(item.start) else None

    def _is_other(self, item: Beside, target: Draft) -> bool:
        """Whether a dead-link tag names another link than the one before it."""
        if item.url is None or not is_url(item.url.value):
            return False
        return not is_same_page(decoded(item.url.value), _url_of(target, self.reader))

    def _breaks(self, end: int) -> bool:
        return self.text.find("\n", self.last_end, end) >= 0

    def _is_listed(self, place: int) -> bool:
        return _line_sign(self.text, place) in ("*", "#", ":", ";", "|")

    def _own_archive(self, stretch: Stretch, item: Beside, tag: Tag) -> None:
        if item.copy is None:
            return
        address, _original, place = item.copy
        roles = {Role.URL if item.is_original else Role.ARCHIVE_URL: place}
        _add_role(roles, Role.TITLE, item.title)
        draft = Draft(Way.ARCHIVE_TEMPLATE, tag.span, place.inner, place.value)
        draft.archived, draft.dated = address, item.dated
        self._own(stretch, tag, draft, roles)

    def _own_dead(self, stretch: Stretch, item: Beside, tag: Tag) -> None:
        place = item.url
        if place is None or not is_url(place.value):
            return
        roles = {Role.URL: place}
        _add_role(roles, Role.TITLE, item.title)
        draft = Draft(Way.TEMPLATE, tag.span, place.inner, place.value)
        draft.dead_tag, draft.dead_says = tag, item.dead or ""
        self._own(stretch, tag, draft, roles)

    def _own(self, stretch: Stretch, tag: Tag, draft: Draft, roles: dict[Role, Parameter]) -> None:
        draft.template = tag.name
        draft.parameters = roles
        draft.reference = stretch.reference
        draft.within = stretch.within
        draft.title = roles[Role.TITLE].value if Role.TITLE in roles else ""
        self.drafts.append(draft)
        self._seen(draft, tag.span.end)

    def _accessed(self, stretch: Stretch, number: int) -> None:
        """Words such as "Retrieved 5 March 2020" behind a link that has no parameter for that."""
        item = stretch.items[number]
        draft = item.draft
        if draft is None or draft.way not in _PLAIN_WAYS or draft.accessed:
            return
        if not stretch.is_ref and not stretch.is_value and not self._is_listed(item.start):
            return
        end = min(stretch.end, item.end + _AFTER)
        for other in stretch.items[number + 1 : number + 4]:
            if other.draft is not None:
                end = min(end, other.start)
                break
        found = _retrieved(self.reader.rules).search(self.text, item.end, end)
        if found is not None:
            draft.accessed = self.text[found.end() : end].partition("\n")[0][:60]


def _judge_alone(stretch: Stretch, text: str) -> None:
    """Note a link that is all of its reference, so that a template can take its place (B15)."""
    drafts = [item for item in stretch.items if item.draft is not None]
    if len(drafts) != 1 or stretch.owner is not None:
        return
    draft = drafts[0].draft
    if draft is None or draft.way not in (Way.BARE, Way.BRACKETS) or _UNSAFE.search(draft.title):
        return
    at = stretch.start
    for item in stretch.items:
        if item.inner is not None or not _STOPS.fullmatch(text, at, max(at, item.start)):
            return
        at = max(at, item.end)
    draft.is_alone = _STOPS.fullmatch(text, at, stretch.end) is not None


def _url_of(draft: Draft, reader: Reader) -> str:
    address = address_of(draft)
    found = reader.archive(address)
    return found.original if found is not None and found.original else address


def _add_role(roles: dict[Role, Parameter], role: Role, value: Parameter | None) -> None:
    if value is not None:
        roles[role] = value


def _line_sign(text: str, place: int) -> str:
    start = text.rfind("\n", max(0, place - 2_000), place) + 1
    return text[start : start + 1]


@lru_cache(maxsize=64)
def _words(words: tuple[str, ...]) -> re.Pattern[str]:
    known = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"\b(?:{known})\b[\s:=]{{0,3}}" if known else r"(?!)", re.IGNORECASE)


def _retrieved(rules: Rules) -> re.Pattern[str]:
    return _words(rules.retrieved)
