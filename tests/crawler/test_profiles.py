"""Profiles: those that come along, those that extend others, and what is said about faulty ones."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from core.config.settings import Settings
from core.errors import ConfigError
from crawler.frontier.base import ItemState, NewItem
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.profile_check import profile_faults, profile_warnings
from crawler.profiles import builtin_profiles, chain_settings, load_chain, load_profile, profile_sets
from weboid.cli.main import weboid


def ran(*arguments: str) -> Result:
    """Run `weboid config` with these arguments."""
    return CliRunner().invoke(weboid, ["config", *arguments], standalone_mode=False)


def written(folder: Path, text: str, name: str = "mine.toml") -> str:
    """Write a profile and return its path."""
    path = folder / name
    path.write_text(text)
    return str(path)


def test_every_profile_that_comes_along_can_be_used_and_says_what_for() -> None:
    """Nothing in them is suspicious but what their comment explains."""
    assert builtin_profiles() == ["default", "gentle", "mobile", "text-only", "thorough", "wiki"]
    for name in builtin_profiles():
        chain = load_chain(name)
        assert profile_faults(chain) == [], name
        assert {each.text.partition(":")[0] for each in profile_warnings(chain, chain_settings(chain))} <= {
            "[visit] device_scale"
        }
        assert chain[0].text.startswith("# "), name
    assert load_profile("default") == Settings()
    assert ran("show", "--presets").output.splitlines()[1].startswith("default")


def test_a_profile_says_only_what_it_changes(tmp_path: Path) -> None:
    """Key by key over what it extends, from beside its own file; sheets follow; the first says it."""
    sheet = '[[sheet]]\nmatch = "{}"\nvisit.timeout_s = {}\n'
    written(tmp_path, 'extends = "mobile"\n[visit]\ntimeout_s = 7\n' + sheet.format("a.org", 1), "base.toml")
    mine = written(tmp_path, 'extends = "./base.toml"\nvisit.contact = "a@b.org"\n' + sheet.format("b.org", 2))
    settings = load_profile(mine)
    chain = load_chain(mine)

    assert (settings.visit.mobile, settings.visit.timeout_s) == (True, 7.0)
    assert settings.visit.contact == "a@b.org"
    assert [sheet.prefix for sheet in settings.sheets] == ["org,a,", "org,b,"]
    assert [layer.source.rpartition("/")[2] for layer in chain] == [
        "mine.toml",
        "base.toml",
        "profile mobile",
        "profile default",
    ]
    assert profile_sets(mine, "visit", "timeout_s")
    assert profile_sets(mine, "visit", "mobile")
    assert not profile_sets(mine, "policy", "robots")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('extends = "./mine.toml"', "not itself"),
        ('extends = "nonesuch"', "There is no profile 'nonesuch'"),
        ("extends = 5", "must be a profile's name"),
        ("[visit", "not TOML"),
        ("[visit]\ntimout_s = 5", "Did you mean timeout_s"),
        ('[visit]\ntimezone = "Europe/Berln"', "such as Europe/Berlin"),
        ('[behaviours]\nrun = ["scrol"]', "scrol|no behaviour"),
        ("[visit]\ndevice_scale = 0", "device_scale must be"),
        ('[visit]\nheaders = { Cookie = "a" }', "create a login"),
        ('[visit]\nuser_agent = "a\\nb"', "printable ASCII"),
        ('[visit]\ncontact = "whoever"', "contact must"),
        ('[visit]\nlocale = "de DE"', "locale must"),
        ('[visit]\ncolour_scheme = "pink"', "colour_scheme must"),
        ('[login]\nnames = ["../../etc"]', "not a name for a login"),
    ],
)
def test_what_no_part_could_work_with_is_refused_and_the_next_step_is_said(
    tmp_path: Path, text: str, message: str
) -> None:
    """Before anything is started."""
    with pytest.raises(ConfigError, match=message):
        load_profile(written(tmp_path, text))


def test_a_profile_s_own_files_are_seen_from_its_folder(tmp_path: Path) -> None:
    """Wherever the command is started; a whole path stays."""
    (tmp_path / "below").mkdir()
    base = written(tmp_path / "below", 'login.key_file = "my.key"')
    mine = written(tmp_path, 'extends = "below/mine.toml"')

    assert load_profile(mine).login.key_file == str(tmp_path / "below" / "my.key")
    Path(base).write_text('login.key_file = "/etc/my.key"')
    assert load_profile(mine).login.key_file == "/etc/my.key"


def test_a_flow_is_looked_for_beside_the_profile_that_names_it(tmp_path: Path) -> None:
    """No other file is read; one that is no flow is refused with the profile."""
    flow = tmp_path / "shop.py"
    flow.write_text('match = "shop.example"\nasync def flow(page): ...')
    mine = written(tmp_path, '[behaviours]\nflows = ["shop.py"]')
    assert load_profile(mine).behaviours.flows == (str(flow),)
    wrong = written(tmp_path, '[behaviours]\nflows = ["other.py"]', "wrong.toml")
    with pytest.raises(ConfigError, match=r"flows: .*other\.py cannot be read"):
        load_profile(wrong)


def test_a_script_is_looked_for_beside_the_profile_that_names_it(tmp_path: Path) -> None:
    """Also when another profile, in another folder, extends that one; one that is not there is said."""
    (tmp_path / "base").mkdir()
    script = tmp_path / "base" / "mine.js"
    script.write_text("// hosts: *\n() => ({ found: 0, done: 0 })")
    base = written(tmp_path / "base", '[behaviours]\nscripts = ["mine.js"]')
    other = written(tmp_path, f'extends = "{base}"')
    wrong = written(tmp_path, '[behaviours]\nscripts = ["mine.js"]', "wrong.toml")

    assert load_profile(other).behaviours.scripts == (str(script),)
    with pytest.raises(ConfigError, match=r"scripts: .*mine\.js cannot be read"):
        load_profile(wrong)


def test_check_says_every_fault_at_once_with_its_line(tmp_path: Path) -> None:
    """One fault does not hide the next; the exit code is 2."""
    text = """extends = "wiki"
