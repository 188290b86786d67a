"""The pages on which readers speak: what is said, what would be said, and what came of it.

/links/say?url=…            what people say about an address, and what can be said
/links/say/<act>?url=…      what would be said, with a button
/links/say/<act>  (POST)    says it, and leads to the first
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from core.errors import BadUrlError, InputError, TransientError, UnavailableError
from core.urls import UrlFault
from links.archives.copies import LockedError
from links.days import date_of
from links.limits import TooOftenError
from links.observed import NotObservedError
from links.replacements import TakenError
from links.replacing import Refusal, RefusedAddressError
from links.reports import NeedlessError
from playback.front.languages import here, noop, translate
from playback.front.readers import neighbourhood
from playback.front.registry import words
from playback.front.registry.access import Door
from playback.front.registry.desk import NoRegistryError
from playback.front.registry.words import FAULTS
from playback.front.saying.acts import Act, Acts, Reach, Said, reaching
from playback.front.saying.addresses import SAY_PATH, say_path
from playback.front.saying.letters import Tokens, check_sender, read_letter
from playback.front.views import Means

_LOG = logging.getLogger(__name__)
_LONGEST = 4_000  # characters of an address in a field
# A browser then tells which of our pages sent a form; to other sites it tells nothing as ever.
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "same-origin"}

_REFUSED = {
    Refusal.SAME: noop("That is the same address."),
    Refusal.TOO_LONG: noop("It is too long."),
    Refusal.PRIVATE: noop("It does not lead to the public web."),
    Refusal.PORT: noop("Its port is not one of the web."),
    Refusal.POLICY: noop("Whoever runs this registry has excluded it."),
    Refusal.UNREACHABLE: noop("It is known to be unreachable, too."),
    Refusal.OTHER_COPY: noop("It is a copy in an archive, but not of this page."),
}
_NOT_WATCHED = noop("Nothing that was named is watched, so nothing can be said about it.")
_NEEDLESS = {
    Act.REPORT: noop("It is known to work: there is nothing to report."),
    Act.WITHDRAW: noop("Nobody has reported it: there is nothing to withdraw."),
    Act.REPLACE: noop("It works: it needs no replacement."),
    Act.REMOVE: noop("No replacement is proposed: there is nothing to remove."),
}
_TAKEN = noop("Another replacement is there already. If it is wrong, remove it first.")
_LOCKED = noop("That page changes all the time, so no copy of it is chosen by hand.")
_BAD_URL = noop("That is no address that can be opened.")
_BAD_INPUT = noop(
    "That is not possible: it means too much at once, or something else. Choose less."
)
_OTHER_SITE = noop("This came from a page of another site, so nothing was done.")
_STALE = noop("The form was open for too long, or comes from elsewhere. Press the button again.")
_EVERYBODYS = noop("So much was said today that no more is taken until midnight (UTC).")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a request says.

    Attributes:
        act: what is asked for.
        url: about what, as it was typed.
        reach: how far it goes.
        address: what is proposed, as it was typed.
        token: the form's.
    """

    act: Act
    url: str
    reach: Reach = Reach.URL
    address: str = ""
    token: str = ""

    @property
    def purpose(self) -> str:
        """What a form's token is for; what a reader types or chooses in the form is no part of it."""
        return f"{self.act} {self.url}"


