"""Operator identity: contact and purpose page in every User-Agent, and the rules of unattended runs."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from setuptools import find_namespace_packages  # type: ignore[import-untyped]

from core.config.profile import link_user_agent as checker_agent
from core.config.settings import PURPOSE_PAGE, LinksSettings, Settings, VisitSettings
from core.errors import ConfigError, InputError
from render.chromium import visit_user_agent
from weboid.app.collection_config import write_operator
from weboid.app.operator_identity import (
    OperatorIdentity,
    check_operator,
    collection_settings,
    contact_notice,
    read_operator,
)
from weboid.cli.crawl import archive_command, crawl_command
from weboid.cli.crawl import cluster_processes as worker_command
from weboid.cli.main import weboid
from weboid.cli.support.child_commands import ChildCommandOptions, watch_children
from weboid.cli.wiki import wiki_add, wiki_watch
from wiki.api.client import user_agent as wiki_agent

ROOT = Path(__file__).resolve().parents[3]
CONTACT = "https://archive.example/contact"
BROWSER = "Mozilla/5.0 HeadlessChrome/140.0.0.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a collection with nothing but its marker file."""
    folder = tmp_path / "collection"
    folder.mkdir()
    (folder / "collection.toml").write_text('version = 1\nname = "c"\nmade = "2026-11-21"\n')
    return folder


def profile_in(folder: Path, text: str) -> str:
    """Write a profile and return its path."""
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_the_contact_of_a_collection_is_in_every_user_agent(root: Path) -> None:
    """Of the browser, of the checker and of who asks wikis and archives."""
    write_operator(root, OperatorIdentity(contact=CONTACT))
    assert read_operator(root) == OperatorIdentity(contact=CONTACT)
    settings = collection_settings("default", root)
    assert visit_user_agent(settings.visit, browser_said=BROWSER, version="140").endswith(f"(+{CONTACT})")
    assert checker_agent(settings.links).endswith(f"; +{PURPOSE_PAGE}; +{CONTACT})")
    assert wiki_agent(settings.links.contact, settings.links.purpose_page).endswith(f"; +{PURPOSE_PAGE}; +{CONTACT})")


def test_a_contact_is_changed_and_the_rest_of_the_file_stays(root: Path) -> None:
    """Whatever else an operator wrote into its table, too."""
    marker = root / "collection.toml"
    marker.write_text(marker.read_text() + '\n[operator]\npurpose_page = "https://a.example/why"\n')
    write_operator(root, OperatorIdentity("a@b.example", read_operator(root).purpose_page))
    assert marker.read_text().startswith('version = 1\nname = "c"')
    assert read_operator(root) == OperatorIdentity("a@b.example", "https://a.example/why")
    write_operator(root, OperatorIdentity())
    assert read_operator(root) == OperatorIdentity()


