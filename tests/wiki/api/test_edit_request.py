"""What a wiki's refusal of an edit means for who edits: by the API's codes, which no one wiki gives."""

import pytest

from core.errors import PermanentError
from wiki.api.client import WikiApi
from wiki.api.edit_request import (
    EditConflictError,
    EditingStoppedError,
    EditRefusal,
    PageDeletedError,
    PageRefusedError,
    edit_error,
)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("protectedpage", EditRefusal.PROTECTED),
        ("cascadeprotected", EditRefusal.PROTECTED),
        ("protectednamespace-interface", EditRefusal.PROTECTED),
        ("blockedfrompage", EditRefusal.BLOCKED_HERE),
        ("abusefilter-disallowed", EditRefusal.FILTERED),
        ("abusefilter-warning", EditRefusal.FILTERED),
        ("spamblacklist", EditRefusal.SPAM),
        ("titleblacklist-forbidden-edit", EditRefusal.TITLE),
        ("captcha", EditRefusal.CAPTCHA),
        ("contenttoobig", EditRefusal.TOO_BIG),
        ("no-direct-editing", EditRefusal.MODEL),
        ("hookaborted", EditRefusal.OTHER),
    ],
)
async def test_what_concerns_one_page_is_told_of_that_page(code: str, reason: EditRefusal) -> None:
    """The next page may be tried."""
    found = await edit_error(WikiApi("http://127.0.0.1:1/api.php"), code, "said so")

    assert isinstance(found, PageRefusedError)
    assert isinstance(found, PermanentError)
    assert (found.reason, found.code) == (reason, code)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("editconflict", EditConflictError),
        ("missingtitle", PageDeletedError),
        ("pagedeleted", PageDeletedError),
        ("nosuchpageid", PageDeletedError),
        ("noedit", EditingStoppedError),
        ("writeapidenied", EditingStoppedError),
        ("confirmemail", EditingStoppedError),
        ("something-new", EditingStoppedError),
        ("", EditingStoppedError),
    ],
)
async def test_what_is_not_about_a_page_stops_or_starts_again(code: str, error: type[Exception]) -> None:
    """What nobody knows stops everything: a bot that is refused asks people."""
    assert isinstance(await edit_error(WikiApi("http://127.0.0.1:1/api.php"), code, "said so"), error)
