"""Edit requests (action=edit): conflicts, refusals by page, refusals by account.

    now = await read_now(api, page_id)
    made = await edit(api, now, text, Saving(summary="…"))

`save_edit` sends the whole page with the revision it was made from, the digest of the text (RFC 1321) and
never makes a page. What concerns one page is a PermanentError; what must stop all editing a
`EditingStoppedError`; what goes by itself is what `Api` raises (`ReadOnlyError`, `ThrottledError`, …).

MediaWiki suppresses conflicts with the same account's own last edit: `Edited.replaced` tells which
revision was really replaced, so that the caller sees one that it never read.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from core.errors import PermanentError, TransientError, UnavailableError
from wiki.api.client import WikiApi
from wiki.api.errors import PermissionDeniedError, WikiAwayError, WikiRefusedError
from wiki.api.revisions import EditablePage, dict_of, int_of, list_of

_MESSAGE_LIMIT: Final = 1_000


class EditRefusal(StrEnum):
    """Why a page cannot be edited by us."""

    PROTECTED = "protected"
    BLOCKED_HERE = "blocked here"  # the account is, from this page alone
    FILTERED = "abuse filter"
    SPAM = "spam list"
    TITLE = "title list"
    CAPTCHA = "captcha"
    TOO_BIG = "too big"
    MODEL = "no wikitext"
    OTHER = "refused"


class EditConflictError(TransientError):
    """Somebody edited the page meanwhile: read it again."""


class PageDeletedError(PermanentError):
    """There is no such page any more."""


class PageRefusedError(PermanentError):
    """The wiki does not let us edit this page; others it may.

    Attributes:
        reason: why.
        code: the API's.
    """

    def __init__(self, reason: EditRefusal, code: str, said: str) -> None:
        super().__init__(f"The page cannot be edited ({reason}): {said}")
        self.reason = reason
        self.code = code


class EditingStoppedError(UnavailableError):
    """Nothing may be edited until a person did something."""


@dataclass(frozen=True, slots=True)
class BotAccount:
    """The account that we edit as.

    Attributes:
        name: without the bot password's own name.
        rights: what it may, as far as the login grants it.
        has_messages: somebody wrote on its talk page, and nobody has looked.
        blocked: why it is blocked from the whole wiki; empty: it is not.
    """

    name: str
    rights: frozenset[str] = frozenset()
    has_messages: bool = False
    blocked: str = ""


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """How an edit is to be saved."""

    summary: str
    is_minor: bool = True
    is_marked: bool = True  # with the bot flag


@dataclass(frozen=True, slots=True)
class SavedEdit:
    """What came of an edit.

    Attributes:
        rev: the revision that was made; None: the page has that very text already.
        replaced: the revision that it replaced.
    """

    rev: int | None
    replaced: int = 0


# Codes of action=edit, MediaWiki 1.35 to 1.45 and the extensions that refuse edits.
_PAGE_REFUSALS: Final[Mapping[str, EditRefusal]] = {
    "protectedpage": EditRefusal.PROTECTED,
    "cascadeprotected": EditRefusal.PROTECTED,
    "protectednamespace": EditRefusal.PROTECTED,
    "protectednamespace-interface": EditRefusal.PROTECTED,
    "protectedtitle": EditRefusal.PROTECTED,
    "namespaceprotected": EditRefusal.PROTECTED,
    "customcssprotected": EditRefusal.PROTECTED,
    "customjsprotected": EditRefusal.PROTECTED,
    "customjsonprotected": EditRefusal.PROTECTED,
    "spamblacklist": EditRefusal.SPAM,
    "spamdetected": EditRefusal.SPAM,
    "blockeddomains": EditRefusal.SPAM,
    "abusefilter-blocked-domains-attempted": EditRefusal.SPAM,
    "captcha": EditRefusal.CAPTCHA,
    "blockedfrompage": EditRefusal.BLOCKED_HERE,
    "permissiondenied": EditRefusal.OTHER,  # extensions that protect pages in their own way say this
    "cantedit": EditRefusal.PROTECTED,
    "sitecssprotected": EditRefusal.PROTECTED,
    "sitejsprotected": EditRefusal.PROTECTED,
    "sitejsonprotected": EditRefusal.PROTECTED,
    "contenttoobig": EditRefusal.TOO_BIG,
    "invalid-content-data": EditRefusal.MODEL,
    "no-direct-editing": EditRefusal.MODEL,
    "contentmodel-mismatch": EditRefusal.MODEL,
    "hookaborted": EditRefusal.OTHER,
    "emptypage": EditRefusal.OTHER,
    "filtered": EditRefusal.FILTERED,
    "parseerror": EditRefusal.OTHER,
    "badmd5": EditRefusal.OTHER,
    "unknownerror": EditRefusal.OTHER,
}
_PAGE_REFUSAL_PREFIXES: Final = (
    ("abusefilter", EditRefusal.FILTERED),
    ("titleblacklist", EditRefusal.TITLE),
    ("captcha", EditRefusal.CAPTCHA),
    ("protected", EditRefusal.PROTECTED),
)
_DELETED_CODES: Final = frozenset(
    {"missingtitle", "pagedeleted", "nosuchpageid", "edit-gone-missing"}
)
_BLOCKED_CODES: Final = frozenset(
    {"blocked", "autoblocked", "systemblocked", "wikimedia-globalblocking"}
)


async def save_edit(api: WikiApi, page: EditablePage, text: str, saving: SaveOptions) -> SavedEdit:
    """Replace the page's text.

    Raises:
        EditConflictError: somebody edited it meanwhile.
        PageGoneError: it is no more.
        PageRefusedError: this page cannot be edited by us.
        StoppedError: the account may not edit at all.
        WikiAwayError: there is no answer; unless `is_unsent`, the edit may have been made.
        LoggedOutError: the account is not logged in.
    """
    asked = {
        "pageid": str(page.page_id),
        "text": text,
        "baserevid": str(page.rev_id),
        "basetimestamp": page.made,
        "starttimestamp": page.asked,
        "nocreate": "1",
    }
    return await _save(api, {**asked, "md5": _md5(text)}, saving)


async def add_section(
    api: WikiApi, title: str, heading: str, text: str, saving: SaveOptions
) -> SavedEdit:
    """Put a section at the end of a page, which is made when it is not there yet; raises as `save_edit`."""
    asked = {"title": title, "section": "new", "sectiontitle": heading, "text": text}
    # MediaWiki's digest of what is added (api.php?action=help&modules=edit).
    return await _save(api, {**asked, "redirect": "1", "md5": _md5(text)}, saving)


async def read_bot_account(api: WikiApi) -> BotAccount:
    """The account that is logged in.

    Raises:
        StoppedError: nobody is.
    """
    told = await api.get(action="query", meta="userinfo", uiprop="rights|hasmsg|blockinfo")
    found = dict_of(dict_of(told.get("query")).get("userinfo"))
    if found.get("anon") or not found.get("id"):
        raise EditingStoppedError(
            "Nobody is logged in at the wiki: give the bot an account of its own."
        )
    blocked = ""
    if found.get("blockid") is not None and not found.get("blockpartial"):
        by = f" by {found['blockedby']}" if found.get("blockedby") else ""
        blocked = f"blocked{by}: {found.get('blockreason') or 'no reason given'}"[:500]
    return BotAccount(
        str(found.get("name") or ""),
        frozenset(map(str, list_of(found.get("rights")))),
        bool(found.get("messages")),
        blocked,
    )


async def clear_messages(api: WikiApi) -> None:
    """Tell the wiki that the account's messages were read."""
    await api.post(action="clearhasmsg")


