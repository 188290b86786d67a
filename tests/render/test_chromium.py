"""Choice of a browser, and the error when there is none."""

import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from core.captures import ArtifactKind
from core.config.settings import VisitSettings
from core.errors import BrowserUnavailableError
from render.chromium import (
    BrowserExecutable,
    BrowserKind,
    command_line,
    find_browser,
    find_window_browser,
    kind_of,
    page_options,
    visit_user_agent,
)
from render.visit import Visit


def install(folder: Path, name: str, says: str = "Chromium 156.0.8078.79 built on Debian") -> Path:
    """Write a program that prints its version."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder in which programs are searched."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("WEBOID_BROWSER", raising=False)
    monkeypatch.delenv("PLAYWRIGHT_BROWSERS_PATH", raising=False)
    monkeypatch.setattr("render.chromium.SHARED_BROWSERS", tmp_path / "none")
    return folder


def test_the_headless_shell_comes_first(path: Path, tmp_path: Path) -> None:
    """Then Chromium, then Chrome."""
    chrome = install(path, "google-chrome", "Google Chrome 150.0.1.2")
    assert find_browser(home=tmp_path).path == chrome
    chromium = install(path, "chromium")
    assert find_browser(home=tmp_path).path == chromium
    shell = install(path, "chromium-headless-shell")
    assert find_browser(home=tmp_path) == BrowserExecutable(shell, BrowserKind.HEADLESS_SHELL, "156.0.8078.79")


def test_a_playwright_download_is_the_last_resort(path: Path, tmp_path: Path) -> None:
    """The newest build, compared as numbers, headless shell before full browser."""
    cache = tmp_path / ".cache" / "ms-playwright"
    full = install(cache / "chromium-1200" / "chrome-linux", "chrome")
    assert find_browser(home=tmp_path).path == full
    for build in ("999", "1187"):
        install(cache / f"chromium_headless_shell-{build}" / "chrome-linux", "headless_shell")

    assert "chromium_headless_shell-1187" in str(find_browser(home=tmp_path).path)
    assert find_browser(home=tmp_path).kind is BrowserKind.HEADLESS_SHELL


def test_the_setting_decides(path: Path, tmp_path: Path) -> None:
    """A path or a name; it is not replaced by another when it is wrong."""
    install(path, "chromium-headless-shell")
    mine = install(tmp_path / "mine", "my-chrome", "Chromium 9.8.7.6")

    assert find_browser(str(mine)).version == "9.8.7.6"
    with pytest.raises(BrowserUnavailableError, match="'nothing' does not exist"):
        find_browser("nothing")


def test_a_program_that_does_not_run_is_passed_over(path: Path, tmp_path: Path) -> None:
    """A broken shell does not hide a good browser."""
    install(path, "chromium-headless-shell").write_text("#!/bin/sh\nexit 127\n")
    chromium = install(path, "chromium")

    assert find_browser(home=tmp_path).path == chromium


def test_without_a_browser_it_is_said_what_to_install(path: Path, tmp_path: Path) -> None:
    """One line that can be typed."""
    with pytest.raises(BrowserUnavailableError, match="weboid setup browser"):
        find_browser(home=tmp_path)


def test_a_variable_names_the_browser(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """WEBOID_BROWSER wins over what is installed, and over the profile's setting, as every variable does."""
    install(path, "chromium-headless-shell")
    mine = install(tmp_path / "mine", "my-chrome", "Chromium 9.8.7.6")
    monkeypatch.setenv("WEBOID_BROWSER", str(mine))

    assert find_browser(home=tmp_path).path == mine
    assert find_window_browser(home=tmp_path).path == mine
    assert find_browser("chromium-headless-shell").path == mine
    monkeypatch.delenv("WEBOID_BROWSER")
    assert find_browser("chromium-headless-shell").version == "156.0.8078.79"
    monkeypatch.setenv("WEBOID_BROWSER", str(tmp_path / "nothing"))
    with pytest.raises(BrowserUnavailableError, match="nothing"):
        find_browser(home=tmp_path)


def test_a_stub_for_a_snap_is_no_browser(path: Path, tmp_path: Path) -> None:
    """Ubuntu's chromium-browser starts a snap, or asks for it; it cannot be driven from outside."""
    install(path, "chromium-browser").write_text(
        "#!/bin/sh\nif ! [ -x /snap/bin/chromium ]; then\n    exit 1\nfi\nexec /snap/bin/chromium\n"
    )
    with pytest.raises(BrowserUnavailableError, match="No browser was found"):
        find_browser(home=tmp_path)


