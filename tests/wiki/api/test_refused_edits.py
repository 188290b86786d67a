"""What a wiki's refusal of an edit means for who edits: by the API's codes, which no one wiki gives."""

import pytest

from core.errors import PermanentError
from wiki.api.client import Api
from wiki.api.edits import (
    EditConflictError,
    PageGoneError,
    PageRefusedError,
    Refusal,
    StoppedError,
    refusal,
)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("protectedpage", Refusal.PROTECTED),
        ("cascadeprotected", Refusal.PROTECTED),
        ("protectednamespace-interface", Refusal.PROTECTED),
        ("blockedfrompage", Refusal.BLOCKED_HERE),
        ("abusefilter-disallowed", Refusal.FILTERED),
        ("abusefilter-warning", Refusal.FILTERED),
        ("spamblacklist", Refusal.SPAM),
        ("titleblacklist-forbidden-edit", Refusal.TITLE),
        ("captcha", Refusal.CAPTCHA),
        ("contenttoobig", Refusal.TOO_BIG),
        ("no-direct-editing", Refusal.MODEL),
        ("hookaborted", Refusal.OTHER),
    ],
)
async def test_what_concerns_one_page_is_told_of_that_page(code: str, reason: Refusal) -> None:
    """The next page may be tried."""
    found = await refusal(Api("http://127.0.0.1:1/api.php"), code, "said so")

    assert isinstance(found, PageRefusedError)
    assert isinstance(found, PermanentError)
    assert (found.reason, found.code) == (reason, code)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("editconflict", EditConflictError),
        ("missingtitle", PageGoneError),
        ("pagedeleted", PageGoneError),
        ("nosuchpageid", PageGoneError),
        ("noedit", StoppedError),
        ("writeapidenied", StoppedError),
        ("confirmemail", StoppedError),
        ("something-new", StoppedError),
        ("", StoppedError),
    ],
)
async def test_what_is_not_about_a_page_stops_or_begins_anew(
    code: str, error: type[Exception]
) -> None:
    """What nobody knows stops everything: a bot that is refused asks people."""
    assert isinstance(await refusal(Api("http://127.0.0.1:1/api.php"), code, "said so"), error)
