"""Installed Chromium browsers, the command line they are started with, and the identity that a page presents to sites.

Never used: ``--no-sandbox``, ``--disable-web-security``, ``--remote-debugging-port``. One `PageOptions` configures the
tab and all that it spawns, such as frames and workers, or a site would see two different visitors.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from core.config.settings import VisitSettings
from core.errors import BrowserUnavailableError

VERSION_TIMEOUT_S = 20.0
BROWSER_VARIABLE = "WEBOID_BROWSER"
# Where `weboid setup browser` puts Playwright's build as root: all users of the machine read it.
SHARED_BROWSERS = Path("/usr/local/lib/weboid/browsers")
INSTALL_HINT = "Run `weboid setup browser`, or set WEBOID_BROWSER, or [browser] executable in the profile, to one."
_VERSION = re.compile(r"(\d+(?:\.\d+){1,3})")
_NAMES = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
)
# Paths below Playwright's cache folder; newest build first.
_PLAYWRIGHT = ("chromium_headless_shell-*/chrome-*/*headless[-_]shell", "chromium-*/chrome-linux*/chrome")


class BrowserKind(StrEnum):
    """Kind of Chromium build; the headless shell needs no switch to be headless."""

    HEADLESS_SHELL = "headless-shell"
    CHROMIUM = "chromium"
    CHROME = "chrome"


@dataclass(frozen=True, slots=True)
class BrowserExecutable:
    """Installed browser; its version is as printed, e.g. ``"156.0.8078.79"``."""

    path: Path
    kind: BrowserKind
    version: str


def find_browser(setting: str = "", *, home: Path | None = None) -> BrowserExecutable:
    """Find the browser that ``$WEBOID_BROWSER`` or else `setting` names, or the first that is installed.

    The headless shell, which renders two to three times as many pages, then Chromium, Chrome, a Playwright download for
    all users, and one below `home` or ``$PLAYWRIGHT_BROWSERS_PATH``; no stub for a snap. Raises
    BrowserUnavailableError.
    """
    if setting := os.environ.get(BROWSER_VARIABLE, "") or setting:
        if (named := shutil.which(setting)) is None:
            raise BrowserUnavailableError(f"The browser {setting!r} does not exist. {INSTALL_HINT}")
        executable = _probe(Path(named))
        if isinstance(executable, str):
            raise BrowserUnavailableError(f"The browser {setting!r} does not start: {executable}.")
        return executable
    failures = []
    for path in _candidates(home or Path.home()):
        executable = _probe(path)
        if not isinstance(executable, str):
            return executable
        failures.append(f"{path}: {executable}")
    if failures:
        raise BrowserUnavailableError(
            f"A browser is installed, but does not start ({'; '.join(failures)}). Run it with --version to see the reason."
        )
    raise BrowserUnavailableError(f"No browser was found. {INSTALL_HINT}")


def find_window_browser(*, home: Path | None = None) -> BrowserExecutable:
    """Find the first installed browser with windows, not a headless shell; BrowserUnavailableError: there is none."""
    named = shutil.which(os.environ.get(BROWSER_VARIABLE, ""))
    for path in (*([Path(named)] if named else []), *_candidates(home or Path.home())):
        if kind_of(path) is not BrowserKind.HEADLESS_SHELL and not isinstance(executable := _probe(path), str):
            return executable
    raise BrowserUnavailableError(
        "No browser with windows was found. Install one with: apt-get install chromium, "
        "or set [browser] executable in the profile to one."
    )


def kind_of(path: Path) -> BrowserKind:
    """Return the kind of browser that a program name denotes."""
    name = path.name.replace("_", "-")
    if name.endswith("headless-shell"):
        return BrowserKind.HEADLESS_SHELL
    return BrowserKind.CHROME if name.startswith("google-chrome") else BrowserKind.CHROMIUM


def _candidates(home: Path) -> Iterator[Path]:
    for name in _NAMES:
        path = shutil.which(name)
        if path is not None and not _is_snap_stub(Path(path)):
            yield Path(path)
    named = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    caches = [SHARED_BROWSERS, Path(named) if named else home / ".cache" / "ms-playwright"]
    for pattern in _PLAYWRIGHT:
        for cache in caches:
            builds = (path for path in cache.glob(pattern) if os.access(path, os.X_OK))
            yield from sorted(builds, key=lambda path: [*map(int, re.findall(r"-(\d+)/", str(path)))], reverse=True)


def _is_snap_stub(path: Path) -> bool:
    """Return whether a program is the script that requests a snap, as Ubuntu's chromium-browser is."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return head.startswith(b"#!") and b"/snap/bin/" in head


