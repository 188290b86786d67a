"""`weboid wiki trial`, and a clock that is moved: what would happen, on a copy that nobody takes for real."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from core.clock import CLOCK_OFFSET, SystemClock
from core.errors import ConfigError, InputError
from core.layout import CONFIG_FILE, Layout
from crawler.collection import check_trial_clock, trial_mark_path
from links.registry.database import open_registry_store
from links.registry.schema import metadata
from tests.support.commands import WeboidRunner
from tests.support.linked_site import LinkedSite
from tests.support.services.registries import open_registry
from tests.support.wiki_deployment import article, profile_of
from weboid.app import registry_trial

FINE, DEAD, GONE = "http://site.org/", "http://site.org/nothing-here", "http://museum.org/hall"
COPY = "trial"


@dataclass(frozen=True)
class TrialRegistry:
    """A registry with a page that cites a living, a dead and a doomed link, and commands on it.

    Attributes:
        database: options that name the PostgreSQL that it is in; none: the collection's own file.
    """

    weboid: WeboidRunner
    database: tuple[str, ...]

    def run(self, *arguments: str) -> str:
        """Run a command on it and return its output."""
        ran = self.weboid.call(*arguments, *self.database)
        assert ran.code == 0, ran
        return ran.out

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return all rows of the registry."""
        url = self.database[0].partition("=")[2] if self.database else ""
        layout = Layout(self.weboid.collection)
        with closing(open_registry(layout, url)) as store, store.reading() as rows:
            return {table.name: [tuple(row) for row in rows.execute(select(table))] for table in metadata.sorted_tables}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def known(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrialRegistry]:
    """Yield a registry in SQLite and in PostgreSQL, where the profile names the one of several machines."""
    is_shared = request.param == "postgresql"
    url: str = request.getfixturevalue("postgres").database() if is_shared else ""
    folder = tmp_path_factory.mktemp("known")
    pages = {f"{host}/{path}": article("x", "<p>x</p>") for host, path in (("site.org", ""), ("museum.org", "hall"))}  # fmt: skip
    with LinkedSite(pages) as site:
        profile = folder / "profile.toml"
        shared = {"index": {"url": url}, "proxy": {"dedup_url": "redis://127.0.0.1:9/0?index=a"}}
        profile.write_text(profile_of([site], **(shared if url else {})))
        registry = TrialRegistry(WeboidRunner(folder, profile), (f"--database={url}",) if url else ())
        api = "--url=http://127.0.0.1:9/api.php"
        made = registry.weboid.call("wiki", "set", "mywiki@home", "--new-farm", api)
        assert made.code == 0, made
        if url:  # and the collection is there as well
            registry.run("wiki", "set", "mywiki@home", "--new-farm", api)
        registry.run("links", "add-page", "mywiki@home", "Page", FINE, DEAD, GONE, "--id", "7")
        yield registry


def _trial(known: TrialRegistry, *options: str) -> dict[str, list[dict[str, Any]]]:
    """Run a trial, which leaves the registry as it is; return the events by URL."""
    before = known.rows()
    profile = f"--profile={known.weboid.profile}"
    ran = known.weboid.call("wiki", "trial", "--json", profile, "--gone=museum.org", *options)
    assert ran.code == 0, ran
    assert known.rows() == before
    return {each["url"]: each["events"] for each in json.loads(ran.out)["links"]}


@pytest.mark.slow
@pytest.mark.parametrize("known", ["sqlite"], indirect=True)
def test_it_is_shown_when_a_link_would_be_dead(known: TrialRegistry) -> None:
    """Each link is asked once; one whose site is gone dies by the schedule."""
    events = _trial(known, "--days=40")

    assert [each["state"] for each in events[FINE]] == ["alive"]
    for url in (DEAD, GONE):
        assert events[url][-1]["state"] == "dead", events
        assert events[url][-1]["failed"] > 3
        died = datetime.fromisoformat(events[url][-1]["day"]).replace(tzinfo=UTC)
        assert timedelta(days=7) < died - datetime.now(UTC) <= timedelta(days=40)