# a comment, [visit] in it
visit.timout_s = 5
[politeness]
min_delay_s = "slow"
[polite]
x = 1
[[sheet]]
prefix = "org,exa"
[index]
url = "postgresql://u:p@a.example/b"
"""
    file = written(tmp_path, text)
    result = ran("check", file, "--json")
    document = json.loads(result.output)

    assert result.return_value == 2
    assert [each["line"] for each in document["faults"]] == [3, 5, 6, 8]
    assert document["usable"] is False
    shorter = written(tmp_path, "[index]\nurl = 'postgresql://u:p@a.example/b'\n")
    assert "dedup_url" in ran("check", shorter).output


def test_check_warns_of_what_is_seldom_meant_and_only_of_what_was_said(tmp_path: Path) -> None:
    """A profile can be used all the same."""
    text = "[visit]\nmobile = true\nsettle_limit_s = 70\n[politeness]\nmin_delay_s = 0.1\n"
    result = ran("check", written(tmp_path, text))

    assert result.return_value == 0
    lines = result.output.splitlines()
    assert [line.partition(", ")[2].partition(":")[0] for line in lines[:-1]] == ["line 3", "line 2", "line 5"]
    assert lines[-1].endswith("can be used.")


def test_show_says_what_holds_and_who_says_it(tmp_path: Path) -> None:
    """All keys, with the default where it differs; no password is shown."""
    text = """extends = "mobile"
[visit]
timeout_s = 60
headers = { DNT = "1" }
[egress]
via = { "*" = "socks5://me:secret@a.example:1080" }
"""
    file = written(tmp_path, text)
    output, document = ran("show", file).output, json.loads(ran("show", file, "--json").output)

    assert "+ mobile = true  # profile mobile, line 5; default false" in output
    assert f"  timeout_s = 60.0  # {file}, line 3; as by default" in output
    assert '+ headers = {"DNT" = "1"}' in output
    assert "  min_delay_s = 1.0\n" in output
    assert "secret" not in output + json.dumps(document)
    of = {(row["group"], row["key"]): row for row in document["settings"]}
    assert of["visit", "mobile"] == {
        "group": "visit",
        "key": "mobile",
        "value": True,
        "default": False,
        "from": "profile mobile, line 5",
    }
    assert of["scope", "kind"]["from"] == "default"
    assert "settle_s" not in ran("show", file, "--changed").output


def test_what_a_wiki_cites_is_tried_for_a_month(tmp_path: Path) -> None:
    """A04: after hours, days and weeks; what a person archives by hand is given up within minutes."""
    lengths = {}
    for name in ("wiki", "default"):
        settings = load_profile(name)
        now = begun = datetime(2026, 11, 22, tzinfo=UTC)
        file = tmp_path / f"{name}.sqlite"
        with SqliteFrontier(file, politeness=settings.politeness, settings=settings.frontier) as frontier:
            frontier.add([NewItem("http://down.example/")], now=now)
            state, waits = ItemState.QUEUED, []
            while state is ItemState.QUEUED:
                (item,) = frontier.claim(now=now, worker="w")
                state = frontier.retry(item, now=now, reason="connect: refused") or state
                wakeup = frontier.next_wakeup(now)
                if wakeup is not None:
                    waits.append(wakeup - now)
                    now = wakeup
        lengths[name] = (now - begun, waits)

    month, waits = lengths["wiki"]
    assert timedelta(days=28) <= month <= timedelta(days=35)
    assert any(timedelta(hours=1) <= wait <= timedelta(hours=6) for wait in waits)
    assert any(timedelta(days=1) <= wait <= timedelta(days=4) for wait in waits)
    assert max(waits) == timedelta(days=7)
    assert lengths["default"][0] < timedelta(minutes=5)