def _probe(path: Path) -> BrowserExecutable | str:
    try:
        run = subprocess.run(
            [path, "--version"], capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=VERSION_TIMEOUT_S
        )
    except OSError as error:
        return error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return f"no answer to --version in {VERSION_TIMEOUT_S:.0f} s"
    version = _VERSION.search(run.stdout.decode(errors="replace"))
    if run.returncode != 0 or version is None:
        output = run.stderr.decode(errors="replace").strip().partition("\n")[0]
        return f"exit code {run.returncode}{': ' + output[:200] if output else ''}"
    return BrowserExecutable(path, kind_of(path), version.group(1))


# Chromium's own features that ask foreign hosts, change URLs, or keep pages alive after their visit.
DISABLED_FEATURES = (
    "AutofillServerCommunication",
    "BackForwardCache",
    "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider",
    # Requests in the first flight have secrets of their own.
    "EnableTLS13EarlyData",
    # The browser's own notice at the top of a page that a style sheet made from XML.
    "GenerateXSLTWarningBanner",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "InterestFeedContentSuggestions",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "Prerender2",
    # Spare renderers are of no use: contexts do not share processes.
    "SpareRendererForSitePerProcess",
    "Translate",
    # It would query the local network by multicast for names that hide its addresses (C-05).
    "WebRtcHideLocalIpsWithMdns",
    "WebTransport",
)
# Of every browser that we start, also of visible ones; most prevent requests to the browser's vendor (C-18).
COMMON_SWITCHES = (
    "--remote-debugging-pipe",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-extensions",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    "--password-store=basic",
    "--use-mock-keychain",
)
_FIXED = (
    *COMMON_SWITCHES,
    # Containment (C-04, C-05, C-06): the proxy resolves names, and nothing bypasses it.
    "--site-per-process",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
    "--block-new-web-contents",
    "--disable-plugins-discovery",
    "--disable-speech-api",
    "--disable-notifications",
    # No requests to the browser's vendor (C-18).
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-field-trial-config",
    "--disable-search-engine-choice-screen",
    "--metrics-recording-only",
    "--no-pings",
    "--no-service-autorun",
    # Pictures that are the same on every machine, and pages that are never asleep.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-hang-monitor",
    "--disable-ipc-flooding-protection",
    "--disable-renderer-backgrounding",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--mute-audio",
    "--autoplay-policy=user-gesture-required",
    # Images far down the page load without waiting to be scrolled to.
    "--disable-lazy-loading",
    "--blink-settings=lazyLoadEnabled=false,primaryHoverType=2,availableHoverTypes=2,"
    "primaryPointerType=4,availablePointerTypes=4",
    # Software compositing in the browser; WebGL by SwiftShader, in the GPU process, which the browser starts
    # anyway (docs/decisions/032-scenes-by-software.md).
    "--disable-gpu",
    "--enable-unsafe-swiftshader",
)
# Chromium's own on Linux, without the word Headless.
_DESKTOP = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version} Safari/537.36"


def command_line(
    executable: BrowserExecutable,
    *,
    profile: Path,
    ca_spki: str | None,
    hosts: Mapping[str, str] | None = None,
    shared_memory: bool = True,
    key_log: Path | None = None,
) -> list[str]:
    """Return the program and its switches, as of `Browser.launch`; `shared_memory` if ``/dev/shm`` is large enough."""
    # The first matching rule applies.
    known = "".join(f"MAP {host} {address}, " for host, address in (hosts or {}).items())
    line = [
        str(executable.path),
        f"--user-data-dir={profile}",
        f"--host-resolver-rules={known}MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE ::1",
        f"--disable-features={','.join(DISABLED_FEATURES)}",
        # Shared workers use this one, regardless of their pages' overrides.
        f"--user-agent={_DESKTOP.format(version=executable.version)}",
        *_FIXED,
    ]
    if executable.kind is not BrowserKind.HEADLESS_SHELL:
        line.append("--headless=new")
    if ca_spki is not None:
        line.append(f"--ignore-certificate-errors-spki-list={ca_spki}")
    if key_log is not None:
        line.append(f"--ssl-key-log-file={key_log}")
    if not shared_memory:
        line.append("--disable-dev-shm-usage")
    return line


# The browser's defaults: it is started with LANG=C.UTF-8 and TZ=UTC.
OWN_LOCALE = "en-US"
OWN_TIMEZONE = "UTC"
PRODUCT = "Weboid/0.2"  # RFC 9110, 10.1.5
TOUCH_POINTS = 5  # as phones have

