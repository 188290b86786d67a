"""What changes mean: where to look, and where to look once more. Pure.

A change says where to look, never what is there. A page that was just saved is looked at twice: at once,
and after `SETTLE`, because a wiki writes its table of links a moment after it notes the change. The list
of second looks is kept in the registry, as a feed: whoever begins anew has it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from wiki.api.facts import Change, ChangeKind
from wiki.feeding.criteria import CATEGORIES, TEMPLATES

SETTLE = timedelta(seconds=20)
YOUNG = timedelta(minutes=10)  # what changed before that has settled
SETTLING_LIMIT = 10_000


@dataclass(frozen=True)
class Looks:
    """Where to look.

    Attributes:
        ids: pages by their numbers.
        titles: pages by their names: under which nothing need be.
        templates: whose users have other links now, perhaps.
        has_categories: the tree of categories may have changed.
    """

    ids: frozenset[int] = frozenset()
    titles: frozenset[str] = frozenset()
    templates: tuple[str, ...] = ()
    has_categories: bool = False

    def __bool__(self) -> bool:
        """Whether there is anywhere to look."""
        return bool(self.ids or self.titles or self.templates or self.has_categories)


def looks_for(changes: Iterable[Change], namespaces: frozenset[int]) -> Looks:
    """Where these changes say to look; pages outside of the namespaces are passed over.

    A page that is moved out of them is looked at: its old name was within.
    """
    ids: set[int] = set()
    titles: set[str] = set()
    templates: dict[str, None] = {}
    has_categories = False
    for change in changes:
        if change.kind is ChangeKind.OTHER:
            continue
        named = [(change.namespace, change.title)]
        if change.target_title:
            named.append((change.target_namespace, change.target_title))
        for namespace, title in named:
            if namespace in TEMPLATES:
                templates[title] = None
            has_categories |= namespace == CATEGORIES
        if not any(namespace in namespaces for namespace, _ in named):
            continue
        if change.page_id:
            ids.add(change.page_id)
        if not change.page_id or change.kind not in (ChangeKind.EDIT, ChangeKind.NEW):
            titles.update(title for _, title in named if title)
    return Looks(frozenset(ids), frozenset(titles), tuple(templates), has_categories)


def young(changes: Iterable[Change], *, now: datetime) -> list[Change]:
    """Those of the changes whose links the wiki may not have noted yet, by the wiki's own clock."""
    return [change for change in changes if now - change.moment < YOUNG]


def read_settling(text: str) -> dict[int, int]:
    """Pages that are to be looked at once more, and when (seconds since 1970); the cursor's form."""
    try:
        found = json.loads(text or "{}")
        return {int(page): int(due) for page, due in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def settling_text(settling: Mapping[int, int]) -> str:
    """The list as a cursor."""
    return json.dumps({str(page): due for page, due in settling.items()})


def with_settling(
    settling: Mapping[int, int], page_ids: Iterable[int], *, now: datetime
) -> dict[int, int]:
    """The list with these pages; what is looked at again in any case waits no longer for that."""
    due = int((now + SETTLE).timestamp())
    found = {**settling, **dict.fromkeys(page_ids, due)}
    return dict(list(found.items())[-SETTLING_LIMIT:])


def settled(settling: Mapping[int, int], *, now: datetime) -> list[int]:
    """The pages whose second look is due."""
    return [page for page, due in settling.items() if due <= now.timestamp()]