def test_the_environment_goes_before_a_profile_and_that_before_the_collection(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every variable takes precedence over files, and the profile over the collection where it sets a value."""
    write_operator(root, OperatorIdentity(contact="collection@a.example"))
    monkeypatch.setenv("WEBOID_CONTACT", "environment@a.example")
    profile = profile_in(tmp_path, 'links.contact = "profile@a.example"')
    settings = collection_settings(profile, root)
    assert settings.links.contact == settings.visit.contact == "environment@a.example"
    monkeypatch.delenv("WEBOID_CONTACT")
    settings = collection_settings(profile, root)
    assert (settings.links.contact, settings.visit.contact) == ("profile@a.example", "collection@a.example")


@pytest.mark.parametrize("wrong", ["nobody", "https://a.example/x\ny", "https://a.example/links"])
def test_an_address_that_no_user_agent_can_name_is_refused(root: Path, wrong: str) -> None:
    """Before it is kept: a checker that finds it later would not start."""
    with pytest.raises(ConfigError):
        check_operator(OperatorIdentity(contact=wrong))
    with pytest.raises(ConfigError):
        write_operator(root, OperatorIdentity(contact=wrong))
    assert read_operator(root) == OperatorIdentity()


def test_unattended_runs_name_the_purpose_page_in_the_browsers_user_agent(tmp_path: Path) -> None:
    """Unless the profile says otherwise; what a person archives keeps the browser's own."""
    named = collection_settings("default", unattended=True).visit
    agent = visit_user_agent(named, browser_said=BROWSER, version="140")
    assert agent == f"Mozilla/5.0 Chrome/140.0.0.0 Weboid/0.2 (+{PURPOSE_PAGE})"
    attended = collection_settings("default").visit
    assert "Weboid" not in visit_user_agent(attended, browser_said=BROWSER, version="140")
    silent = collection_settings(profile_in(tmp_path, 'visit.purpose_page = ""'), unattended=True)
    assert "Weboid" not in visit_user_agent(silent.visit, browser_said=BROWSER, version="140")
    assert PURPOSE_PAGE in checker_agent(LinksSettings())
    assert PURPOSE_PAGE not in checker_agent(LinksSettings(purpose_page=""))


def test_without_a_contact_a_run_says_so_with_the_next_step() -> None:
    """In one line."""
    notice = contact_notice("")
    assert "--contact" in notice
    assert "\n" not in notice
    assert contact_notice("a@b.example") == ""


@pytest.mark.slow
@pytest.mark.parametrize("words", [["crawl", "http://a.example/"], ["links", "check"]])
def test_crawl_and_check_say_that_nobody_can_be_asked(words: list[str], tmp_path: Path) -> None:
    """At each start, on standard error."""
    profile = profile_in(tmp_path, 'egress.block = ["*"]\n')
    collection = str(tmp_path / "c")
    if words[0] == "links":
        page = ["links", "add-page", "w@f", "P", "http://a.invalid/", "--collection", collection]
        CliRunner().invoke(weboid, page)
    result = CliRunner().invoke(weboid, [*words, "--collection", collection, "--profile", profile])
    assert "No contact address is set" in result.stderr, result.output


class SettingsReached(Exception):  # noqa: N818
    """A command has made its settings; they are the argument."""


def settings_of(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *options: str) -> Settings:
    """Run a command up to where its work would begin and return its settings."""

    def reached(*given: Any, **_: Any) -> Any:
        raise SettingsReached(next(each for each in map(settings_in, given) if each is not None))

    def settings_in(given: Any) -> Settings | None:
        return given if isinstance(given, Settings) else getattr(given, "settings", None)

    monkeypatch.setattr(archive_command, "archive_urls", reached)
    monkeypatch.setattr(crawl_command, "run_crawl_jobs", lambda jobs, *_, **__: reached(*jobs))
    monkeypatch.setattr(worker_command, "WorkerProcess", reached)
    argv = [*command.split(), "--collection", str(tmp_path / "c"), *options]
    if command == "worker":
        monkeypatch.setenv("WEBOID_SECRET", "s" * 32)
    else:
        argv += ["http://a.example/"]
    result = CliRunner().invoke(weboid, argv)
    assert isinstance(result.exception, SettingsReached), result.output
    settings: Settings = result.exception.args[0]
    return settings


def rows_of(text: str) -> dict[str, list[str]]:
    """Return the table of docs/how-to/policy.md under "Which commands obey robots.txt", by its first cell."""
    part = text.partition("## Which commands obey robots.txt")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells}


def words_of(settings: Settings) -> list[str]:
    """Return the last three cells of a row for these settings."""
    policy = settings.policy
    obeyed = {"obey": "obeyed", "ignore": "ignored"}
    count, days = policy.ban_failures, policy.ban_failures_s / 86_400
    failing = f"not visited for {days:g} day after {count} failed URLs in a row" if count else "visited"
    return [obeyed[policy.robots], obeyed[policy.noarchive], failing]


