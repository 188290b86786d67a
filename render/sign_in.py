"""Sessions of logins, cookies and local storage, and visible browsers: for a login, and for a recorded session.

A cookie for a whole domain is narrowed to the named hosts when it is recorded, so that no other host of that domain
is ever sent it. Local storage is accessed for a page's own origin only.

The browser of a login runs without a proxy, and is queried for nothing but cookies and the local storage of the tabs'
origins: it is the person's own session, and nothing of it is archived. It is polled once a second, so that closing the
last window, which ends a browser, loses nothing. That of a recorded session reaches the web by the recorder only.
"""

import asyncio
import json
import os
from base64 import b64decode
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urlsplit

from core.clock import Clock
from core.errors import BadUrlError, BrowserUnavailableError, ConfigError
from core.hosts import HostPatterns, ProxyEndpoint, canonical_host
from net.stop_signals import wait_for_any
from render.artifacts import TEXT_LIMIT_CHARS
from render.browser import BrowserContext
from render.browser_process import NOBODY, BrowserHome, BrowserProcess, privilege_prefix, shared_memory_suffices
from render.cdp import CdpConnection, CommandError
from render.chromium import COMMON_SWITCHES, BrowserExecutable, BrowserKind
from render.page import WORLD, BrowserPage, load_script

COOKIES_LIMIT = 3_000
# Fields of ``Network.Cookie`` (read) that ``Network.CookieParam`` (set) has, too.
_KEPT = ("name", "value", "path", "secure", "httpOnly", "sameSite", "priority")

Cookie = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SiteSession:
    """Cookies and local storage, limited to their hosts."""

    # ``name``, ``value``, ``domain`` (with a leading dot: subdomains, too), ``path``, ``expires``
    # (seconds since 1970; absent: until the browser is closed), flags
    cookies: tuple[Cookie, ...] = field(default=(), repr=False)
    # Local storage by origin
    storage: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def alive(self, now_s: float) -> "SiteSession":
        """Return the session without expired cookies; `now_s` is in seconds since 1970."""
        return SiteSession(tuple(each for each in self.cookies if each.get("expires", now_s + 1) > now_s), self.storage)


def check_hosts(hosts: Sequence[str]) -> None:
    """Validate host patterns; ConfigError names an invalid one, or the one that matches all hosts."""
    if not hosts or "*" in hosts:
        raise ConfigError("A login is for named hosts, not for all: name example.org or *.example.org.")
    HostPatterns(dict.fromkeys(hosts, True))


def covers_host_of(hosts: Sequence[str], url: str) -> bool:
    """Return whether the URL's host matches one of the patterns."""
    return HostPatterns(dict.fromkeys(hosts, True)).covers(url)


@dataclass(frozen=True, slots=True)
class Login:
    """Login of one or more hosts."""

    name: str
    hosts: tuple[str, ...]  # patterns of the hosts that it is for; it is used for no other
    made_at: datetime
    expires_at: datetime | None = None  # of the last cookie with a date; None: none has one
    cookies: int = 0  # number of cookies
    key: str = ""  # kind of its key, ``passphrase`` or ``file``
    unverified_tls: bool = False  # also for servers whose certificate does not verify
    session: SiteSession = field(default_factory=SiteSession)  # empty as long as it is sealed


class SiteLogins:
    """Opened logins; a page uses the first whose hosts match."""

    def __init__(self, logins: Sequence[Login] = ()) -> None:
        self._logins = tuple(logins)

    def __len__(self) -> int:
        return len(self._logins)

    def of(self, url: str) -> Login | None:
        """Return the login for the page; None: visit without one."""
        return next((each for each in self._logins if covers_host_of(each.hosts, url)), None)


def confine_to_hosts(
    cookies: Sequence[Cookie], storage: Mapping[str, Mapping[str, str]], hosts: Sequence[str]
) -> SiteSession:
    """Return the cookies (of ``Storage.getCookies``) and storage (by origin) of these host patterns."""
    confined: dict[tuple[str, str, str], Cookie] = {}
    for cookie in cookies:
        for domain in _domains(str(cookie.get("domain", "")), hosts):
            narrowed = {key: cookie[key] for key in _KEPT if key in cookie}
            narrowed["domain"] = domain
            if cookie.get("expires", -1) > 0:
                narrowed["expires"] = cookie["expires"]
            confined.setdefault((narrowed["name"], domain, narrowed.get("path", "/")), narrowed)
    own = {origin: dict(items) for origin, items in storage.items() if covers_host_of(hosts, origin)}
    return SiteSession(tuple(confined.values())[:COOKIES_LIMIT], own)