class SayingPages:
    """The pages."""

    def __init__(self, acts: Acts, door: Door, means: Means) -> None:
        self._acts = acts
        self._door = door
        self._means = means

    def routes(self) -> list[BaseRoute]:
        """Their addresses."""
        return [
            Route(SAY_PATH, self.about),
            Route(f"{SAY_PATH}/{{act}}", self.ask),
            Route(f"{SAY_PATH}/{{act}}", self.say, methods=["POST"]),
        ]

    def about(self, request: Request) -> Response:
        """What people say about an address; without one, the question for it."""
        url = request.query_params.get("url", "")[:_LONGEST].strip()
        done = request.query_params.get("done", "")
        try:
            said = self._found(request, url) if url else None
        except (InputError, TransientError, UnavailableError) as error:
            return self._failed(error, _Wanted(Act.REPORT, url), None)
        has_done = done in set(Act) and said is not None and _shows(Act(done), said)
        return self._page(said, url=url, done=done if has_done else "")

    def ask(self, request: Request) -> Response:
        """What would be said, with the button that says it."""
        wanted = _wanted(request.path_params["act"], request.query_params)
        try:
            said = self._found(request, wanted.url)
        except (InputError, TransientError, UnavailableError) as error:
            return self._failed(error, wanted, None)
        if said.observed is None:
            return self._failed(NotObservedError(""), wanted, said)
        return self._form(request, wanted, said)

    async def say(self, request: Request) -> Response:
        """Say it."""
        act = _act(request.path_params["act"])
        try:
            check_sender(request, self._means.origin)
        except HTTPException:
            return self._page(None, 403, error=translate(_OTHER_SITE))
        wanted = _wanted(act, await read_letter(request))
        return await run_in_threadpool(self._said, request, wanted)

    def _said(self, request: Request, wanted: _Wanted) -> Response:
        said = None
        try:
            said = self._found(request, wanted.url)
            if said.observed is None:
                raise NotObservedError("")
            addresses = neighbourhood(self._door.address_of(request))
            now = self._means.clock.now().timestamp()
            tokens = Tokens(self._acts.reporters)
            if not tokens.holds(wanted.token, wanted.purpose, addresses, now):
                return self._form(request, wanted, said, 403, error=translate(_STALE))
            if wanted.act is Act.REPLACE and not wanted.address.strip():
                raise BadUrlError("", reason=UrlFault.EMPTY)
            self._acts.do(
                wanted.act, wanted.url, addresses, reach=wanted.reach, address=wanted.address
            )
        except (InputError, TransientError, UnavailableError) as error:
            return self._failed(error, wanted, said, request)
        query = urlencode({"url": said.url, "done": wanted.act.value})
        return RedirectResponse(f"{here(SAY_PATH)}?{query}", 303, headers=_HEADERS)

    def _found(self, request: Request, url: str) -> Said:
        """What is said about the address, when it is this reader's turn."""
        wait = self._door.form_wait_s(request, self._means.clock.monotonic())
        if wait:
            raise TooOftenError("", retry_after_s=wait, is_everybodys=False)
        try:
            return self._acts.said(url)
        except NoRegistryError:
            raise HTTPException(404) from None

    def _form(
        self, request: Request, wanted: _Wanted, said: Said, code: int = 200, error: str = ""
    ) -> Response:
        addresses = neighbourhood(self._door.address_of(request))
        now = self._means.clock.now().timestamp()
        try:
            tokens = Tokens(self._acts.reporters)
        except UnavailableError as failure:
            return self._failed(failure, wanted, None)
        token = tokens.make(wanted.purpose, addresses, now)
        return self._page(said, code, wanted=wanted, token=token, error=error)

    def _failed(
        self, error: Exception, wanted: _Wanted, said: Said | None, request: Request | None = None
    ) -> Response:
        """The page that says what is wrong, with the form where another try may help."""
        headers: dict[str, str] = {}
        code, text, wait_s = 400, "", 0
        match error:
            case TooOftenError():
                code, wait_s = 429, error.retry_after_s
                headers["Retry-After"] = str(wait_s)
                text = translate(_EVERYBODYS) if error.is_everybodys else ""
            case NotObservedError():
                code, text = 404, translate(_NOT_WATCHED)
            case NeedlessError():
                code, text = 409, translate(_NEEDLESS[wanted.act])
            case TakenError():
                code, text = 409, translate(_TAKEN)
            case RefusedAddressError():
                text = translate(_REFUSED[error.reason])
            case LockedError():
                code, text = 409, translate(_LOCKED)
            case BadUrlError():
                known = error.reason in set(UrlFault)
                text = translate(FAULTS[UrlFault(error.reason)] if known else _BAD_URL)
            case InputError():
                text = translate(_BAD_INPUT)
            case _:
                _LOG.warning("front.saying_unavailable: %s", error)
                code, headers["Retry-After"] = 503, "30"
        if request is not None and said is not None and code == 400:
            return self._form(request, wanted, said, code, text)
        return self._page(said, code, headers, url=wanted.url, error=text, wait_s=wait_s)

    def _page(
        self,
        said: Said | None,
        code: int = 200,
        headers: Mapping[str, str] | None = None,
        **values: object,
    ) -> Response:
        nothing: dict[str, object] = {
            "url": "", "done": "", "wanted": None, "token": "", "error": "", "wait_s": 0,
        }  # fmt: skip
        return self._means.render(
            "saying/say.html",
            code,
            {**_HEADERS, **(headers or {})},
            **{**nothing, **values},
            said=said,
            is_away=code == 503,
            ago=words.ago,
            date_of=date_of,
            reaching=reaching,
            Reach=Reach,
            say=say_path,
        )


def _act(text: str) -> Act:
    if text not in set(Act):
        raise HTTPException(404)
    return Act(text)


def _wanted(act: str, given: Mapping[str, str]) -> _Wanted:
    reach = given.get("reach", Reach.URL.value)
    return _Wanted(
        _act(act),
        given.get("url", "")[:_LONGEST].strip(),
        Reach(reach) if reach in set(Reach) else Reach.URL,
        given.get("prefix" if reach == Reach.PREFIX else "address", "")[: _LONGEST + 1].strip(),
        given.get("token", ""),
    )


def _shows(act: Act, said: Said) -> bool:
    """Whether what is said about the address now is what that act leaves behind."""
    match act:
        case Act.REPORT:
            return said.reachable.reports > 0
        case Act.WITHDRAW:
            return said.reachable.reports == 0
        case Act.REPLACE:
            return True
        case Act.REMOVE:
            return said.replacement is None