@pytest.mark.slow
@pytest.mark.parametrize("known", ["sqlite"], indirect=True)
def test_the_bot_of_a_trial_cites_the_copies_of_the_given_front(
    known: TrialRegistry, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without one it says what it needs; the wiki itself is out of reach here."""
    options = ("wiki", "trial", "--days=2", "--gone=museum.org", f"--profile={known.weboid.profile}")
    missing = "The bot needs copies to cite"
    known.weboid.call(*options)
    assert missing in capfd.readouterr().err
    cited = known.weboid.call(*options, "--front=https://archive.example.org")
    assert "dying after 1 failed check (" in cited.out
    assert "The bot, 2 days from now" in cited.out
    assert missing not in capfd.readouterr().err
    refused = known.weboid.call(*options, "--front=archive")
    assert (refused.code, "is not an origin" in refused.err) == (2, True)


@pytest.mark.slow
def test_a_copy_that_is_kept_takes_a_moved_clock(known: TrialRegistry) -> None:
    """Whatever database the profile names; and the real registry does not."""
    weboid = known.weboid
    known.run("level", "rights", "--wiki=mywiki.home", "--most=images", "--reason=a test")
    assert _trial(known, "--days=2", f"--keep={COPY}")[GONE][-1]["state"] == "dying"
    options = ("links", "check", "--dry-run", f"--profile={weboid.profile}")
    there = weboid.call("--clock-offset", "30d", *options, "--collection", COPY)
    assert there.code == 0, there
    assert "the clock is moved by 30 d" in there.err
    assert "3 URLs are due." in there.out
    assert "3 URLs are due." not in weboid.call(*options, "--collection", COPY).out
    here = weboid.call("--clock-offset", "30d", *options)
    assert here.code == 2
    assert "is not a copy for a trial" in here.err
    rights = weboid.call("level", "rights", "--collection", COPY)
    assert "mywiki.home" in rights.out, rights
    for database in known.database:
        named = weboid.call("--clock-offset", "30d", *options, "--collection", COPY, database)
        assert named.code == 2
        assert "is a store outside the trial copy" in named.err


def test_the_clock_is_moved_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as it says, and an error when it says nothing that is a duration."""
    monkeypatch.setenv(CLOCK_OFFSET, "10d")
    moved = SystemClock().now() - datetime.now(UTC)
    assert timedelta(days=9, hours=23) < moved <= timedelta(days=10)
    monkeypatch.setenv(CLOCK_OFFSET, "soon")
    with pytest.raises(InputError, match="not a duration"):
        SystemClock().now()


def test_a_moved_clock_is_for_trials(tmp_path: Path) -> None:
    """Wrong times would be written into a real collection."""
    with pytest.raises(ConfigError, match="wiki trial"):
        check_trial_clock(tmp_path)
    trial_mark_path(Layout(tmp_path)).touch()
    check_trial_clock(tmp_path)


def test_a_registry_that_is_too_large_is_refused_with_the_way_to_try_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str
) -> None:
    """Nothing is copied then."""
    layout = Layout(tmp_path / "collection")
    open_registry_store(layout, database_url).close()
    monkeypatch.setattr(registry_trial, "COPY_URLS_LIMIT", -1)
    with pytest.raises(InputError, match="`weboid wiki sweep --now --collection DIR`"):
        registry_trial.make_trial_copy(layout, tmp_path / COPY, database_url)
    assert not (tmp_path / COPY).exists()


def test_a_trial_has_the_configuration_of_its_collection(tmp_path: Path) -> None:
    """Its commands are run without the original."""
    layout = Layout(tmp_path / "collection")
    open_registry_store(layout).close()
    (layout.root / CONFIG_FILE).write_text('extends = "wiki"\n')

    copy = registry_trial.make_trial_copy(layout, tmp_path / COPY)

    assert (copy.root / CONFIG_FILE).read_text() == 'extends = "wiki"\n'