async def restore_session(session: SiteSession, context: BrowserContext, page: BrowserPage) -> None:
    """Load the session into a page that has not navigated yet; errors as `BrowserPage.send`."""
    cookies = []
    for each in session.cookies:
        cookie, domain = dict(each), each["domain"]
        if not domain.startswith("."):  # it is for its URL's host alone
            scheme = "https" if cookie.get("secure") else "http"
            cookie["url"] = f"{scheme}://{cookie.pop('domain')}/"
        cookies.append(cookie)
    connection, of = context.connection, {"browserContextId": context.id}
    try:
        await connection.send("Storage.setCookies", {"cookies": cookies, **of})
    except CommandError:
        # One by one: a refused one does not affect the others.
        for cookie in cookies[:-1]:
            connection.post("Storage.setCookies", {"cookies": [cookie], **of})
        with suppress(CommandError):
            await connection.send("Storage.setCookies", {"cookies": cookies[-1:], **of})
    if session.storage:
        facts = json.dumps({origin: dict(items) for origin, items in session.storage.items()})
        source = f"({load_script('storage')})({facts})"
        # In a world of our own, where no page can watch it being done.
        await page.send("Page.addScriptToEvaluateOnNewDocument", {"source": source, "worldName": WORLD})


def _domains(domain: str, hosts: Sequence[str]) -> list[str]:
    """Return the cookie domains, narrowed to the hosts, under which a cookie is stored."""
    below = domain.startswith(".")
    try:
        bare = canonical_host(domain.removeprefix("."))
    except BadUrlError:
        return []
    domains = []
    for pattern in hosts:
        wide = pattern.startswith("*.")
        named = canonical_host(pattern.removeprefix("*."))
        if bare == named or (wide and bare.endswith(f".{named}")):
            domains.append(f".{bare}" if below and wide else bare)
        elif below and named.endswith(f".{bare}"):
            domains.append(f".{named}" if wide else named)
    return list(dict.fromkeys(domains))


STORAGE_LIMIT_CHARS = 5_000_000  # what browsers give one origin
LOOK_S = 1.0
SNAPSHOTS_KEPT = 4
ANSWER_LIMIT_S = 30.0
PICTURE_LIMIT_S = 5.0
ORIGINS_LIMIT = 50
# Display variables; no other environment variable reaches the browser.
SCREEN_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR")
_NO_PROXY = "http://127.0.0.1:9"  # the port "discard", on which nothing listens
_FEATURES = "--disable-features=AutofillServerCommunication,MediaRouter,OptimizationHints,Translate"