Command = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Identity that a page presents."""

    width: int  # viewport width, in CSS pixels
    height: int  # viewport height
    user_agent: str
    language: str  # the Accept-Language header
    version: str  # the browser version, for client hints
    device_scale: float = 1.0  # device pixels per CSS pixel
    mobile: bool = False  # True for a phone
    locale: str = ""  # locale of dates and numbers, a BCP 47 tag; empty: the browser's own
    timezone: str = ""  # IANA time zone name; empty: the browser's own
    media: tuple[tuple[str, str], ...] = ()  # overridden CSS media features, by name
    token: str = ""  # sent with each request, for the proxy; empty: none
    # headers that the browser itself adds to each request, and whether it limits the codings that it accepts,
    # for hosts whose requests no proxy changes
    headers: tuple[tuple[str, str], ...] = ()
    limits_codings: bool = False
    ignores_certificates: bool = False  # whether the browser loads what certificates that do not verify protect

    def identity(self) -> dict[str, Any]:
        """Return the parameters of ``Emulation.setUserAgentOverride``."""
        major = self.version.split(".", 1)[0]
        brands = [{"brand": "Chromium", "version": major}, {"brand": "Not)A;Brand", "version": "24"}]
        full = [{**brand, "version": f"{brand['version']}.0.0.0"} for brand in brands]
        mobile = self.mobile
        return {
            "userAgent": self.user_agent,
            "acceptLanguage": self.language,
            "platform": "Linux armv81" if mobile else "Linux x86_64",
            "userAgentMetadata": {
                "brands": brands,
                "fullVersionList": full,
                "platform": "Android" if mobile else "Linux",
                "platformVersion": "10" if mobile else "",
                "architecture": "" if mobile else "x86",
                "bitness": "" if mobile else "64",
                "model": "K" if mobile else "",
                "mobile": mobile,
            },
        }

    def screen(self) -> dict[str, Any]:
        """Return the metrics of the emulated screen."""
        return {
            "width": self.width,
            "height": self.height,
            "deviceScaleFactor": self.device_scale,
            "mobile": self.mobile,
        }

    def commands(self, kind: str) -> Iterator[Command]:
        """Yield the commands to send to a target of a CDP type (page, iframe, worker) before it runs."""
        yield "Emulation.setUserAgentOverride", self.identity()
        headers = dict(self.headers)
        if self.token:
            headers["Content-Language"] = self.token  # `proxy.visit_registry.TOKEN_HEADER`
        if self.limits_codings:  # to those that readers of WARCs decode
            headers["Accept-Encoding"] = "gzip, deflate, br"
        if self.ignores_certificates and kind in ("page", "iframe"):
            yield "Security.setIgnoreCertificateErrors", {"ignore": True}
        if headers:
            yield "Network.setExtraHTTPHeaders", {"headers": headers}
        if kind == "page":
            yield "Emulation.setDeviceMetricsOverride", self.screen()
        # A process has one locale and one time zone: where they are set already the browser
        # answers with an error, which is ignored.
        if self.locale:
            yield "Emulation.setLocaleOverride", {"locale": self.locale}
        if self.timezone:
            yield "Emulation.setTimezoneOverride", {"timezoneId": self.timezone}
        if kind not in ("page", "iframe"):
            return
        if self.mobile:
            yield "Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": TOUCH_POINTS}
        if self.media:
            features = [{"name": name, "value": value} for name, value in self.media]
            yield "Emulation.setEmulatedMedia", {"features": features}


def page_options(settings: VisitSettings, *, browser_said: str, version: str) -> PageOptions:
    """Return the identity of pages under these settings in a browser."""
    locale = settings.locale or settings.language.partition(",")[0].partition(";")[0].strip()
    media = []
    if settings.colour_scheme != "light":
        media.append(("prefers-color-scheme", settings.colour_scheme))
    if settings.reduced_motion:
        media.append(("prefers-reduced-motion", "reduce"))
    return PageOptions(
        width=settings.viewport_width,
        height=settings.viewport_height,
        user_agent=visit_user_agent(settings, browser_said=browser_said, version=version),
        language=settings.language,
        version=version,
        device_scale=settings.device_scale,
        mobile=settings.mobile,
        locale="" if locale in (OWN_LOCALE, "*") else locale,
        timezone="" if settings.timezone == OWN_TIMEZONE else settings.timezone,
        media=tuple(media),
    )


def visit_user_agent(settings: VisitSettings, *, browser_said: str, version: str) -> str:
    """Return the User-Agent of page visits: the profile's or the browser's, with a contact.

    With a purpose page it names the product, too, which is the token matched in robots.txt (RFC 9309, 2.2.1). A phone's
    follows Chrome's reduced one on Android: the major version alone, and "K" for every model.
    """
    own = settings.user_agent or browser_said.replace("HeadlessChrome/", "Chrome/")
    if settings.mobile and not settings.user_agent:
        major = version.split(".", 1)[0]
        own = (
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko)"
            f" Chrome/{major}.0.0.0 Mobile Safari/537.36"
        )
    if settings.purpose_page:
        pages = "; ".join(f"+{each}" for each in (settings.purpose_page, settings.contact) if each)
        return f"{own} {PRODUCT} ({pages})"
    return f"{own} (+{settings.contact})" if settings.contact else own
