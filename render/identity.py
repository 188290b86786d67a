"""User agent, locale, screen and client hints that a page presents to sites and scripts.

One `PageOptions` configures the tab and everything that it spawns: cross-site frames run in their own processes and
workers in their own sessions. Each gets the same values, or a site would see two different visitors.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from core.config.settings import VisitSettings
from render.chromium import user_agent

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
            yield "Network.setAcceptedEncodings", {"encodings": ["deflate", "gzip", "br"]}
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
            touch = {"enabled": True, "maxTouchPoints": TOUCH_POINTS}
            yield "Emulation.setTouchEmulationEnabled", touch
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

    With a purpose page it names the product, too, so that a site can identify the crawler, its
    purpose, and the token matched in robots.txt (RFC 9309, 2.2.1). A phone's follows the reduced
    User-Agent of Chrome on Android: the major version alone, and "K" for every model.
    """
    own = user_agent(browser_said, settings.user_agent)
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
