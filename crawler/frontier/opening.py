"""Opening the frontier that the settings name."""

from core.layout import Layout
from core.settings import FrontierSettings, PolitenessSettings
from crawler.frontier.base import Frontier
from crawler.frontier.sqlite import SqliteFrontier


def open_frontier(
    layout: Layout, settings: FrontierSettings, politeness: PolitenessSettings
) -> Frontier:
    """The frontier in the collection's own file; the caller closes it.

    Raises:
        CollectionVersionError: it is another program's or another version's.
        UnavailableError: it cannot be opened.
    """
    return SqliteFrontier(layout.frontier_db, settings=settings, politeness=politeness)