def test_builds_of_playwright_lie_where_its_variable_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable replaces the user's cache; a build for all users of the machine comes first."""
    own = tmp_path / "own" / "chromium_headless_shell-1300" / "chrome-headless-shell-linux64"
    shared = tmp_path / "all" / "chromium_headless_shell-1200" / "chrome-linux"
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "own"))
    first = install(own, "chrome-headless-shell")
    assert find_browser(home=tmp_path).path == first
    monkeypatch.setattr("render.chromium.SHARED_BROWSERS", tmp_path / "all")
    second = install(shared, "headless_shell")
    assert find_browser(home=tmp_path).path == second


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("chromium-headless-shell", BrowserKind.HEADLESS_SHELL),
        ("headless_shell", BrowserKind.HEADLESS_SHELL),
        ("chromium", BrowserKind.CHROMIUM),
        ("chrome", BrowserKind.CHROMIUM),
        ("google-chrome-stable", BrowserKind.CHROME),
    ],
)
def test_the_name_tells_the_kind(name: str, kind: BrowserKind) -> None:
    """Debian's, Playwright's and Google's names."""
    assert kind_of(Path("/usr/bin") / name) is kind


@pytest.mark.parametrize("kind", list(BrowserKind))
def test_no_switch_undoes_the_sandbox(kind: BrowserKind) -> None:
    """For no kind of browser (C-05, C-06)."""
    executable = BrowserExecutable(Path("/b"), kind, "1.2")
    line = command_line(executable, profile=Path("/p"), ca_spki="x", shared_memory=False)
    names = {each.partition("=")[0] for each in line}

    assert not names & {
        "--no-sandbox",
        "--disable-setuid-sandbox",
        "--disable-web-security",
        "--remote-debugging-port",
        "--remote-debugging-address",
        "--single-process",
        "--disable-site-isolation-trials",
        "--allow-file-access-from-files",
        "--ignore-certificate-errors",
    }
    assert ("--headless" in names) is (kind is not BrowserKind.HEADLESS_SHELL)


def test_only_named_hosts_are_resolved() -> None:
    """Loopback and the names that are given; no other name is known to the browser (C-04)."""
    executable = BrowserExecutable(Path("/b"), BrowserKind.CHROME, "1.2")
    hosts = {"proxy": "10.0.0.9", "a.test:443": "127.0.0.1:8443"}
    line = command_line(executable, profile=Path("/p"), ca_spki=None, hosts=hosts)

    assert (
        "--host-resolver-rules=MAP proxy 10.0.0.9, MAP a.test:443 127.0.0.1:8443, "
        "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE ::1" in line
    )
    assert not [each for each in line if "spki" in each]


def test_the_word_headless_is_dropped() -> None:
    """Unless the profile names a user agent."""
    user_agent = "Mozilla/5.0 HeadlessChrome/156.0.0.0 Safari/537.36"

    def agent(settings: VisitSettings) -> str:
        return visit_user_agent(settings, browser_said=user_agent, version="156.0.0.0")

    assert agent(VisitSettings()) == "Mozilla/5.0 Chrome/156.0.0.0 Safari/537.36"
    assert agent(VisitSettings(user_agent="mine/1")) == "mine/1"


