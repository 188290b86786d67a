"""Stretches of a page: what is read in one go, and what stands in them."""

from dataclasses import dataclass, field

from wiki.wikitext.citations import Parameter, Span, Tag
from wiki.wikitext.drafts import Draft
from wiki.wikitext.structure import Node


@dataclass(slots=True)
class Beside:
    """Something in a stretch that matters to what stands beside it; one of `draft`, `inner`, `tag`.

    Attributes:
        start: where it begins.
        end: where it ends.
        draft: a link.
        inner: the content of a tag.
        name: of a reference, when it has one.
        tag: a template that speaks of a link.
        copy: of an archive template: the copy's address, its original, and where that stands.
        is_original: whether that is the original rather than the address.
        dated: when the copy was taken, as written.
        dead: of a dead-link tag: what it says.
        url: the link that it names.
        title: the title that it has.
        is_paywall: it says that the link takes a login.
        is_hold: it asks bots to leave the link alone.
    """

    start: int
    end: int
    draft: Draft | None = None
    inner: "Stretch | None" = None
    name: str = ""
    tag: Tag | None = None
    copy: tuple[str, str, Parameter] | None = None
    is_original: bool = False
    dated: str = ""
    dead: str | None = None
    url: Parameter | None = None
    title: Parameter | None = None
    is_paywall: bool = False
    is_hold: bool = False


@dataclass(slots=True)
class Stretch:
    """A piece of the page that is read in one go: all of it, a tag's content, a parameter's value.

    Attributes:
        start: where it begins.
        end: where it ends.
        children: its nodes.
        reference: the reference around it.
        within: the name of the template around it.
        owner: that template's place.
        cited: that template's own link, when it is a citation.
        is_value: whether it is a parameter's value.
        is_ref: whether it is all the content of its reference.
        depth: how many templates and tags are around it.
        items: what was found, in its order.
    """

    start: int
    end: int
    children: list[Node]
    reference: Span | None = None
    within: str = ""
    owner: Span | None = None
    cited: Draft | None = None
    is_value: bool = False
    is_ref: bool = False
    depth: int = 0
    items: list[Beside] = field(default_factory=list)

    def inner(self, start: int, end: int, children: list[Node]) -> "Stretch":
        """A stretch within this one, with the same around it."""
        return Stretch(start, end, children, self.reference, self.within, depth=self.depth + 1)
