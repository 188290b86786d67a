"""`weboid init` and `weboid config`, and commands that find the file by themselves."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from crawler.frontier.base import AddResult
from crawler.run.crawl_run import RunSummary
from crawler.worker.crawl_events import FileRecovered, PageSkipped
from tests.support.commands import WEBOID, WeboidRunner
from weboid.cli.support.run_output import RunReporter


@pytest.fixture
def own(tmp_path: Path) -> WeboidRunner:
    """Return a runner in a folder without a collection."""
    return WeboidRunner(tmp_path, tmp_path / "profile.toml")


@pytest.fixture
def config(own: WeboidRunner) -> Path:
    """Run `weboid init` and return the path of the file that it writes."""
    ran = own.call("init", "--contact", "me@example.org", "--archive", "wayback")
    assert (ran.code, ran.err) == (0, "")
    return own.collection / "weboid.toml"


def test_init_writes_a_file_that_has_no_errors(own: WeboidRunner, config: Path) -> None:
    """The answers hold, and the collection can be used at once."""
    shown = own.call("config", "show", str(config), "--changed", "--json")
    checked = own.call("config", "check")
    status = own.call("status")

    changed = {(row["group"], row["key"]): row["value"] for row in json.loads(shown.out)["settings"]}
    assert changed["links", "archives"] == ["wayback"]
    assert 'contact = "me@example.org"' in config.read_text()
    assert (checked.code, status.code) == (0, 0)


@pytest.mark.slow
def test_a_wrong_answer_at_the_terminal_is_asked_for_again(own: WeboidRunner) -> None:
    """Each as soon as it is given, with what would be right."""
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"me@\nme@example.org\n\nwaybak\nwayback\n")
    ran = subprocess.run(
        [str(WEBOID), "init"], stdin=terminal, capture_output=True, text=True, cwd=own.folder, check=True
    )
    os.close(terminal)
    os.close(keyboard)

    written = tomllib.loads((own.collection / "weboid.toml").read_text())
    assert (written["operator"]["contact"], written["links"]["archives"]) == ("me@example.org", ["wayback"])
    assert ran.stdout.count("Contact address") == ran.stdout.count("Archives to ask") == 2
    assert "such as https://example.org/bot" in ran.stdout + ran.stderr


def test_a_folder_that_cannot_be_written_is_named_with_the_next_step(own: WeboidRunner) -> None:
    """By `init` and by `archive`, which make collections."""
    (own.folder / "notes.txt").write_text("no folder")
    place = "notes.txt/collection"
    for words in (["init"], ["archive", "https://museum.example/"]):
        ran = own.call(*words, "--collection", place)

        assert ran.code == 3
        assert f"{place}" in ran.err
        assert "cannot be written: Not a directory." in ran.err
        assert "Give --collection a writable folder." in ran.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("save = 1", "save must be true or false, not 1."),
        ('behind = "127.0.0.1"', 'behind must be a list, not "127.0.0.1".'),
        ('behind = ["proxy"]', "behind: 'proxy' is not a network"),
        ("listen = 8080", "listen: '8080' is not HOST:PORT"),
        ("listen = true", "listen must be a string or a number, not true."),
        ('origin = "archive"', "origin: an origin is like https://archive.example, not 'archive'."),
    ],
)
def test_a_wrong_option_in_the_file_is_found_by_the_check_and_by_the_command(
    own: WeboidRunner, config: Path, line: str, message: str
) -> None:
    """Types and addresses, with their line, before anything is started."""
    config.write_text(f"[serve]\n{line}\n")

    checked, started = own.call("config", "check"), own.call("serve")

    assert (checked.code, started.code) == (1, 2)
    assert f"line 2: [serve] {message}" in checked.out
    assert f"line 2: [serve] {message}" in started.err


def test_numbers_and_dates_are_read_as_on_the_command_line(own: WeboidRunner, config: Path) -> None:
    """A duration without a unit is in seconds."""
    config.write_text("[crawl]\ntime_limit = 90\nlimit = 5\n[export]\nsince = 2026-12-31\n")

    ran = own.call("crawl", "--dry-run", "https://a.example/", "--json")

    assert own.call("config", "check").code == 0
    assert ran.events[0]["budgets"] == ["5 pages", "1 min 30 s"]


def test_every_example_in_the_file_is_valid(own: WeboidRunner, config: Path) -> None:
    """Taking a comment sign away never makes an error."""
    lines = config.read_text().splitlines()
    examples = [
        line[2:] if line.startswith("# ") and (" = " in line or line == "# [[seed]]") else line for line in lines
    ]
    config.write_text("\n".join(dict.fromkeys(line for line in examples if line)))

    assert own.call("config", "check").out == f"{Path('collection/weboid.toml')}: no errors.\n"


def test_an_existing_file_is_kept_unless_force_is_given(own: WeboidRunner, config: Path) -> None:
    """Nobody's settings are lost."""
    config.write_text("# mine\n")

    refused = own.call("init")
    forced = own.call("init", "--force")

    assert (refused.code, forced.code) == (2, 0)
    assert "--force" in refused.err
    assert "# mine" not in config.read_text()


