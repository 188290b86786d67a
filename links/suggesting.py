"""Which hosts a wiki might exclude: proposals with their figures (X07).

A host is worth excluding when it is trusted, linked from a very large share of the pages, and a search
for it would be as good as none, since few different URLs of it are linked again and again, such as a
licence's page from every picture. Trust is for people to judge; the figures are here.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from links.store.schema import hosts, pages, refs, urls

_MOST = 50
_HOSTS_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A host that might be excluded.

    Attributes:
        host: canonical.
        pages: pages of the wiki that link to it.
        share: of all pages of the wiki, from 0 to 1.
        urls: how many different URLs of it they link to.
        links: how many rows of the table of links that takes.
    """

    host: str
    pages: int
    share: float
    urls: int
    links: int

    @property
    def links_per_url(self) -> float:
        """How many pages have the same URL, on average."""
        return self.links / self.urls


def suggest(
    rows: Connection, wiki_id: int, *, least_share: float = 0.1, most_urls: int = _MOST
) -> list[Suggestion]:
    """Hosts that at least that share of the wiki's pages link to, with few different URLs.

    It reads all references of the wiki once: some seconds for each million.

    Args:
        rows: a connection.
        wiki_id: the wiki.
        least_share: of the wiki's pages, from 0 to 1.
        most_urls: different URLs that are few.
    """
    total = rows.execute(
        select(func.count()).select_from(pages).where(pages.c.wiki_id == wiki_id)
    ).scalar_one()
    least = max(total * least_share, 1)
    on_wiki = (
        refs.c.gone_day.is_(None),
        pages.c.id == refs.c.page,
        pages.c.wiki_id == wiki_id,
        urls.c.id == refs.c.url_id,
    )
    number = func.count()
    different = func.count(refs.c.url_id.distinct())
    by_host = (
        select(urls.c.host_id, number.label("links"), different.label("urls"))
        .where(*on_wiki)
        .group_by(urls.c.host_id)
        .having(number >= least, different <= most_urls)
        .order_by(number.desc())
        .limit(_HOSTS_LIMIT)
    )
    found = []
    for row in rows.execute(by_host).all():
        citing = rows.execute(
            select(func.count(refs.c.page.distinct()), func.min(hosts.c.name)).where(
                *on_wiki, urls.c.host_id == row.host_id, hosts.c.id == urls.c.host_id
            )
        ).one()
        if citing[0] >= least:
            share = citing[0] / total
            found.append(Suggestion(citing[1], citing[0], share, row.urls, row.links))
    return sorted(found, key=lambda each: (-each.pages, each.host))