def test_the_table_of_who_obeys_what_is_true(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each command of docs/how-to/policy.md with the profile that it uses by itself, and no option."""
    rows = rows_of((ROOT / "docs" / "how-to" / "policy.md").read_text())
    home = ChildCommandOptions(tmp_path, _default_profile(wiki_watch.command))
    crew = next(part for part in watch_children(home, LinksSettings()) if part.name == "archive")
    assert {"--stay", "--profile=wiki"} <= set(crew.command)
    compose = str(ROOT / "deploy" / "profile.toml")
    commands = {
        "weboid archive": ("default", settings_of("archive", monkeypatch, tmp_path)),
        "weboid archive --stay": ("default", settings_of("archive --stay", monkeypatch, tmp_path)),
        "weboid crawl": ("default", settings_of("crawl", monkeypatch, tmp_path)),
        "weboid wiki watch": ("wiki", settings_of("archive --stay", monkeypatch, tmp_path, "--profile=wiki")),
        "weboid worker": ("default", settings_of("worker", monkeypatch, tmp_path)),
        "docker-compose.yml": (
            "deploy/profile.toml",
            settings_of("worker", monkeypatch, tmp_path, f"--profile={compose}"),
        ),
    }
    assert rows == {name: [f"`{profile}`", *words_of(settings)] for name, (profile, settings) in commands.items()}


def _default_profile(command: click.Command) -> str:
    return str(next(each.default for each in command.params if each.name == "profile"))


def test_an_option_and_a_profile_say_what_robots_means(tmp_path: Path) -> None:
    """The option goes before the profile, the profile before what unattended runs do."""
    profile = profile_in(tmp_path, 'policy.robots = "ignore"')
    assert collection_settings(profile, unattended=True).policy.robots == "ignore"
    assert collection_settings(profile, unattended=True, robots="obey").policy.robots == "obey"
    assert collection_settings("wiki", unattended=True).policy.robots == "obey"


def test_profiles_are_installed_beside_the_packages() -> None:
    """A wheel that left them out would know no profile, wherever its commands are run."""
    text = (ROOT / "pyproject.toml").read_text()
    assert "profiles" in find_namespace_packages(str(ROOT), include=["profiles"])
    assert '"profiles"' in text.partition("[tool.setuptools.packages.find]")[2].partition("[tool")[0]


def test_at_a_terminal_a_new_wiki_asks_for_a_contact(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: not where there is one, and not where nobody sits."""
    prompts: list[str] = []

    def prompt(text: str, **_: Any) -> str:
        prompts.append(text)
        return " a@b.example "

    monkeypatch.setattr(click, "prompt", prompt)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    operator = wiki_add._operator(root, "wiki", None, "-")
    assert operator == OperatorIdentity(contact="a@b.example")
    write_operator(root, operator)
    assert wiki_add._operator(root, "wiki", None, "-") == operator
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    write_operator(root, OperatorIdentity())
    assert wiki_add._operator(root, "wiki", None, "-") == OperatorIdentity()
    assert len(prompts) == 1


def test_a_collection_says_that_pages_are_archived_again(root: Path, tmp_path: Path) -> None:
    """To unattended runs, where the profile says nothing."""
    write_operator(root, OperatorIdentity(recrawl="90d"))
    assert collection_settings("wiki", root, unattended=True).recrawl.every == "90d"
    assert collection_settings("wiki", root).recrawl.every == ""
    never = profile_in(tmp_path, "recrawl.enabled = false")
    assert collection_settings(never, root, unattended=True).recrawl.every == ""
    with pytest.raises(ConfigError):
        write_operator(root, OperatorIdentity(recrawl="often"))


def test_pages_are_not_archived_again_while_they_count_as_archived(root: Path) -> None:
    """An interval within `archived_days` would do what re-citing must not (A02)."""
    assert wiki_add._operator(root, "wiki", "", "30d").recrawl == "30d"
    assert wiki_add._operator(root, "wiki", "", "-").recrawl == ""
    with pytest.raises(InputError, match="30d or more"):
        wiki_add._operator(root, "wiki", "", "7d")


def test_visits_have_no_purpose_page_unless_a_run_is_unattended() -> None:
    """The setting's own default is empty: fidelity goes first for what a person archives."""
    assert VisitSettings().purpose_page == ""


def test_warcs_name_the_operator_and_the_profile(root: Path) -> None:
    """The archive's name and the name of the settings, unless the profile has others."""
    write_operator(root, OperatorIdentity(contact=CONTACT, name="The Library"))

    proxy = collection_settings("wiki", root).proxy
    assert (proxy.operator, proxy.profile) == ("The Library", "wiki")
    named = profile_in(root, '[proxy]\noperator = "Another"\n')
    proxy = collection_settings(named, root).proxy
    assert (proxy.operator, proxy.profile) == ("Another", "mine")
