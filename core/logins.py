"""Logins by name: what a name may be, and where the payloads of their visits are filed.

What a visit with a login receives is that person's own. It shares no payload with other visits: a
public capture that referred to it would not be whole without it.
"""

from core.names import check_name

LOGIN_HEADER = "WARC-Login"  # in each record of such a visit, so that an index made anew knows
NAME_LIMIT = 64


def check_login_name(name: str) -> str:
    """The name of a login.

    Raises:
        InputError: it is no name.
    """
    return check_name(name, of="a login", limit=NAME_LIMIT)


def dedup_bucket(bucket: str, login: str) -> str:
    """The dedup bucket of a visit: `bucket`, or within it the login's own.

    >>> dedup_bucket("default", ""), dedup_bucket("default", "wiki")
    ('default', 'default/login:wiki')
    """
    return f"{bucket}/login:{login}" if login else bucket
