"""Permission to edit: bot account, run page, edit rate, {{bots}} and {{nobots}}.

One denial among several templates is enough, and one that cannot be parsed is a denial. The state of the wiki
is cached for half a minute.
"""

import re
from typing import Final

from wiki.api.client import ApiTiming, WikiApi
from wiki.api.edit_request import BotAccount, EditingStoppedError, read_bot_account
from wiki.api.page_query import read_text
from wiki.settings import BotSettings

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
    return _permits(text, bot, frozenset(OPT_OUTS))


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

    async def allow(self) -> None:
        """Wait until the next edit is allowed; raises EditingStoppedError with the reason, or WikiAwayError."""
        await self.wait()
        await self.check()

    async def wait(self) -> bool:
        """Wait for the minimum interval between edits; return True if it took any time."""
        gap = 60.0 / self._settings.edits_per_minute
        left = self._last + gap - self._timing.clock.monotonic()
        if left > 0:
            await self._timing.sleep(left)
        return left > 0

    def made(self) -> None:
        """Record that an edit was sent."""
        self._last = self._timing.clock.monotonic()

    async def check(self) -> None:
        """Check that editing is allowed; raises as `allow`."""
        now = self._timing.clock.monotonic()
        if now - self._checked_at < TRUST_S:
            return
        self.me = await read_bot_account(self._api)
        check_account(self.me, self._settings)
        if title := self._settings.run_page:
            text = await read_text(self._api, title)
            if text is None:
                raise EditingStoppedError(f"The run page {title} is missing, so nothing is edited.")
            if not allows_run(text):
                raise EditingStoppedError(
                    f"The run page {title} does not say yes or run in its first line, so nothing is edited."
                )
        self._checked_at = now


def check_account(me: BotAccount, settings: BotSettings) -> None:
    """Check the account; raises EditingStoppedError if it is blocked, lacks the right or has unread messages."""
    if me.blocked:
        raise EditingStoppedError(f"The account {me.name} is {me.blocked}. Nothing is edited.")
    if me.rights and "edit" not in me.rights:
        raise EditingStoppedError(f"The account {me.name} may not edit: grant its bot password “Edit existing pages”.")
    if me.has_messages and settings.stop_on_messages:
        raise EditingStoppedError(
            f"Somebody wrote on the talk page of {me.name}. Read it, answer, then go on with"
            " `weboid wiki bot on NAME --messages-read`."
        )


def allows_run(text: str) -> bool:
    r"""Return True if the first line of a run page, without comments, allows the bot to run.

    >>> allows_run("<!-- yes: it runs -->\nRun"), allows_run("no <!-- yes -->"), allows_run("")
    (True, False, False)
    """
    lines = (line.strip() for line in _HIDDEN_PARTS.sub("", text[:20_000]).splitlines())
    return next(filter(None, lines), "").casefold() in _SAYS_YES
