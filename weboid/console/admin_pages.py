"""Console pages of rules, settings, health, accounts, API tokens and the audit log."""

from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from core.errors import BadUrlError, WeboidError
from core.layout import CONFIG_FILE
from core.urls import fetch_key
from crawler.frontier.base import POLICY_ORDER
from crawler.jobs.crawl_orders import toml_value
from crawler.policy.policy_entries import SETTINGS, PolicyEntry, PolicyKind, read_entries
from crawler.profile_check import profile_faults, profile_warnings, setting_rows
from crawler.profiles import chain_settings, load_chain
from playback.access.levels import Level
from playback.access.takedowns import Takedown, TakedownSubject, list_takedowns
from playback.web.i18n import noop, translate
from weboid.app.collection_config import read_config_text
from weboid.app.setup_check import check_setup
from weboid.console.collection_operations import settings_faults, text_version
from weboid.console.operations import OPERATIONS
from weboid.console.page_frame import ROLE_NAMES, ConsolePages, console_page, console_path

ROWS_SHOWN = 200
_ENTRIES = 100
_LONGEST_VALUE = 200
_OTHER_LABELS = {"sign_in": noop("Sign in"), "upload_file": noop("Upload a file")}  # of lines of the audit log


class AdminPages(ConsolePages):
    """Pages of rules, settings, health, accounts and the audit log."""

    @console_page("rules")
    def rules(self, request: Request) -> Response:
        """Return policy entries, take-downs and levels; for a URL those that apply to it."""
        now, words = self._stores.clock.now(), request.query_params.get("q", "").strip()[:2_000]
        entries = read_entries(self._stores.frontier.orders(POLICY_ORDER))
        shown: list[PolicyEntry] = [each for each in entries.by_id.values() if each.holds(now)]
        takedowns: list[Takedown] = [each for each in list_takedowns(self._stores.decisions) if each.holds(now)]
        levels = sorted(self._stores.levels.now().rules, key=lambda each: each.number, reverse=True)
        url = ""
        if words.startswith(("http://", "https://")):
            with suppress(BadUrlError):
                url = fetch_key(words, allow_single_label=True)
        if url:
            shown = entries.of(url, tuple(PolicyKind), now=now)
            takedown = self._stores.access.subject(TakedownSubject(url))
            takedowns = [takedown] if takedown is not None else []
            levels = list(self._stores.levels.now().matching_rules(url))
        elif words:
            shown = [each for each in shown if words in each.pattern]
            takedowns = [each for each in takedowns if words in each.what]
            levels = [each for each in levels if words in str(each.target)]
        return self._frame(
            "rules.html",
            request,
            words=words,
            entries=sorted(shown, key=lambda each: each.made_at, reverse=True)[:ROWS_SHOWN],
            takedowns=takedowns[::-1][:ROWS_SHOWN],
            decisions=levels[:ROWS_SHOWN],
            total=len(shown) + len(takedowns) + len(levels),
            unread=entries.unread,
            kinds=[PolicyKind.BLACKLIST, PolicyKind.WHITELIST],
            setting_keys=list(SETTINGS),
            levels=list(Level),
        )

    @console_page("settings")
    def settings(self, request: Request) -> Response:
        """Return the settings in force, each with the file and line that sets it, and faults of these files."""
        path = self._stores.layout.root / CONFIG_FILE
        rows: list[dict[str, Any]] = []
        text: str | None = None
        faults, warnings = [], []
        try:
            text = read_config_text(path)
            faults = settings_faults(self._stores, text or "")
            chain = load_chain(str(path) if text is not None else "default")
            is_valid = not profile_faults(chain)
            settings = chain_settings(chain) if is_valid else self._stores.settings
            for row in setting_rows(settings, chain):
                texts = {key: toml_value(row[key])[:_LONGEST_VALUE] for key in ("value", "default")}
                rows.append({**row, **texts, "source": "" if row["from"] == "default" else row["from"]})
            warnings = [f"{each.where}: {each.text}" for each in profile_warnings(chain, settings) if is_valid]
        except WeboidError as error:
            faults = faults or [str(error)]
        has_all = request.query_params.get("all") == "1"
        return self._frame(
            "settings.html",
            request,
            path=str(path),
            text=text,
            version=text_version(text or ""),
            rows=[each for each in rows if has_all or each["source"]],
            total=len(rows),
            has_all=has_all,
            faults=faults,
            warnings=warnings,
        )

    @console_page("health")
    def health(self, request: Request) -> Response:
        """Return the findings of `weboid doctor`; they start a browser, so only on request."""
        findings = (
            check_setup(self._stores.layout.root, self._stores.settings) if "run" in request.query_params else None
        )
        return self._frame("health.html", request, findings=findings)

    @console_page("users")
    def users(self, request: Request) -> Response:
        """Return accounts and API tokens to an administrator, to others their own tokens."""
        user = request.state.user
        is_admin = user.may("admin")
        return self._frame(
            "users.html",
            request,
            accounts=self._stores.accounts.users() if is_admin else None,
            is_local=not any(each.is_external for each in self._stores.accounts.users(user.name)),
            tokens=self._stores.accounts.tokens("" if is_admin else user.name),
            roles=list(ROLE_NAMES),
            own_roles=[role for role in ROLE_NAMES if user.may(role)],
            scopes=["read", "upload_file", *sorted(each.name for each in OPERATIONS.values() if user.may(each.role))],
        )

    @console_page("audit")
    def audit(self, request: Request) -> Response:
        """Return changes by whom and when, the newest first."""
        text = request.query_params.get("before", "")
        before = int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None
        entries = self._stores.accounts.log_entries(before=before, limit=_ENTRIES + 1)
        labels = {each.name: each.label for each in OPERATIONS.values()} | _OTHER_LABELS
        shown = [
            (each, translate(str(labels.get(each["operation"], each["operation"])))) for each in entries[:_ENTRIES]
        ]
        older = console_path("audit", before=str(shown[-1][0]["id"])) if len(entries) > _ENTRIES else ""
        return self._frame("audit.html", request, entries=shown, older=older)