@pytest.mark.parametrize(("option", "value"), [("--archive", "nowhere"), ("--contact", "no address")])
def test_an_invalid_answer_writes_nothing(own: WeboidRunner, option: str, value: str) -> None:
    """The error names what would be right."""
    assert own.call("init", option, value).code == 2
    assert not (own.collection / "weboid.toml").exists()


def test_commands_take_settings_and_seeds_from_the_file(own: WeboidRunner, config: Path) -> None:
    """`crawl` without arguments crawls the seeds, each scope as a crawl of its own."""
    with config.open("a") as file:
        file.write(
            '\n[[seed]]\nurl = "https://a.example/"\npage_limit = 3\n'
            '[[seed]]\nurl = "https://b.example/"\nscope = "page"\n'
        )

    ran = own.call("crawl", "--dry-run", "--json")
    named = own.call("crawl", "https://c.example/", "--dry-run", "--json")

    first, second = ran.events
    assert ([each["url"] for each in first["seeds"]], first["budgets"]) == (["https://a.example/"], ["3 pages"])
    assert [each["url"] for each in second["seeds"]] == ["https://b.example/"]
    assert [each["url"] for each in named.events[0]["seeds"]] == ["https://c.example/"]


def test_a_preset_on_the_command_line_lies_below_the_file(own: WeboidRunner, config: Path) -> None:
    """The environment names one, too, and the collection."""
    config.write_text('[policy]\nrobots = "ignore"\n')

    ran = own.call("crawl", "https://a.example/", "--profile", "wiki", "--dry-run", "--json")

    assert ran.events[0]["robots"] == "ignore"
    assert ran.events[0]["scope"] == "The page of the seed alone."


def test_config_show_names_the_source_of_each_setting(own: WeboidRunner, config: Path) -> None:
    """The file, the preset below it, or the default."""
    config.write_text('extends = "wiki"\n[visit]\ndom = false\n')

    rows = json.loads(own.call("config", "show", "--json").out)["settings"]

    sources = {(row["group"], row["key"]): row["from"] for row in rows}
    assert sources["visit", "dom"].endswith("weboid.toml, line 3")
    assert sources["visit", "timeout_s"] == "profile wiki, line 5"
    assert sources["visit", "store"] == "default"