def display_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that select the display; BrowserUnavailableError: there is none."""
    screen = {name: environment[name] for name in SCREEN_VARIABLES if environment.get(name)}
    if not {"DISPLAY", "WAYLAND_DISPLAY"} & screen.keys():
        raise BrowserUnavailableError(
            "This needs a browser window, but there is no screen (DISPLAY is not set). Create the login on a machine "
            "with a screen, in another collection, and copy its file from logins/."
        )
    # The browser has a different home than its user, so the paths are set explicitly.
    ticket = Path(environment.get("HOME", "")) / ".Xauthority"
    if "XAUTHORITY" not in screen and ticket.is_absolute() and ticket.is_file():
        screen["XAUTHORITY"] = str(ticket)
    return screen


class SignIn:
    """Open browser of a login, created by `open_sign_in`."""

    def __init__(self, connection: CdpConnection, url: str) -> None:
        self._connection = connection
        self._url = url
        # After its last window is closed the browser may still answer for a moment, but has dropped
        # its session cookies: the values just before count.
        self._snapshots: deque[tuple[Cookie, ...]] = deque(maxlen=SNAPSHOTS_KEPT)
        self._tabs: dict[str, str] = {}  # target id -> session id, empty until it is attached
        self._context: dict[str, str] = {}  # of its tabs, as a parameter of commands; empty: any
        self.over = asyncio.Event()  # set when its last tab is closed, or the browser has ended
        self.cookies: tuple[Cookie, ...] = ()  # all cookies at the last poll
        self.storage: dict[str, dict[str, str]] = {}  # local storage by origin at the last poll

    async def start(self) -> None:
        """Open the URL in the existing tab or a new one."""
        send = self._connection.send
        self._connection.listen("", self._handle_event)
        async with asyncio.timeout(ANSWER_LIMIT_S):
            await send("Target.setDiscoverTargets", {"discover": True})
            tabs = [each["targetId"] for each in (await send("Target.getTargets"))["targetInfos"] if self._is_tab(each)]
            if not tabs:
                tabs = [(await send("Target.createTarget", {"url": "about:blank", **self._context}))["targetId"]]
            await send("Page.navigate", {"url": self._url}, await self._attach(tabs[0]))

    async def watch(self) -> None:
        """Poll the browser until the login is over."""
        while not self.over.is_set():
            await self.update()
            await wait_for_any(self.over, self._connection.closed, timeout_s=LOOK_S)
            if self._connection.closed.is_set():
                self.over.set()
        await self.update()
        cookies = {
            (each.get("name"), each.get("domain"), each.get("path")): each
            for snapshot in self._snapshots
            for each in snapshot
        }
        self.cookies = tuple(cookies.values())

    async def update(self) -> None:
        """Record current cookies and storage; unreadable parts keep their last value."""
        with suppress(BrowserUnavailableError, CommandError, TimeoutError):
            async with asyncio.timeout(ANSWER_LIMIT_S):
                self.cookies = tuple((await self._connection.send("Storage.getCookies"))["cookies"])
                self._snapshots.append(self.cookies)
                for tab in list(self._tabs):
                    await self._read_storage(tab)

    async def send(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a command to the first tab; used by tests in place of a person."""
        return await self._connection.send(method, params, await self._attach(next(iter(self._tabs))))

    async def _read_storage(self, tab: str) -> None:
        try:
            session = await self._attach(tab)
            tree = await self._connection.send("Page.getFrameTree", None, session)
            origin = str(tree["frameTree"]["frame"].get("securityOrigin", ""))
            if urlsplit(origin).scheme not in ("http", "https"):
                return
            where = {"storageId": {"securityOrigin": origin, "isLocalStorage": True}}
            answer = await self._connection.send("DOMStorage.getDOMStorageItems", where, session)
        except CommandError:
            return  # the tab was closed, or navigated, at this moment
        items = {str(key): str(value) for key, value in answer["entries"]}
        size = sum(len(key) + len(value) for key, value in items.items())
        if size <= STORAGE_LIMIT_CHARS and len(self.storage) < ORIGINS_LIMIT:
            self.storage[origin.rstrip("/")] = items

    async def _attach(self, tab: str) -> str:
        if not self._tabs.get(tab):
            attached = await self._connection.send("Target.attachToTarget", {"targetId": tab, "flatten": True})
            self._tabs[tab] = attached["sessionId"]
        return self._tabs[tab]

    def _is_tab(self, target: Mapping[str, Any]) -> bool:
        return target["type"] == "page" and self._context.items() <= target.items()

    def _handle_event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Target.targetCreated" and self._is_tab(params["targetInfo"]):
            self._tabs.setdefault(params["targetInfo"]["targetId"], "")
        elif method == "Target.targetDestroyed" and params["targetId"] in self._tabs:
            del self._tabs[params["targetId"]]
            if not self._tabs:
                self.over.set()


@dataclass(slots=True)
class ShownPage:
    """Page that a tab of a recorded session has shown."""

    url: str
    started_at: datetime
    title: str = ""
    picture: bytes = b""  # PNG of the viewport; empty when none could be made
    text: str = ""  # its visible text, without that of frames of other sites
    address: str = ""  # where its scripts have gone since; empty: nowhere


