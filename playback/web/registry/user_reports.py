"""Pages on which readers report links, and the underlying actions (W13 to W18)."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from core.clock import Clock
from core.errors import BadUrlError, InputError, TransientError, UnavailableError
from core.url_patterns import PatternForm, parse_pattern
from core.urls import UrlFault, fetch_key, identity_key
from links.archives.copy_store import CopyLockedError
from links.check_history import date_of, day_of
from links.feedback import replacements, reports
from links.feedback.marks import LiveMarks
from links.feedback.reporter_limits import TooOftenError, forget_acts, open_reporter_digests
from links.registry.database import RegistryStore
from links.registry.urls import NotObservedError, UrlRow, find_observed, matcher
from links.url_parts import split_identity
from playback.web.i18n import localized_path, noop, translate
from playback.web.page_renderer import WebContext, path_with_query
from playback.web.rate_limits import BusyError, RateLimiter
from playback.web.registry import link_messages, registry_service
from playback.web.registry.link_messages import FAULTS
from playback.web.registry.registry_forms import OTHER_SITE, STALE_FORM, FormTokens, check_sender, read_form_post

REPORT_PATH = "/links/say"


def report_path(url: str, act: str = "") -> str:
    """Return the path of the reports about a URL, or of an action, with language prefix."""
    return path_with_query(localized_path(f"{REPORT_PATH}/{act}" if act else REPORT_PATH), {"url": url})


def report_addresses(registry: registry_service.LinkRegistry | None, origin: str) -> Callable[[str], str]:
    """Return a function that gives the address of a URL's reports; empty if reports are disabled."""
    takes_reports = registry is not None and registry.report_options is not None
    return (lambda url: origin + report_path(url)) if takes_reports else lambda _url: ""


_WRITERS = 2


class ReportAction(StrEnum):
    """Action of a reader, as named in addresses."""

    REPORT = "report"
    WITHDRAW = "withdraw"
    REPLACE = "replace"
    REMOVE = "remove"


class ReportReach(StrEnum):
    """Scope of a report: the URL, its directory, its host, or a prefix entered by the reader."""

    URL = "url"
    PATH = "path"  # what begins with the URL's folder
    HOST = "host"  # its host, and all below
    PREFIX = "prefix"  # what begins as the reader typed


@dataclass(frozen=True, slots=True)
class UrlReports:
    """Reports about a URL, for the report pages."""

    url: str  # its normal form
    observed: UrlRow | None  # its record; None when it is not watched
    reachable: reports.ReachabilityReports = reports.NO_REPORTS
    replacement: replacements.ReplacementProposal | None = None  # tested or not
    day: int = 0

    @property
    def is_working(self) -> bool:
        """Return True when it is known to work, so that there is nothing to report or replace."""
        return self.observed is not None and self.observed.state in reports.WORKING

    @property
    def is_taken(self) -> bool:
        """Return True when there is already a replacement; only one is stored."""
        return self.replacement is not None and self.replacement.stage is not replacements.ProposalStage.FAILED


