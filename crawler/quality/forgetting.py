"""What checks kept of pages that were erased, gone with them: rows of the registry, and pictures."""

from collections.abc import Iterable
from contextlib import closing, suppress

from core.errors import InputError
from core.layout import Layout
from core.quality import check_ids
from links.books.quality import forget_checks
from links.store.store import open_store

_ANY_LEVEL = "images"


def forget_pages(layout: Layout, database_url: str, page_ids: Iterable[str]) -> None:
    """Forget all that checks kept of these pages; nothing when none was ever checked.

    Args:
        layout: the collection, in whose cache the pictures lie.
        database_url: of the registry, when that is a server's.
        page_ids: as records say them; what can be no page's is passed over.

    Raises:
        TransientError: the registry does not answer.
        OSError: a picture cannot be removed.
    """
    pages = []
    for page_id in dict.fromkeys(page_ids):
        with suppress(InputError):
            check_ids(page_id, _ANY_LEVEL)
            pages.append(page_id)
    for page_id in pages:
        for path in (layout.quality_pictures / page_id[:2]).glob(f"{page_id}.*"):
            path.unlink(missing_ok=True)
    if pages and (database_url or layout.links_db.exists()):
        with closing(open_store(layout, database_url)) as store, store.writing() as rows:
            forget_checks(rows, pages)
