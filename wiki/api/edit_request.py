"""Edit requests (action=edit): permission and rate limit before them, conflicts and refusals after them.

`save_edit` sends the whole page with its base revision and the MD5 digest of the text, and never creates a page.
MediaWiki suppresses conflicts with the same account's own last edit: `SavedEdit.replaced` is the revision that was
really replaced. Of several {{bots}} templates one denial is enough, and one that cannot be parsed is a denial.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from core.errors import PermanentError, TransientError, UnavailableError
from wiki.api import models
from wiki.api.client import ApiTiming, WikiApi
from wiki.api.page_query import EditablePage, read_text
from wiki.settings import BotSettings

_MESSAGE_LIMIT: Final = 1_000


class EditRefusal(StrEnum):
    """Reason for refusing an edit of one page."""

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
    """Edit conflict: the page was edited meanwhile and must be read again."""


class PageDeletedError(PermanentError):
    """Edit of a page that no longer exists."""


class PageRefusedError(PermanentError):
    """Refusal to edit this page; others may still be editable."""

    def __init__(self, reason: EditRefusal, text: str) -> None:
        super().__init__(f"The page cannot be edited ({reason}): {text}")


class EditingStoppedError(UnavailableError):
    """Stop of all editing until an operator intervenes."""


@dataclass(frozen=True, slots=True)
class BotAccount:
    """Account that the bot edits with."""

    name: str  # without the bot password's app name
    rights: frozenset[str] = frozenset()  # MediaWiki rights granted to this login
    has_messages: bool = False  # unread messages on its talk page
    blocked: str = ""  # reason of a site-wide block; empty: not blocked


@dataclass(frozen=True, slots=True)
class EditOptions:
    """Options of an edit: summary and flags."""

    summary: str
    is_minor: bool = True
    is_marked: bool = True  # with the bot flag


@dataclass(frozen=True, slots=True)
class SavedEdit:
    """Result of an edit."""

    rev: int | None  # the new revision; None: the page already had this text
    replaced: int = 0  # the revision that it replaced


# Codes of action=edit, MediaWiki 1.35 to 1.45 and the extensions that refuse edits.
_REFUSAL_CODES: Final[Mapping[EditRefusal, str]] = {
    EditRefusal.PROTECTED: (
        "protectedpage cascadeprotected protectednamespace protectednamespace-interface "
        "protectedtitle namespaceprotected customcssprotected customjsprotected "
        "customjsonprotected cantedit sitecssprotected sitejsprotected sitejsonprotected"
    ),
    EditRefusal.SPAM: ("spamblacklist spamdetected blockeddomains abusefilter-blocked-domains-attempted"),
    EditRefusal.CAPTCHA: "captcha",
    EditRefusal.BLOCKED_HERE: "blockedfrompage",
    EditRefusal.TOO_BIG: "contenttoobig",
    EditRefusal.MODEL: "invalid-content-data no-direct-editing contentmodel-mismatch",
    EditRefusal.FILTERED: "filtered",
    # Extensions that protect pages in their own way say "permissiondenied".
    EditRefusal.OTHER: "permissiondenied hookaborted emptypage parseerror badmd5 unknownerror",
}
_PAGE_REFUSALS: Final[Mapping[str, EditRefusal]] = {
    code: refusal for refusal, codes in _REFUSAL_CODES.items() for code in codes.split()
}
_PAGE_REFUSAL_PREFIXES: Final = (
    ("abusefilter", EditRefusal.FILTERED),
    ("titleblacklist", EditRefusal.TITLE),
    ("captcha", EditRefusal.CAPTCHA),
    ("protected", EditRefusal.PROTECTED),
)
_DELETED_CODES: Final = {"missingtitle", "pagedeleted", "nosuchpageid", "edit-gone-missing"}
_BLOCKED_CODES: Final = {"blocked", "autoblocked", "systemblocked", "wikimedia-globalblocking"}


async def save_edit(api: WikiApi, page: EditablePage, text: str, saving: EditOptions) -> SavedEdit:
    """Replace the page's text.

    Raises EditConflictError, PageDeletedError, PageRefusedError (this page only), EditingStoppedError (any page),
    LoggedOutError, or WikiAwayError: unless `is_unsent`, the edit may have been made.
    """
    base = {"baserevid": str(page.rev_id), "basetimestamp": page.made, "starttimestamp": page.read_at}
    return await _save(api, {"pageid": str(page.page_id), "text": text, **base, "nocreate": "1"}, saving)


async def add_section(api: WikiApi, title: str, heading: str, text: str, saving: EditOptions) -> SavedEdit:
    """Add a section at the end of a page, creating the page if needed; raises as `save_edit`."""
    new = {"title": title, "section": "new", "sectiontitle": heading, "text": text, "redirect": "1"}
    return await _save(api, new, saving)


async def read_bot_account(api: WikiApi) -> BotAccount:
    """Return the account that is logged in. Raises EditingStoppedError: none is."""
    answer = await api.get(action="query", meta="userinfo", uiprop="rights|hasmsg|blockinfo")
    user = models.object_field(models.query_result(answer), "userinfo")
    if models.bool_field(user, "anon") or not models.count_field(user, "id"):
        raise EditingStoppedError("The bot is not logged in at the wiki: give it its own account.")
    blocked = ""
    if user.get("blockid") is not None and not models.bool_field(user, "blockpartial"):
        by = f" by {user['blockedby']}" if user.get("blockedby") else ""
        blocked = f"blocked{by}: {user.get('blockreason') or 'no reason given'}"[:500]
    rights = user.get("rights")
    return BotAccount(
        models.text_field(user, "name"),
        frozenset(map(str, rights if isinstance(rights, list) else ())),
        models.bool_field(user, "messages"),
        blocked,
    )


async def _save(api: WikiApi, request: Mapping[str, str], saving: EditOptions) -> SavedEdit:
    flags = {"minor" if saving.is_minor else "notminor": "1"} | ({"bot": "1"} if saving.is_marked else {})
    # The digest of the given text, also of a section's (api.php?action=help&modules=edit).
    digest = hashlib.md5(request["text"].encode(), usedforsecurity=False).hexdigest()
    params = {"summary": saving.summary, "watchlist": "nochange", **request, **flags, "md5": digest}
    try:
        answer = await api.post(action="edit", **params)
    except (models.PermissionDeniedError, models.WikiRefusedError) as error:
        raise await edit_error(api, error.code, str(error)) from error
    result = models.object_field(answer, "edit")
    if result.get("result") != "Success":
        # Extensions that refuse in the older way, with 200 and a result.
        code = next((key for key in result if _reason(key) is not None), str(result.get("code") or "unknownerror"))
        reason = str(result.get("info") or result.get("warning") or result.get("result") or "no word")
        raise await edit_error(api, code, reason[:_MESSAGE_LIMIT])
    if models.bool_field(result, "nochange"):
        return SavedEdit(None)
    rev = models.count_field(result, "newrevid")
    if not rev:
        raise models.WikiAwayError("The wiki reports an edit, but not its revision.")
    return SavedEdit(rev, models.count_field(result, "oldrevid"))


async def edit_error(api: WikiApi, code: str, text: str) -> Exception:
    """Map an API error of an edit to an exception."""
    if code == "editconflict":
        return EditConflictError("Somebody edited the page at the same time.")
    if code in _DELETED_CODES:
        return PageDeletedError(f"The page no longer exists ({code}).")
    if code in _BLOCKED_CODES:
        # A site-wide or a partial block: only the account's own data shows that.
        try:
            me = await read_bot_account(api)
        except (models.PermissionDeniedError, models.WikiRefusedError):
            me = BotAccount("", blocked=text)
        if not me.blocked:
            return PageRefusedError(EditRefusal.BLOCKED_HERE, text)
        return EditingStoppedError(f"The account {me.name} is {me.blocked}. Nothing is edited.")
    if (reason := _reason(code)) is not None:
        return PageRefusedError(reason, text)
    return EditingStoppedError(f"The wiki refuses all edits ({code or 'no code'}): {text}")


def _reason(code: str) -> EditRefusal | None:
    """Map an API error code to a page refusal; None: the code is not about one page."""
    by_prefix = (why for start, why in _PAGE_REFUSAL_PREFIXES if code.startswith(start))
    return _PAGE_REFUSALS.get(code) or next(by_prefix, None)


OPT_OUTS: Final = frozenset({"all", "deadlink", "deadlinks", "archive", "iabot", "weboid"})
_HIDDEN_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(nowiki|pre|syntaxhighlight|source)(?:\s[^<>]*)?(?:/>|>.*?(?:</\1\s*>|\Z))",
    re.IGNORECASE | re.DOTALL,
)
_BOTS = re.compile(
    r"\{\{[\s_:]*(?:(?:template|vorlage)[\s_]*:[\s_]*)?(no)?bots[\s_]*(?=[|}]|\Z)([^{}]*)(\}\})?", re.IGNORECASE
)
_BUSY = re.compile(
    r"\{\{[\s_]*(?:in[ _]?use|in[ _]?creation|in[ _]bearbeitung|gerade[ _]in[ _]bearbeitung)[\s_]*[|}]", re.IGNORECASE
)


def may_message(text: str, bot: str) -> bool:
    """Return True if the talk page allows messages about links (`OPT_OUTS` in ``optout=``)."""
    return _permits(text, bot, OPT_OUTS)


def edit_objection(text: str, bot: str) -> str:
    """Return the template by which the page denies an edit by the bot; empty when it allows one."""
    if _BUSY.search(_HIDDEN_MARKUP.sub("", text)):
        return "{{in use}}"
    return "" if _permits(text, bot, frozenset({"all"})) else "{{bots}} or {{nobots}}"


def _permits(text: str, bot: str, kinds: frozenset[str]) -> bool:
    if "bots" not in text.casefold():
        return True
    name = _name(bot)
    for is_no, parts, end in _BOTS.findall(_HIDDEN_MARKUP.sub("", text)):
        parameters = []  # each one's key and the names in it; ``none`` is a name, too
        for part in parts.split("|")[1:]:
            key, equals, value = part.partition("=")
            key = key.strip().casefold() if equals and not key.strip().isdigit() else ""
            listed_names = frozenset(filter(None, map(_name, (value if equals else part).split(","))))
            if listed_names:
                parameters.append((key, listed_names))
        if not end or (is_no and not parameters):  # it cannot be parsed, or is {{nobots}}
            return False
        for key, names in parameters:
            listed = "all" in names or name in names
            is_denial = key == "deny" or (is_no and not key)  # {{nobots|A,B}}
            if (key == "allow" and not listed) or (is_denial and listed) or (key == "optout" and names & kinds):
                return False
    return True


def _name(text: str) -> str:
    name = " ".join(text.replace("_", " ").split()).casefold()
    return name.removeprefix("user:").removeprefix("benutzer:").strip()


TRUST_S: Final = 30.0
_SAYS_YES: Final = frozenset({"yes", "run", "yes.", "run."})
_HIDDEN_PARTS = re.compile(r"<!--.*?(?:-->|\Z)|<noinclude>.*?(?:</noinclude>|\Z)", re.DOTALL | re.IGNORECASE)


class EditGuard:
    """Rate limit and permission checks before each edit."""

    def __init__(self, api: WikiApi, settings: BotSettings, timing: ApiTiming, *, since_last_s: float) -> None:
        """Start with the time since the last edit of any run, in seconds."""
        self._api = api
        self._settings = settings
        self._timing = timing
        self._checked_at = float("-inf")
        self._last = timing.clock.monotonic() - max(since_last_s, 0.0)
        self.me = BotAccount("")

    @property
    def moment(self) -> int:
        """Return the current time in seconds since 1970."""
        return int(self._timing.clock.now().timestamp())

    async def wait(self) -> bool:
        """Wait for the minimum interval between edits; return True if it took any time."""
        left = self._last + 60.0 / self._settings.edits_per_minute - self._timing.clock.monotonic()
        if left > 0:
            await self._timing.sleep(left)
        return left > 0

    def made(self) -> None:
        """Record that an edit was sent."""
        self._last = self._timing.clock.monotonic()

    async def check(self) -> None:
        """Check that editing is allowed; raises EditingStoppedError with the reason, or WikiAwayError."""
        now = self._timing.clock.monotonic()
        if now - self._checked_at < TRUST_S:
            return
        self.me = me = await read_bot_account(self._api)
        if me.blocked:
            raise EditingStoppedError(f"The account {me.name} is {me.blocked}. Nothing is edited.")
        if me.rights and "edit" not in me.rights:
            raise EditingStoppedError(
                f"The account {me.name} may not edit: grant its bot password “Edit existing pages”."
            )
        if me.has_messages and self._settings.stop_on_messages:
            raise EditingStoppedError(
                f"Somebody wrote on the talk page of {me.name}. Read it, answer it, then continue with"
                " `weboid wiki bot on NAME --messages-read`."
            )
        if title := self._settings.run_page:
            text = await read_text(self._api, title)
            if text is None:
                raise EditingStoppedError(f"The run page {title} is missing, so nothing is edited.")
            if not allows_run(text):
                raise EditingStoppedError(
                    f"The run page {title} does not say yes or run in its first line, so nothing is edited."
                )
        self._checked_at = now


def allows_run(text: str) -> bool:
    r"""Return True if the first line of a run page, without comments, allows the bot to run.

    >>> allows_run("<!-- yes: it runs -->\nRun"), allows_run("no <!-- yes -->"), allows_run("")
    (True, False, False)
    """
    lines = (line.strip() for line in _HIDDEN_PARTS.sub("", text[:20_000]).splitlines())
    return next(filter(None, lines), "").casefold() in _SAYS_YES