class RecordedWindow(SignIn):
    """Open browser of a recorded session, created by `open_recorded_window`.

    Its tabs' context alone uses the recorder: what the browser itself sends, such as suggestions, reaches no archive.
    """

    def __init__(
        self, connection: CdpConnection, url: str, proxy: ProxyEndpoint, clock: Clock, *, downloads: Path
    ) -> None:
        super().__init__(connection, url)
        self._proxy, self._downloads = proxy, downloads
        self._clock = clock
        self._attaching = asyncio.Lock()  # a tab is attached once
        self._work: set[asyncio.Task[None]] = set()
        self._current: dict[str, ShownPage] = {}  # by target id
        self._script = (
            "(limit) => ({url: location.href, title: document.title, hidden: document.hidden,"
            f" parts: ({load_script('text')})(limit)}})"
        )
        self.pages: list[ShownPage] = []  # in the order of their beginning

    async def start(self) -> None:
        """Open the URL in a context whose proxy is the recorder."""
        proxied = {"proxyServer": self._proxy.server, "proxyBypassList": "<-loopback>"}
        async with asyncio.timeout(ANSWER_LIMIT_S):
            reply = await self._connection.send("Target.createBrowserContext", proxied)
            self._context = {"browserContextId": reply["browserContextId"]}
            # Without a dialog for each; the files go with the browser's home, as they are in the archive.
            saving = {"behavior": "allow", "downloadPath": str(self._downloads), **self._context}
            await self._connection.send("Browser.setDownloadBehavior", saving)
        await super().start()

    async def update(self) -> None:
        """Update title, text and picture of each tab's page; closed and hidden tabs keep their last."""
        await asyncio.gather(*(self._update_page(tab, page) for tab, page in list(self._current.items())))

    async def _update_page(self, tab: str, page: ShownPage) -> None:
        with suppress(BrowserUnavailableError, CommandError, TimeoutError, KeyError):
            async with asyncio.timeout(PICTURE_LIMIT_S):  # a tab that is left meanwhile does not answer
                session = self._tabs[tab]
                world = {"frameId": tab, "worldName": WORLD}
                reply = await self._connection.send("Page.createIsolatedWorld", world, session)
                call = {"functionDeclaration": self._script, "returnByValue": True, "silent": True}
                call |= {"executionContextId": reply["executionContextId"], "arguments": [{"value": TEXT_LIMIT_CHARS}]}
                state = (await self._connection.send("Runtime.callFunctionOn", call, session))["result"]["value"]
                if self._current.get(tab) is not page or urldefrag(state["url"]).url != (page.address or page.url):
                    return  # another page was opened meanwhile
                page.title = str(state["title"])[:1000]
                page.text = "".join(each for each in state["parts"] if isinstance(each, str))
                if not state["hidden"]:
                    answer = await self._connection.send("Page.captureScreenshot", {"format": "png"}, session)
                    if self._current.get(tab) is page:
                        page.picture = b64decode(answer["data"])

    async def _attach(self, tab: str) -> str:
        async with self._attaching:
            if self._tabs.get(tab):
                return self._tabs[tab]
            session = await super()._attach(tab)
            self._connection.listen(session, partial(self._handle_tab_event, tab, session))
            await self._connection.send("Page.enable", None, session)
            requests = {"handleAuthRequests": True, "patterns": [{"urlPattern": "*"}]}
            await self._connection.send("Fetch.enable", requests, session)
            if tab not in self._current:  # a window that a page opened may show its document already
                tree = await self._connection.send("Page.getFrameTree", None, session)
                if tab not in self._current:
                    self._note_page(tab, tree["frameTree"]["frame"])
            return session

    def _handle_event(self, method: str, params: dict[str, Any]) -> None:
        super()._handle_event(method, params)
        if method == "Target.targetCreated" and self._is_tab(params["targetInfo"]):
            work = asyncio.create_task(self._attach_new(params["targetInfo"]["targetId"]))
            self._work.add(work)
            work.add_done_callback(self._work.discard)

    async def _attach_new(self, tab: str) -> None:
        with suppress(BrowserUnavailableError, CommandError, TimeoutError):
            async with asyncio.timeout(ANSWER_LIMIT_S):
                await self._attach(tab)

    def _handle_tab_event(self, tab: str, session: str, method: str, params: dict[str, Any]) -> None:
        if method == "Fetch.requestPaused":
            self._connection.post("Fetch.continueRequest", {"requestId": params["requestId"]}, session)
        elif method == "Fetch.authRequired":
            # Those of sites are the person's to give.
            answer = {"response": "Default"}
            if params["authChallenge"].get("source") == "Proxy":
                own = self._proxy
                answer = {"response": "ProvideCredentials", "username": own.username, "password": own.password}
            wanted = {"requestId": params["requestId"], "authChallengeResponse": answer}
            self._connection.post("Fetch.continueWithAuth", wanted, session)
        elif method == "Page.frameNavigated" and "parentId" not in params["frame"]:
            self._note_page(tab, params["frame"])
        elif method == "Page.navigatedWithinDocument" and params["frameId"] == tab and tab in self._current:
            self._current[tab].address = urldefrag(params["url"]).url

    def _note_page(self, tab: str, frame: Mapping[str, Any]) -> None:
        url = urldefrag(frame["url"]).url
        if urlsplit(url).scheme in ("http", "https") and "unreachableUrl" not in frame:
            self._current[tab] = ShownPage(url, self._clock.now())
            self.pages.append(self._current[tab])