class ReportService:
    """Actions of readers. Thread-safe."""

    def __init__(
        self, source: registry_service.RegistrySource, report_options: registry_service.ReportOptions, clock: Clock
    ) -> None:
        self._source = source
        self._report_options = report_options
        self._clock = clock
        self._lock = threading.Lock()
        self._writers = registry_service.RegistryWriters(_WRITERS)
        # The key is created on first use.
        self.reporters = cache(partial(open_reporter_digests, report_options.layout))
        self._marks: tuple[RegistryStore, LiveMarks] | None = None
        self._forgot_day = -1

    def reports_on(self, url: str) -> UrlReports:
        """Return the reports about the URL."""
        day = day_of(self._clock.now())
        with self._source.store().reading() as rows:
            observed = find_observed(rows, url)
            if observed is None:
                return UrlReports(identity_key(fetch_key(url)), None, day=day)
            return UrlReports(
                observed.url,
                observed,
                reports.reachability_reports(rows, [observed.id], day).get(observed.id, reports.NO_REPORTS),
                replacements.replacements_of(rows, [observed.id]).get(observed.id),
                day,
            )

    def do(self, act: ReportAction, url: str, addresses: str, *, reach: ReportReach, address: str) -> None:
        """Perform an action for a reader; `address`: the replacement, or the prefix of that reach.

        The class of an InputError identifies the fault; TransientError: too often, or the registry is away.
        """
        reporter = self.reporters().of_range(addresses)
        now, limits = self._clock.now(), self._report_options.limits
        store = self._source.store()
        if reach is ReportReach.PREFIX:
            pattern = parse_pattern(address.strip())
            matches = pattern.form is not PatternForm.REGEX and matcher(pattern)
            if not matches or not matches(identity_key(fetch_key(url))):
                raise InputError("The URL does not begin with what was typed.")
            named = [address.strip()]
        else:
            named = [report_pattern(url, reach) if reach is not ReportReach.URL else url]
        is_pattern = reach is not ReportReach.URL
        with self._lock:  # once a day
            is_due, self._forgot_day = self._forgot_day != day_of(now), day_of(now)
        if is_due:
            with self._writers.waiting(), store.writing() as rows:
                forget_acts(rows, now)
        # Conditions in other tables are read before waiting for the write lock.
        around = None
        if act is ReportAction.REPLACE:
            with self._lock:
                if self._marks is None or self._marks[0] is not store:
                    self._marks = (store, LiveMarks(store, self._clock))
                marks = self._marks[1].current()
            around = replacements.ProposalContext(marks.refuses, self._report_options.archives, limits)
        with self._writers.waiting(), store.writing() as rows:
            if act is ReportAction.REPORT:
                reports.add_report(rows, named, reporter, now, is_pattern=is_pattern, limits=limits)
            elif act is ReportAction.WITHDRAW:
                reports.withdraw_reports(rows, named, reporter, now, is_pattern=is_pattern, limits=limits)
            elif around is not None:
                replacements.propose_replacement(rows, url, address, reporter, now, around)
            else:
                replacements.remove_replacement(rows, url, reporter, now, limits)


def report_pattern(url: str, reach: ReportReach) -> str:
    """Return the pattern for a report with a scope above the URL.

    >>> report_pattern("https://www.example.org:81/a/b?c=/d", ReportReach.PATH)
    'www.example.org:81/a/'
    >>> report_pattern("https://www.example.org/a/b", ReportReach.HOST)
    'www.example.org'
    """
    locator = split_identity(identity_key(fetch_key(url)))
    if reach is ReportReach.HOST:
        return locator.host
    port = f":{locator.port}" if locator.port else ""
    folder = locator.path.partition("?")[0].rpartition("/")[0]
    return f"{locator.host}{port}{folder}/"


_LOG = logging.getLogger(__name__)
_LONGEST = 4_000  # characters of an address in a field
# Browsers then send Origin and Referer with our own forms, but not to other sites.
FORM_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "same-origin"}

REFUSED_ADDRESSES = {
    replacements.AddressRefusal.SAME: noop("This is the same address."),
    replacements.AddressRefusal.TOO_LONG: noop("The address is too long."),
    replacements.AddressRefusal.PRIVATE: noop("The address is not on the public web."),
    replacements.AddressRefusal.PORT: noop("The port is not a usual web port."),
    replacements.AddressRefusal.POLICY: noop("The operator of this registry has excluded this address."),
    replacements.AddressRefusal.UNREACHABLE: noop("This address is known to be unreachable as well."),
    replacements.AddressRefusal.OTHER_COPY: noop("This is an archived copy of a different page."),
}
_NOT_WATCHED = noop("None of these addresses is on a watched page, so they cannot be reported.")
_NEEDLESS = {
    ReportAction.REPORT: noop("The link is known to work: there is nothing to report."),
    ReportAction.WITHDRAW: noop("There are no reports of this link to withdraw."),
    ReportAction.REPLACE: noop("The link works and needs no replacement."),
    ReportAction.REMOVE: noop("There is no replacement to remove."),
}
_TAKEN = noop("There is already a replacement. Remove it first if it is wrong.")
_LOCKED = noop("This page changes constantly, so no copy can be selected for it.")
_BAD_URL = noop("This is not a valid address.")
_BAD_INPUT = noop("This scope is too large or does not include the link. Choose a smaller one.")
_EVERYBODYS = noop("The daily limit of reports has been reached. Please try again after midnight (UTC).")


