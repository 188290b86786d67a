"""Console pages of accounts, API tokens and the audit log."""

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from weboid.console.accounts import AccountStore
from weboid.console.page_frame import CONSOLE_PATH, ROLE_NAMES, ConsoleFrame, console_path

_ENTRIES = 100


class AccountPages:
    """Pages of accounts. Plain functions, run by Starlette in threads."""

    def __init__(self, accounts: AccountStore, frame: ConsoleFrame) -> None:
        self._accounts = accounts
        self._frame = frame

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route(f"{CONSOLE_PATH}/users", self.users), Route(f"{CONSOLE_PATH}/audit", self.audit)]

    def users(self, request: Request) -> Response:
        """Return accounts and API tokens to an administrator, to others their own tokens."""
        user = request.state.user
        is_admin = user.may("admin")
        tokens = [
            {**each, **{name: _moment(each[name]) for name in ("added", "expires", "used")}}
            for each in self._accounts.tokens()
            if is_admin or each["owner"] == user.name
        ]
        return self._frame(
            "users.html",
            request,
            section="users",
            accounts=self._accounts.users() if is_admin else None,
            tokens=tokens,
            roles=list(ROLE_NAMES),
            own_roles=[role for role in ROLE_NAMES if user.may(role)],
        )

    def audit(self, request: Request) -> Response:
        """Return changes by whom and when, the newest first."""
        text = request.query_params.get("before", "")
        before = int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None
        entries = self._accounts.log_entries(before=before, limit=_ENTRIES + 1)
        shown = [{**each, "at": _moment(each["moment"])} for each in entries[:_ENTRIES]]
        older = console_path("audit", before=str(shown[-1]["id"])) if len(entries) > _ENTRIES else ""
        return self._frame("audit.html", request, section="audit", entries=shown, older=older)


def _moment(seconds: Any) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
