"""Logins by name: what a name may be, and where the payloads of their visits are filed.

What a visit with a login receives is that person's own. It shares no payload with other visits: a
public capture that referred to it would not be whole without it.
"""

import re

from core.errors import InputError

LOGIN_HEADER = "WARC-Login"  # in each record of such a visit, so that an index made anew knows
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def check_login_name(name: str) -> str:
    """The name of a login.

    Raises:
        InputError: it is no name.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name[:80]!r} is no name for a login: letters, digits, dots, hyphens and underscores, "
            "at most 64."
        )
    return name


def dedup_bucket(bucket: str, login: str) -> str:
    """The dedup bucket of a visit: `bucket`, or within it the login's own.

    >>> dedup_bucket("default", ""), dedup_bucket("default", "wiki")
    ('default', 'default/login:wiki')
    """
    return f"{bucket}/login:{login}" if login else bucket