@dataclass(frozen=True, slots=True)
class _ReportRequest:
    act: ReportAction
    url: str  # its target, as entered
    reach: ReportReach = ReportReach.URL
    address: str = ""
    token: str = ""


class ReportPages:
    """Routes of the report pages."""

    def __init__(self, acts: ReportService, limiter: RateLimiter, context: WebContext) -> None:
        self._acts = acts
        self._limiter = limiter
        self._context = context

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route(REPORT_PATH, self.about),
            Route(f"{REPORT_PATH}/{{act}}", self.ask),
            Route(f"{REPORT_PATH}/{{act}}", self.say, methods=["POST"]),
        ]

    def about(self, request: Request) -> Response:
        """Return the reports about a URL; without one, the input form."""
        url = request.query_params.get("url", "")[:_LONGEST].strip()
        done = request.query_params.get("done", "")
        try:
            url_reports = self._reports_on(request, url) if url else None
        except (InputError, TransientError, UnavailableError) as error:
            return self._failed(error, _ReportRequest(ReportAction.REPORT, url), None)
        has_done = False  # unless the reports reflect the result of the action
        if url_reports is not None:
            count = url_reports.reachable.reports
            outcomes = {
                ReportAction.REPORT.value: count > 0,
                ReportAction.WITHDRAW.value: count == 0,
                ReportAction.REPLACE.value: True,
                ReportAction.REMOVE.value: url_reports.replacement is None,
            }
            has_done = outcomes.get(done, False)
        return self._page(url_reports, url=url, done=done if has_done else "")

    def ask(self, request: Request) -> Response:
        """Return the confirmation page of an action."""
        wanted = _wanted(request.path_params["act"], request.query_params)
        try:
            url_reports = self._reports_on(request, wanted.url)
        except (InputError, TransientError, UnavailableError) as error:
            return self._failed(error, wanted, None)
        if url_reports.observed is None:
            return self._failed(NotObservedError(""), wanted, url_reports)
        return self._form(request, wanted, url_reports)

    async def say(self, request: Request) -> Response:
        """Perform the action and redirect to the reports."""
        try:
            check_sender(request, self._context.origin)
        except HTTPException:
            return self._page(None, 403, error=translate(OTHER_SITE))
        wanted = _wanted(request.path_params["act"], await read_form_post(request))
        return await run_in_threadpool(self._perform, request, wanted)

    def _perform(self, request: Request, wanted: _ReportRequest) -> Response:
        url_reports = None
        try:
            url_reports = self._reports_on(request, wanted.url)
            if url_reports.observed is None:
                raise NotObservedError("")
            addresses = self._limiter.range_of(request)
            if not FormTokens(self._acts.reporters()).holds(wanted.token, *self._stamped(request, wanted)):
                return self._form(request, wanted, url_reports, 403, error=translate(STALE_FORM))
            if wanted.act is ReportAction.REPLACE and not wanted.address.strip():
                raise BadUrlError("", reason=UrlFault.EMPTY)
            self._acts.do(wanted.act, wanted.url, addresses, reach=wanted.reach, address=wanted.address)
        except (InputError, TransientError, UnavailableError) as error:
            return self._failed(error, wanted, url_reports, request)
        done = {"url": url_reports.url, "done": wanted.act.value}
        return RedirectResponse(path_with_query(localized_path(REPORT_PATH), done), 303, headers=FORM_HEADERS)

    def _reports_on(self, request: Request, url: str) -> UrlReports:
        """Return the reports about the URL, subject to the rate limit."""
        try:
            self._limiter.count(request, is_form=True)
            return self._acts.reports_on(url)
        except BusyError as error:
            raise TooOftenError("", retry_after_s=error.seconds, is_everybodys=False) from None
        except registry_service.NoRegistryError:
            raise HTTPException(404) from None

    def _stamped(self, request: Request, wanted: _ReportRequest) -> tuple[str, str, float]:
        """Return purpose, addresses and time of the form's token, without values entered in that form."""
        return f"{wanted.act} {wanted.url}", self._limiter.range_of(request), self._context.clock.now().timestamp()

    def _form(
        self, request: Request, wanted: _ReportRequest, url_reports: UrlReports, code: int = 200, error: str = ""
    ) -> Response:
        try:
            token = FormTokens(self._acts.reporters()).make(*self._stamped(request, wanted))
        except UnavailableError as failure:
            return self._failed(failure, wanted, None)
        return self._page(url_reports, code, wanted=wanted, token=token, error=error)

    def _failed(
        self, error: Exception, wanted: _ReportRequest, url_reports: UrlReports | None, request: Request | None = None
    ) -> Response:
        """Return the error page, with the form if another attempt may succeed."""
        headers: dict[str, str] = {}
        code, text, wait_s = 400, "", 0
        match error:
            case TooOftenError():
                code, wait_s = 429, error.retry_after_s
                headers["Retry-After"] = str(wait_s)
                text = translate(_EVERYBODYS) if error.is_everybodys else ""
            case NotObservedError():
                code, text = 404, translate(_NOT_WATCHED)
            case reports.NeedlessReportError():
                code, text = 409, translate(_NEEDLESS[wanted.act])
            case replacements.ProposalTakenError():
                code, text = 409, translate(_TAKEN)
            case replacements.RefusedAddressError():
                text = translate(REFUSED_ADDRESSES[error.reason])
            case CopyLockedError():
                code, text = 409, translate(_LOCKED)
            case BadUrlError():
                known = error.reason in set(UrlFault)
                text = translate(FAULTS[UrlFault(error.reason)] if known else _BAD_URL)
            case InputError():
                text = translate(_BAD_INPUT)
            case _:
                _LOG.warning("front.saying_unavailable: %s", error)
                code, headers["Retry-After"] = 503, "30"
        if request is not None and url_reports is not None and code == 400:
            return self._form(request, wanted, url_reports, code, text)
        return self._page(url_reports, code, headers, url=wanted.url, error=text, wait_s=wait_s)

    def _page(
        self,
        url_reports: UrlReports | None,
        code: int = 200,
        headers: Mapping[str, str] | None = None,
        **values: object,
    ) -> Response:
        nothing: dict[str, object] = {
            "url": "", "done": "", "wanted": None, "token": "", "error": "", "wait_s": 0,
        }  # fmt: skip
        return self._context.render(
            "saying/say.html",
            code,
            {**FORM_HEADERS, **(headers or {})},
            **{**nothing, **values},
            url_reports=url_reports,
            is_away=code == 503,
            ago=link_messages.ago,
            date_of=date_of,
            reaching=report_pattern,
            Reach=ReportReach,
            say=report_path,
        )


def _wanted(act: str, parameters: Mapping[str, str]) -> _ReportRequest:
    if act not in set(ReportAction):
        raise HTTPException(404)
    reach = parameters.get("reach", ReportReach.URL.value)
    return _ReportRequest(
        ReportAction(act),
        parameters.get("url", "")[:_LONGEST].strip(),
        ReportReach(reach) if reach in set(ReportReach) else ReportReach.URL,
        parameters.get("prefix" if reach == ReportReach.PREFIX else "address", "")[: _LONGEST + 1].strip(),
        parameters.get("token", ""),
    )