@asynccontextmanager
async def open_recorded_window(
    url: str,
    executable: BrowserExecutable,
    *,
    screen: Mapping[str, str] | None,
    proxy: ProxyEndpoint,
    spki: str,
    clock: Clock,
) -> AsyncIterator[RecordedWindow]:
    """Open a browser at the URL whose only way is the proxy; as `open_sign_in`. `spki`: of the proxy's authority."""
    switches = (
        "--no-startup-window",
        f"--proxy-server={_NO_PROXY}",
        "--proxy-bypass-list=<-loopback>",
        f"--ignore-certificate-errors-spki-list={spki}",
        "--disable-quic",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    )
    async with _open_browser(executable, screen, switches) as (connection, process, home):
        opened = RecordedWindow(connection, url, proxy, clock, downloads=home)
        await _start(opened, process)
        yield opened


@asynccontextmanager
async def open_sign_in(
    url: str, executable: BrowserExecutable, *, screen: Mapping[str, str] | None
) -> AsyncIterator[SignIn]:
    """Open a browser at the URL, on that screen (None: without a window, for tests); end it after the block.

    Raises BrowserUnavailableError: it does not start, or has no window.
    """
    async with _open_browser(executable, screen, ()) as (connection, process, _):
        opened = SignIn(connection, url)
        await _start(opened, process)
        yield opened


async def _start(opened: SignIn, process: BrowserProcess) -> None:
    try:
        await opened.start()
    except (TimeoutError, BrowserUnavailableError) as error:
        text = f"The browser window does not open. Its error output: {process.errors or 'none'}"
        raise BrowserUnavailableError(text) from error


@asynccontextmanager
async def _open_browser(
    executable: BrowserExecutable, screen: Mapping[str, str] | None, switches: Sequence[str]
) -> AsyncIterator[tuple[CdpConnection, BrowserProcess, Path]]:
    """Yield the browser's connection, process and home folder."""
    if screen is not None and executable.kind is BrowserKind.HEADLESS_SHELL:
        raise BrowserUnavailableError(
            "This needs a browser with windows, but only the headless shell is installed: "
            "apt-get install chromium, or set [browser] executable in the profile to one."
        )
    root = os.geteuid() == 0
    prefix = privilege_prefix(root=root, executable=executable.path)
    home = BrowserHome(owner=NOBODY if root else None)
    try:
        line = [str(executable.path), f"--user-data-dir={home.profile}", *COMMON_SWITCHES, _FEATURES, *switches]
        if screen is None and executable.kind is not BrowserKind.HEADLESS_SHELL:
            line.append("--headless=new")
        if not shared_memory_suffices():
            line.append("--disable-dev-shm-usage")
        if "--no-startup-window" not in switches:
            line.append("about:blank")
        more = _with_ticket(screen or {}, home, owner=NOBODY if root else None)
        process = BrowserProcess([*prefix, *line], home=home.inside, more=more)
        connection = CdpConnection(process.read_fd, process.write_fd)
        try:
            yield connection, process, home.inside
        finally:
            connection.close()
            await asyncio.shield(process.close())
    finally:
        home.close()


def _with_ticket(screen: Mapping[str, str], home: BrowserHome, *, owner: int | None) -> dict[str, str]:
    """Return the display variables, with the X authority file copied for the browser's user."""
    ticket = screen.get("XAUTHORITY")
    if ticket is None or owner is None:
        return dict(screen)
    copy = home.inside / "Xauthority"
    try:
        copy.write_bytes(Path(ticket).read_bytes())
        os.chown(copy, owner, owner)
        copy.chmod(0o600)
    except OSError:
        return dict(screen)  # a screen that needs none
    return {**screen, "XAUTHORITY": str(copy)}
