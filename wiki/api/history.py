"""A page's history: its revisions, and when a URL came onto it (B06).

A history may be a hundred thousand revisions long, and each revision megabytes: nothing here reads all of
it. `first_with` looks at `ACROSS` revisions at a time, which lie evenly apart, and goes on between the
last without the URL and the first with it.
"""

import html
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from wiki.api.client import Api
from wiki.api.facts import Revision
from wiki.api.pages import text_of
from wiki.api.values import a_bool, a_count, a_moment, a_text, query_of, rows_of

ACROSS: Final = 15
REVISIONS_MOST: Final = 5_000  # that `first_with` looks back
REQUESTS_MOST: Final = 25  # of one look
_PROPS: Final = "ids|timestamp|user|comment|sha1|tags"


async def revisions(
    api: Api, page_id: int, *, most: int = REVISIONS_MOST, with_text: bool = False, start: int = 0
) -> AsyncIterator[Revision]:
    """The page's revisions, the newest first; nothing when there is no such page.

    Args:
        api: the wiki's.
        page_id: whose.
        most: so many at most.
        with_text: their texts, too; fewer come with one answer then.
        start: begin with this revision; 0: with the newest.

    Raises:
        WikiAwayError, LoggedOutError, WikiRefusedError: as `Api.get`.
    """
    at_once = min(most, 50) if with_text else "max"
    left = most
    async for told in api.query(
        prop="revisions",
        pageids=page_id,
        rvprop=f"{_PROPS}|content" if with_text else _PROPS,
        rvslots="main" if with_text else None,
        rvlimit=at_once,
        rvstartid=start or None,
    ):
        for page in rows_of(query_of(told), "pages"):
            for row in rows_of(page, "revisions"):
                if left <= 0:
                    return
                left -= 1
                yield revision_of(row)
        if left <= 0:
            return


def revision_of(row: Mapping[str, Any]) -> Revision:
    """One of the API's revisions; what is hidden is empty.

    Raises:
        WikiAwayError: it does not say when it was made.
    """
    tags = row.get("tags")
    return Revision(
        rev_id=a_count(row, "revid"),
        parent_id=a_count(row, "parentid"),
        moment=a_moment(row.get("timestamp")),
        user=a_text(row, "user"),
        comment=a_text(row, "comment"),
        sha1=a_text(row, "sha1"),
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        text=None if a_bool(row, "texthidden") else text_of(row),
    )


async def texts_of(api: Api, rev_ids: Sequence[int]) -> dict[int, str]:
    """The wikitext of revisions, by their numbers; without those that are hidden or gone."""
    found: dict[int, str] = {}
    if not rev_ids:
        return found
    async for told in api.query(
        prop="revisions", revids=list(rev_ids), rvprop="ids|content", rvslots="main"
    ):
        for page in rows_of(query_of(told), "pages"):
            for row in rows_of(page, "revisions"):
                text = text_of(row)
                if text is not None:
                    found[a_count(row, "revid")] = text
    return found


async def first_with(
    api: Api,
    page_id: int,
    url: str,
    *,
    has: Callable[[str], bool] | None = None,
    requests_most: int = REQUESTS_MOST,
) -> Revision | None:
    """The revision that brought a URL onto the page, as it stands there now (B06).

    What was taken out and came back has come when it came back, as far as the revisions that are looked
    at show it. Of a history longer than `REVISIONS_MOST` it is at the latest the oldest of these.

    Args:
        api: the wiki's.
        page_id: of the page.
        url: as the page's wikitext has it.
        has: tells whether a text has it; None: `has_url`.
        requests_most: of texts.

    Returns:
        The revision; None when the newest text does not have it: it comes from a template.
    """
    known = [each async for each in revisions(api, page_id)]
    test = has or (lambda text: has_url(text, url))
    if not known:
        return None
    newest = await texts_of(api, [known[0].rev_id])
    if not test(newest.get(known[0].rev_id, "")):
        return None
    # Of the revisions with the URL the oldest is at `with_it`; `without` is older (or none is).
    with_it, without = 0, len(known)
    for _ in range(requests_most):
        between = spread(with_it, without)
        if not between:
            break
        texts = await texts_of(api, [known[each].rev_id for each in between])
        for each in between:
            if test(texts.get(known[each].rev_id, "")):
                with_it = each
            else:
                without = each
                break
    return known[with_it]


def spread(low: int, high: int, most: int = ACROSS) -> list[int]:
    """At most so many whole numbers between the two, evenly apart; none when there is none.

    >>> spread(0, 3), spread(0, 100, 4), spread(4, 5)
    ([1, 2], [20, 40, 60, 80], [])
    """
    room = high - low - 1
    if room <= most:
        return list(range(low + 1, high))
    return [low + (high - low) * step // (most + 1) for step in range(1, most + 1)]


def has_url(text: str, url: str) -> bool:
    """Whether the wikitext has the URL, in one of the forms in which people write it there."""
    bare = url.partition("#")[0].removesuffix("/")
    rest = bare.partition(":")[2] or bare  # http became https in many places at once
    return any(
        form in text for form in {rest, html.escape(rest, quote=False), rest.replace("|", "{{!}}")}
    )
