"""Names that people give and files are called by: crawls, logins."""

import re

from core.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def check_name(name: str, *, of: str, limit: int) -> str:
    """The name, which may be a part of a path.

    Args:
        name: as given.
        of: whose, for the error: ``a crawl``.
        limit: its most characters.

    Raises:
        InputError: it is no name.
    """
    if len(name) > limit or not _NAME.fullmatch(name):
        raise InputError(
            f"{name[:limit]!r} is no name for {of}: letters, digits, dots, hyphens and underscores, "
            f"at most {limit}."
        )
    return name
