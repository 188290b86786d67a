"""The browser's command line: what it may do on its own, which is nothing.

Never here: ``--no-sandbox``, ``--disable-web-security``, ``--remote-debugging-port``.
"""

from collections.abc import Mapping
from pathlib import Path

from render.executable import BrowserExecutable, BrowserKind

# Chromium's own features that ask foreign hosts, change URLs, or keep pages alive after their visit.
DISABLED_FEATURES = (
    "AutofillServerCommunication",
    "BackForwardCache",
    "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider",
    # The browser's own word across the top of a page that a style sheet made of XML.
    "GenerateXSLTWarningBanner",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "InterestFeedContentSuggestions",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "Prerender2",
    # One made ahead for every visit is two too many: contexts share no processes.
    "SpareRendererForSitePerProcess",
    "Translate",
    # It would ask the local network, by multicast, for names that hide its addresses (C-05).
    "WebRtcHideLocalIpsWithMdns",
    "WebTransport",
)
_FIXED = (
    "--remote-debugging-pipe",
    # Containment (C-04, C-05, C-06): names are the proxy's to resolve, and nothing bypasses it.
    "--site-per-process",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
    "--block-new-web-contents",
    "--disable-extensions",
    "--disable-plugins-discovery",
    "--disable-speech-api",
    "--disable-notifications",
    # Silence (C-18): what it would ask of its maker.
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-field-trial-config",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
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
    # Software compositing in the browser: no GPU here, and SwiftShader costs more than it draws.
    "--disable-gpu",
    "--disable-software-rasterizer",
)
# Chromium's own on Linux, without the word Headless.
_DESKTOP = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/{version} Safari/537.36"
)


def command_line(
    executable: BrowserExecutable,
    *,
    profile: Path,
    ca_spki: str | None,
    hosts: Mapping[str, str] | None = None,
    shared_memory: bool = True,
) -> list[str]:
    """The program and its switches.

    Args:
        executable: the browser.
        profile: its user-data directory.
        ca_spki: base64 SHA-256 of the public key of the one authority to trust besides the usual
            ones (RFC 7469, 2.4); None for none.
        hosts: the only names that the browser may resolve by itself, "host" or "host:port", each
            with its "address" or "address:port".
        shared_memory: False when ``/dev/shm`` is too small, as in a container with defaults.
    """
    # The first rule that fits is the one that holds.
    known = "".join(f"MAP {host} {address}, " for host, address in (hosts or {}).items())
    line = [
        str(executable.path),
        f"--user-data-dir={profile}",
        f"--host-resolver-rules={known}MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE ::1",
        f"--disable-features={','.join(DISABLED_FEATURES)}",
        # A shared worker is told this one, whatever its pages are told.
        f"--user-agent={_DESKTOP.format(version=executable.version)}",
        *_FIXED,
    ]
    if executable.kind is not BrowserKind.HEADLESS_SHELL:
        line.append("--headless=new")
    if ca_spki is not None:
        line.append(f"--ignore-certificate-errors-spki-list={ca_spki}")
    if not shared_memory:
        line.append("--disable-dev-shm-usage")
    return line


def user_agent(browser_said: str, wanted: str = "") -> str:
    """The User-Agent to send: `wanted`, else the browser's own without the word Headless."""
    return wanted or browser_said.replace("HeadlessChrome/", "Chrome/")