def test_an_installed_browser_that_does_not_start_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what it said; to install it again would not help."""
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho 'libnss3 is missing' >&2\nexit 127\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("WEBOID_BROWSER", raising=False)

    with pytest.raises(BrowserUnavailableError, match="exit code 127: libnss3 is missing") as error:
        find_browser(home=tmp_path)
    assert "No browser was found" not in str(error.value)


Look = Callable[..., Awaitable[Visit]]
CLIENT_FACTS = "http://site.test/client-facts.html"  # it has a frame of other.test
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HeadlessChrome/156.0.0.0 Safari/537.36"


def text_lines(seen: Visit) -> dict[str, str]:
    """Return the `name=value` lines of the page."""
    text = next(a.data for a in seen.artifacts if a.kind is ArtifactKind.TEXT).decode()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_locale_and_time_zone_hold_everywhere(look: Look, proxy: Any) -> None:
    """The page, a frame of another site, a worker and a shared worker see one visitor."""
    properties = text_lines(
        await look(CLIENT_FACTS, proxy.endpoint(), language="de-DE,de", timezone="Asia/Tokyo", settle_s=0.5)
    )

    for where in ("page", "frame", "worker", "shared"):
        assert properties[f"{where}.language"] == "de-DE", where
        assert properties[f"{where}.locale"] == "de-DE", where
        assert properties[f"{where}.number"] == "1.234,5", where
        assert properties[f"{where}.zone"] == "Asia/Tokyo", where
        assert properties[f"{where}.hour"] == "9", where


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_a_phone_is_one_everywhere(look: Look, proxy: Any) -> None:
    """Touch, pointer, hints, User-Agent and scale agree, in frames and workers too."""
    properties = text_lines(
        await look(
            CLIENT_FACTS,
            proxy.endpoint(),
            mobile=True,
            viewport_width=390,
            viewport_height=844,
            device_scale=3.0,
            settle_s=0.5,
        )
    )

    assert properties["page.coarse"] == "true"
    assert properties["page.hover"] == "false"
    assert properties["page.platform"] == "Linux armv81"
    for where in ("page", "frame"):
        assert properties[f"{where}.touch"] == "5", where
    assert "Headless" not in properties["shared.agent"], "a shared worker has the browser's own user agent"
    for where in ("page", "frame", "worker"):
        assert "Android 10; K" in properties[f"{where}.agent"], where
        assert " Mobile Safari" in properties[f"{where}.agent"], where
    assert properties["page.scale"] == "3"
    assert properties["page.width"] == "980", "a page without a viewport meta is laid out wide"


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_a_phones_page_fits_the_phone_when_it_says_so(look: Look) -> None:
    """A viewport meta counts, and pictures have the screen's own pixels."""
    seen = await look("/narrow.html", mobile=True, viewport_width=390, device_scale=2.0)

    assert text_lines(seen)["width"] == "390"
    view = next(a.data for a in seen.artifacts if a.kind is ArtifactKind.VIEW)
    assert Image.open(io.BytesIO(view)).size[0] == 780


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_colour_scheme_and_motion_are_as_the_profile_says(look: Look, proxy: Any) -> None:
    """Also in frames; by default neither is asked for."""
    properties = text_lines(
        await look(CLIENT_FACTS, proxy.endpoint(), colour_scheme="dark", reduced_motion=True, settle_s=0.5)
    )
    usual = text_lines(await look("/client-facts.html"))

    assert (properties["page.dark"], properties["page.still"], properties["frame.dark"]) == ("true", "true", "true")
    assert (usual["page.dark"], usual["page.still"], usual["page.zone"]) == ("false", "false", "UTC")


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_whom_to_ask_is_in_the_user_agent() -> None:
    """The contact stands behind the browser's own User-Agent, a phone's, and the profile's."""
    for changes, begin in (
        ({}, "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0.0.0 Safari/537.36"),
        ({"mobile": True}, "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36"),
        ({"user_agent": "Archive/1"}, "Archive/1"),
    ):
        settings = VisitSettings(contact="https://example.org/bot", **changes)
        agent = visit_user_agent(settings, browser_said=AGENT, version="156.0.8078.79")

        assert agent.startswith(begin), agent
        assert agent.endswith(" (+https://example.org/bot)"), agent


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_a_simple_page_costs_no_more_commands() -> None:
    """Default settings send no other commands."""
    options = page_options(VisitSettings(), browser_said=AGENT, version="156.0")

    assert [method for method, _ in options.commands("page")] == [
        "Emulation.setUserAgentOverride",
        "Emulation.setDeviceMetricsOverride",
    ]


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_client_hints_say_the_same_as_the_user_agent(look: Look, proxy: Any) -> None:
    """Over TLS, where browsers send them unasked."""
    await look("https://secure.test/narrow.html", proxy.endpoint(), mobile=True)
    await look("https://secure.test/narrow.html?desk", proxy.endpoint())
    hints = [
        (request.headers["sec-ch-ua-mobile"], request.headers["sec-ch-ua-platform"])
        for request in proxy.requests
        if request.path.startswith("/narrow.html")
    ]

    assert hints == [("?1", '"Android"'), ("?0", '"Linux"')]