async def _save(api: WikiApi, asked: Mapping[str, str], saving: SaveOptions) -> SavedEdit:
    flags = {"minor": "1"} if saving.is_minor else {"notminor": "1"}
    if saving.is_marked:
        flags["bot"] = "1"
    params = {"summary": saving.summary, "watchlist": "nochange", **asked, **flags}
    try:
        told = await api.post(action="edit", **params)
    except (PermissionDeniedError, WikiRefusedError) as error:
        raise await edit_error(api, error.code, str(error)) from error
    found = dict_of(told.get("edit"))
    if found.get("result") != "Success":
        # Extensions that refuse in the older way, with 200 and a result.
        code = next((key for key in found if (_reason(key) is not None)), "")
        code = code or str(found.get("code") or "unknownerror")
        said = str(found.get("info") or found.get("warning") or found.get("result") or "no word")
        raise await edit_error(api, code, said[:_MESSAGE_LIMIT])
    if found.get("nochange"):
        return SavedEdit(None)
    rev = int_of(found.get("newrevid"))
    if not rev:
        raise WikiAwayError("The wiki says that an edit was made, and not which revision that is.")
    return SavedEdit(rev, int_of(found.get("oldrevid")))


async def edit_error(api: WikiApi, code: str, said: str) -> Exception:
    """What a refusal means for who edits."""
    if code == "editconflict":
        return EditConflictError("Somebody edited the page at the same time.")
    if code in _DELETED_CODES:
        return PageDeletedError(f"The page is no more ({code}).")
    if code in _BLOCKED_CODES:
        # From the whole wiki, or from some pages? Only the account's own facts tell that.
        try:
            me = await read_bot_account(api)
        except (PermissionDeniedError, WikiRefusedError):
            me = BotAccount("", blocked=said)
        if not me.blocked:
            return PageRefusedError(EditRefusal.BLOCKED_HERE, code, said)
        return EditingStoppedError(f"The account {me.name} is {me.blocked}. Nothing is edited.")
    reason = _reason(code)
    if reason is not None:
        return PageRefusedError(reason, code, said)
    return EditingStoppedError(f"The wiki lets us edit nothing ({code or 'no code'}): {said}")


def _reason(code: str) -> EditRefusal | None:
    """Why the page is refused; None: the code is not about one page."""
    if code in _PAGE_REFUSALS:
        return _PAGE_REFUSALS[code]
    return next((why for start, why in _PAGE_REFUSAL_PREFIXES if code.startswith(start)), None)


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
