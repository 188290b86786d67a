"""A wiki in memory, in the form in which the feeder asks one: for what takes a real one too long."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from core.errors import TransientError
from links.registry.pages import PageName
from wiki.api.models import ChangeKind, PageChange, SiteFacts, WikiNamespace, WikiPage
from wiki.api.recent_changes import ChangeBatch
from wiki.sync.wiki_source import CATEGORY, NAMESPACE, SUBCATEGORIES, TEMPLATE, ListingPart, WikiSource

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
SPACES = {
    0: WikiNamespace(0, "", ""),
    2: WikiNamespace(2, "User", "User"),
    10: WikiNamespace(10, "Template", "Template"),
    14: WikiNamespace(14, "Category", "Category"),
}
FACTS = SiteFacts("modelwiki", "Model", (1, 43, 0), "en", "https://model.net", "https://model.net/$1", SPACES)


@dataclass
class ModelWiki(WikiSource):
    """Pages that tests write, and a list of changes that may be cut off.

    Attributes:
        now: its clock.
        at_once: changes and list entries of one answer.
        trouble: raised by the next questions, one each.
        trouble_at: the question, from now on, that gets no answer; 0: all do.
        late: pages whose new links are not in its table yet: as after a save.
        lists: texts of spam lists, by the address of their wiki (empty: this one) and their titles.
        lists_trouble: raised when these are asked for.
        said: what the items of pages say, by the pages' titles; None: that is not known.
    """

    now: datetime = START
    at_once: int = 3
    facts_now: SiteFacts = FACTS
    there: dict[int, WikiPage] = field(default_factory=dict)
    deleted: dict[str, WikiPage] = field(default_factory=dict)
    log: list[PageChange] = field(default_factory=list)
    forgotten: int = 0
    trouble: list[Exception] = field(default_factory=list)
    trouble_at: int = 0
    late: dict[int, tuple[str, ...]] = field(default_factory=dict)
    statements: dict[str, frozenset[str] | None] = field(default_factory=dict)
    lists: dict[tuple[str, str], str] = field(default_factory=dict)
    lists_trouble: Exception | None = None
    requests: list[str] = field(default_factory=list)
    _last_page: int = 0
    _last_rev: int = 0

    # What people do.

    def titled(self, title: str) -> WikiPage | None:
        """Return the page with that title."""
        return next((page for page in self.there.values() if page.title == title), None)

    def edit(
        self,
        title: str,
        *links: str,
        categories: Sequence[str] = (),
        uses: Sequence[str] = (),
        text: str = "",
        by: str = "Editor",
    ) -> int:
        """Write a page; its number."""
        old = self.titled(title)
        if old is None:
            self._last_page += 1
        page = WikiPage(
            page_id=old.page_id if old else self._last_page,
            title=title,
            namespace=_space(title),
            rev_id=self._rev(),
            touched=self.now,
            links=links,
            categories=tuple(categories),
            templates=tuple(uses),
            text=text,
            parent_id=old.rev_id if old else 0,
            account=by,
        )
        self.there[page.page_id] = page
        self._note(ChangeKind.EDIT if old else ChangeKind.NEW, page, page_id=page.page_id)
        return page.page_id

    def move(self, title: str, target: str, *, redirect: bool = True) -> None:
        """Move a page, over whatever is there."""
        page = self.titled(title)
        assert page is not None
        over = self.titled(target)
        if over is not None:
            self.delete(target)
        self.there[page.page_id] = replace(page, title=target, namespace=_space(target), rev_id=self._rev())
        self._note(ChangeKind.MOVE, page, page_id=page.page_id, target=target)
        if redirect:
            self._last_page += 1
            self.there[self._last_page] = WikiPage(
                self._last_page, title, _space(title), is_redirect=True, rev_id=self._rev()
            )

    def delete(self, title: str) -> None:
        """Delete a page."""
        page = self.titled(title)
        assert page is not None
        del self.there[page.page_id]
        self.deleted[title] = page
        self._note(ChangeKind.DELETE, page, page_id=0)

    def restore(self, title: str) -> None:
        """Restore a page under a number of its own, as wikis did that had lost the old one."""
        page = self.deleted.pop(title)
        self._last_page += 1
        self.there[self._last_page] = replace(page, page_id=self._last_page, title=title, rev_id=self._rev())
        self._note(ChangeKind.RESTORE, page, page_id=self._last_page)

    def forget(self) -> None:
        """Forget all changes until now, as after 90 days."""
        self.forgotten = len(self.log)

    def _rev(self) -> int:
        self._last_rev += 1
        return self._last_rev

    def _note(self, kind: ChangeKind, page: WikiPage, *, page_id: int, target: str = "") -> None:
        self.now += timedelta(seconds=1)
        self.log.append(
            PageChange(
                rc_id=len(self.log) + 1,
                kind=kind,
                moment=self.now,
                page_id=page_id,
                namespace=page.namespace,
                title=page.title,
                target_title=target,
                target_namespace=_space(target) if target else 0,
            )
        )

    # What the feeder asks.

    def _ask(self, what: str) -> None:
        self.requests.append(what)
        if self.trouble:
            raise self.trouble.pop(0)
        if self.trouble_at:
            self.trouble_at -= 1
            if not self.trouble_at:
                raise TransientError("The wiki is away.")

    async def facts(self) -> SiteFacts:
        """Return the wiki's present description of itself."""
        self._ask("facts")
        return self.facts_now

    async def changes(self, cursor: str) -> ChangeBatch:
        """Return changes since that cursor."""
        self._ask("changes")
        # At first contact the last two minutes are told, too.
        start = json.loads(cursor)["at"] if cursor else max(len(self.log) - 120, 0)
        is_gap = not cursor or start < self.forgotten
        start = max(start, self.forgotten)
        end = min(start + self.at_once, len(self.log))
        text = json.dumps({"at": end})
        changes = tuple(self.log[start:end])
        return ChangeBatch(changes, text, is_gap, end == len(self.log), self.now)

    async def pages(
        self,
        ids: Collection[int] = (),
        titles: Collection[str] = (),
        *,
        is_classed: bool = False,
        items_at: str | None = None,
    ) -> Sequence[WikiPage]:
        """Return pages as they are now."""
        self._ask(f"pages {sorted(ids) or sorted(titles)}")
        pages = [self.there.get(each, WikiPage(each, "", 0, is_missing=True)) for each in ids]
        pages += [self.titled(each) or WikiPage(0, each, 0, is_missing=True) for each in titles]
        visible_pages = [self._shown(page, is_classed=is_classed) for page in pages]
        if items_at is None:
            return visible_pages
        return [replace(page, statements=self.statements.get(page.title, frozenset())) for page in visible_pages]

    def _shown(self, page: WikiPage, *, is_classed: bool) -> WikiPage:
        links = self.late.get(page.page_id, page.links)
        if is_classed or page.is_missing:
            return replace(page, links=links)
        return replace(page, links=links, categories=None, templates=None)

    async def texts(self, titles: Sequence[str], address: str = "") -> Mapping[str, str | None]:
        """Return the texts of pages, of this wiki or, as for Spam blacklist, of the farm's."""
        if self.lists_trouble is not None:
            raise self.lists_trouble
        return {title: self.lists.get((address, title)) for title in titles}

    async def missing(self, titles: Sequence[str], address: str = "") -> frozenset[str]:
        """Return the titles that have no page here, or at another wiki of the farm (`lists`)."""
        self._ask(f"missing {address} {sorted(titles)}")
        if address:
            return frozenset(each for each in titles if (address, each) not in self.lists)
        return frozenset(each for each in titles if self.titled(each) is None)

    async def size(self, namespaces: Collection[int]) -> int:
        """Return the number of pages in the namespaces."""
        return sum(page.namespace in namespaces for page in self.there.values())

    async def listing(self, kind: str, name: str, resume: str = "") -> ListingPart:
        """Return pages of a namespace that are no redirects, in a category itself, or with a template."""
        self._ask({NAMESPACE: "listed", TEMPLATE: "using"}.get(kind, "members"))
        is_of = {
            NAMESPACE: lambda page: str(page.namespace) == name and not page.is_redirect,
            TEMPLATE: lambda page: name in (page.templates or ()),
            CATEGORY: lambda page: name in (page.categories or ()) and page.namespace != 14,
            SUBCATEGORIES: lambda page: name in (page.categories or ()) and page.namespace == 14,
        }[kind]
        return self._part(list(filter(is_of, self.there.values())), resume)

    def _part(self, pages: list[WikiPage], start: str) -> ListingPart:
        after = sorted((page for page in pages if page.title >= start), key=lambda page: page.title)
        part, rest = after[: self.at_once], after[self.at_once :]
        listed = tuple(PageName(page.page_id, page.title, page.namespace) for page in part)
        return ListingPart(listed, rest[0].title if rest else "")


def _space(title: str) -> int:
    head = title.partition(":")[0]
    return next((each.id for each in SPACES.values() if each.name and each.name == head), 0)