def test_an_option_of_a_command_is_checked_with_its_line(own: WeboidRunner, config: Path) -> None:
    """Unknown ones when the command starts, and by `config check`; invalid values, too."""
    config.write_text("[serve]\nprot = 1\n")
    started = own.call("serve")
    config.write_text('[serve]\nport = "many"\n')
    checked = own.call("config", "check")

    assert started.code == 2
    assert "line 2: `weboid serve` has no option 'prot'. Did you mean port?" in started.err
    assert checked.code == 1
    assert "[serve]" in checked.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[visti]\nx = 1\n", "line 1: There is no table 'visti'. Did you mean [visit]?"),
        ("[watsh]\n", "line 1: There is no table 'watsh'. Did you mean [watch]?"),
        ('\nextends = "nope"\n', "line 2: There is no profile 'nope'"),
        ('[operator]\ncontcat = "x"\n', "line 2: [operator] has no key 'contcat'."),
        ('[visit]\ntimeout_s = "30x"\n', "line 2: [visit] timeout_s: '30x' is not a duration"),
        ("[visit]\ntimeout_s = 1\ntimeout_s = 2\n", "(at line 3,"),
    ],
)
def test_a_wrong_file_is_reported_with_its_line(own: WeboidRunner, config: Path, text: str, message: str) -> None:
    """By `config check`, and by a command that uses the settings."""
    config.write_text(text)
    for ran in (own.call("config", "check"), own.call("archive", "https://a.example/")):
        assert ran.code in {1, 2}
        assert message in ran.out + ran.err


def test_the_schema_accepts_what_init_writes(own: WeboidRunner, config: Path) -> None:
    """And refuses a key that does not exist."""
    schema = json.loads(own.call("config", "show", "--schema").out)
    document = tomllib.loads(config.read_text())

    jsonschema_rs.validate(schema, document)
    for accepted in (
        "[visit]\ntimeout_s = '1h 30m'",
        "[scope]\nbytes = '1.5 GB'",
        "[serve]\nbehind = ['::1']\nsave = true",
    ):
        jsonschema_rs.validate(schema, tomllib.loads(accepted))
    for refused in (
        "[visit]\ntimeout = 3",
        "[visit]\ntimeout_s = 'soon'",
        "[visit]\nviewport_width = 0",
        "[policy]\nrobots = 'yes'",
        "[[seed]]\nurl = 'https://a.example/'\ndepth = 'deep'",
        "[serve]\nprot = 1",
        "[serve]\nsave = 'yes'",
    ):
        with pytest.raises(jsonschema_rs.ValidationError):
            jsonschema_rs.validate(schema, tomllib.loads(refused))


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--behaviors", "Use run in [behaviours] of weboid.toml."),
        ("--blockAds", "Use block in [egress] of weboid.toml."),
        ("--lang", "Use language in [visit] of weboid.toml."),
        ("--generateWACZ", "Use `weboid export FILE.wacz`, after the crawl."),
        ("--generate-wacz", "'--generate-wacz'. Use `weboid export FILE.wacz`, after the crawl."),
        ("--warcInfo.operator", "Use --title and --description."),
        ("-w", "'-w'. Use --workers."),
    ],
)
def test_options_of_browsertrix_are_answered_with_ours(own: WeboidRunner, option: str, hint: str) -> None:
    """Those that have no equal here; other commands know nothing of them."""
    crawl = own.call("crawl", "https://a.example/", option, "x")
    other = own.call("wiki", "ls", option, "x")

    assert (crawl.code, other.code) == (2, 2)
    assert hint in crawl.err
    assert hint not in other.err


def test_every_foreign_option_of_a_command_line_is_answered_at_once(own: WeboidRunner) -> None:
    """`archive` names the options that `crawl` has; what click suggests has no former names."""
    crawl = own.call("crawl", "https://a.example/", "--text", "to-pages", "--lang=de", "--limit", "3", "--logging", "x")
    archive = own.call("archive", "https://a.example/", "--generateWACZ", "--scopeType", "host", "--depth", "1")
    unknown = own.call("export", "all.wacz", "--limit", "3")

    assert re.findall(r"'(--\w+)'", crawl.err) == ["--text", "--lang", "--logging"]
    assert "'--scopeType'. Use `weboid crawl`, which has --scope." in archive.err
    assert "'--depth'. Use `weboid crawl`, which has --depth." in archive.err
    assert "--size-limit" in unknown.err
    assert "--sizeLimit" not in unknown.err


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--scopeType", "custom"), "Use page, with --include for what else is in scope."),
        (("--profile", "/crawls/profiles/me.tar.gz"), "store its session with `weboid login`."),
        (
            ("--useSitemap", "https://a.example/sitemap.xml"),
            "--sitemaps itself reads the sitemaps of the seeds' hosts.",
        ),
    ],
)
def test_values_of_browsertrix_are_answered_with_ours(own: WeboidRunner, words: tuple[str, ...], answer: str) -> None:
    """A sitemap is no seed, whose whole folder would be crawled."""
    ran = own.call("crawl", "https://a.example/docs/", *words, "--dry-run")

    assert ran.code == 2
    assert answer in ran.err


