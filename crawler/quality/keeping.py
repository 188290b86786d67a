"""What a check found, kept where people look: a row of the registry, and pictures beside it."""

from datetime import datetime
from pathlib import Path

from crawler.quality.checking import Checked
from crawler.quality.pictures_kept import forget_pictures, keep_pictures
from links.books.quality import CheckedPage, keep_checks
from links.store.store import Store


def keep(store: Store, folder: Path, checked: Checked, *, now: datetime) -> None:
    """Keep the check in the place of the one before; of what is withheld, nothing.

    The pictures are there before the row that speaks of them.

    Args:
        store: the registry.
        folder: where pictures of checks are (`core.layout.Layout.quality_pictures`).
        checked: what was found.
        now: the moment.

    Raises:
        TransientError: the registry cannot be written.
        OSError: the pictures cannot.
    """
    check, page = checked.check, checked.page
    if checked.is_withheld:
        forget_pictures(folder, check.page_id, check.level)
        return
    keep_pictures(folder, check, checked.pictures)
    with store.writing() as rows:
        keep_checks(rows, [CheckedPage(check, page.host, page.page_class)], now)