def test_options_of_browsertrix_that_have_an_equal_work(own: WeboidRunner, tmp_path: Path) -> None:
    """As do those that had other names here."""
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("https://b.example/\n")
    words = ["--scopeType", "host", "--pageLimit", "3", "--sizeLimit", "1GB", "--timeLimit", "7200"]

    ran = own.call("crawl", "--url", "https://a.example/", "--seedFile", str(seeds), *words, "--dry-run")

    assert "https://a.example/" in ran.out
    assert "https://b.example/" in ran.out
    assert "3 pages, 1.0 GB, 2 h" in ran.out


def test_a_dry_run_of_a_list_is_json_for_machines(own: WeboidRunner) -> None:
    """As every other line of the command."""
    ran = own.call("archive", "https://a.example/", "https://b.example/", "--dry-run", "--json")

    assert ran.events == [{"event": "dry_run", "urls": 2, "collection": "collection"}]


def test_a_quiet_run_reports_lost_records_only(capsys: pytest.CaptureFixture[str]) -> None:
    """Pages and the summary are for `weboid status` and the exit code."""
    reporter = RunReporter(is_quiet=True)
    reporter.started(AddResult(added=1), 1)
    reporter.event(PageSkipped("https://a.example/", "robots"))
    reporter.event(FileRecovered("a.warc.gz: cut", lost=True, facts={}))
    reporter.ended(RunSummary())

    assert capsys.readouterr() == ("", "  recovered a.warc.gz: cut\n")


@pytest.mark.slow
def test_log_lines_can_be_json(own: WeboidRunner) -> None:
    """One object for each; `WEBOID_LOG_FORMAT` sets it for services."""
    environment = {**os.environ, "WEBOID_LOG_FORMAT": "json"}
    code = "import logging; from weboid.cli.main import weboid; "
    code += "weboid(['config', 'schema'], standalone_mode=False); "
    code += "logging.getLogger('a').warning('it %s', 'is')"
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)

    line = json.loads(ran.stderr.splitlines()[-1])
    assert (line["level"], line["logger"], line["message"]) == ("warning", "a", "it is")


def test_the_version_names_browser_and_libraries(own: WeboidRunner) -> None:
    """`--version` prints what a report of a fault needs."""
    ran = own.call("--version")

    assert ran.code == 0
    assert re.search(r"^weboid, version [\d.]+\n", ran.out)
    assert re.search(r"^browser", ran.out, re.MULTILINE)
    assert "warcio" in ran.out


@pytest.mark.parametrize(("verb", "ours"), [("list", "ls"), ("remove", "rm"), ("delete", "rm")])
def test_verbs_of_other_programs_are_understood(own: WeboidRunner, verb: str, ours: str) -> None:
    """The help names one verb for one thing."""
    theirs = own.call("policy", verb, "--help")

    assert theirs.code == 0
    assert theirs.out.splitlines()[2:] == own.call("policy", ours, "--help").out.splitlines()[2:]
    assert verb not in own.call("policy", "--help").out.split("Commands:")[1]


def test_a_value_that_an_option_refuses_is_reported_with_its_line(own: WeboidRunner) -> None:
    """The value of weboid.toml; one on the command line is reported as usual, and overrides it."""
    own.collection.mkdir()
    (own.collection / "weboid.toml").write_text('[crawl]\n\nlimit = "x"\n')
    given = ("crawl", "--dry-run", "https://example.com/")
    refused = own.call(*given)
    typed = own.call(*given, "--limit", "y")

    assert refused.code == 2
    assert "weboid.toml, line 3: [crawl] limit: 'x' is not" in refused.err
    assert "Invalid value for '--limit'" in typed.err
    assert own.call(*given, "--limit", "5").code == 0
