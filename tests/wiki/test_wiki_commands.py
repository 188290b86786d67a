"""`weboid wiki add` and `ls`, as an operator runs them, on a real wiki."""

import io
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.layout import Layout
from crawler.cli import main
from crawler.cli.exits import Exit
from links.books.feeds import put_cursor, put_trouble
from links.books.wikis import all_wikis
from tests.services.registries import open_registry
from tests.sites.mediawiki import Wiki
from tests.wiki.api.fronting import fronting
from tests.wiki.writing import BOT_SECRET, Writer

pytestmark = pytest.mark.slow
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs `weboid wiki` on a collection, as `main` does: exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        argv = ["weboid", "wiki", *arguments, "--collection", str(tmp_path / "collection")]
        monkeypatch.setattr(sys, "argv", argv)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, told.out, told.err

    return run


def _added(ran: tuple[int, str, str]) -> Any:
    code, out, err = ran
    assert code == Exit.OK, err
    return json.loads(out)


def test_a_wiki_is_added_by_the_address_of_a_page(wiki: Wiki, command: Command) -> None:
    """What was understood is said, and what comes next."""
    code, out, _ = command("add", f"{wiki.base}/wiki/Main_Page")
    assert code == Exit.OK
    assert f"The library is known as my_wiki@127.0.0.1: MediaWiki 1.39.17, {wiki.api()}" in out
    assert "Observed: articles." in out
    assert "archived at once" in out
    assert "weboid wiki watch" in out
    assert "my_wiki@127.0.0.1" in command("ls")[1]


def test_said_again_it_changes_what_is_given(
    wiki: Wiki, writer: Writer, bot_name: str, command: Command, tmp_path: Path
) -> None:
    """Criteria, a grace, an account; a list is emptied by a hyphen."""
    password = tmp_path / "password"
    password.write_text(BOT_SECRET)
    password.chmod(0o600)
    writer.write("Category:Cmd", "x")
    criteria = ("--namespace", "Help", "--namespace", "0", "--category", "Cmd", "--grace", "48")
    account = (
        "--account",
        bot_name,
        "--password-file",
        str(password),
        "--not-template",
        "None such",
    )
    code, out, _ = command("add", wiki.base, *criteria, *account)
    assert code == Exit.OK
    assert "Observed: Help, articles, in Cmd, without None such." in out
    assert "after 2 d" in out
    assert "Read as Repairer, with a bot's limits." in out
    assert "Warning: the wiki has no Template:None such" in out
    found = _added(command("add", wiki.base, "--no-archive", "--not-template", "-", "--json"))
    assert found["settings"]["feed"] == {
        "account": bot_name,
        "archive": False,
        "categories": ["Cmd"],
        "grace_h": 48.0,
        "namespaces": [12, 0],
        "password_file": str(password),
    }
    assert (found["user"], found["high_limits"], found["dbname"]) == ("Repairer", True, "my_wiki")
    assert BOT_SECRET not in json.dumps(found)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--namespace", "Hlep"), Exit.INPUT, "12 Help"),
        (("--account", "A@b"), Exit.INPUT, "password"),
        (("--password-file", "/nothing"), Exit.INPUT, "/nothing"),
        (("--grace", "-1"), Exit.INPUT, "--grace"),
        (("--name", "a b"), Exit.INPUT, "names no wiki"),
        (("--farm", "a b"), Exit.INPUT, "names no wiki"),
    ],
    ids=str,
)
def test_what_cannot_be_used_adds_nothing(
    wiki: Wiki, command: Command, options: tuple[str, ...], code: Exit, said: str
) -> None:
    """And says what can."""
    ended, _, err = command("add", wiki.base, *options)
    assert (ended, said in err) == (code, True), err
    assert "No wiki is known" in command("ls")[1] or command("ls")[0] == Exit.UNAVAILABLE


def test_a_password_in_an_address_is_not_kept(wiki: Wiki, command: Command) -> None:
    """It would be shown wherever the wiki's address is."""
    code, _, err = command("add", wiki.base.replace("://", "://me:pw@"))
    assert code == Exit.INPUT
    assert "--basic-file" in err


@pytest.mark.parametrize(
    ("url", "code"), [("http://127.0.0.1:9/", Exit.UNAVAILABLE), ("nothing at all", Exit.INPUT)]
)
def test_an_address_without_a_wiki_is_told(command: Command, url: str, code: Exit) -> None:
    """Away now, or never there."""
    assert command("add", url)[0] == code


def test_the_list_tells_how_far_feeds_are_and_what_holds_them_up(
    wiki: Wiki, command: Command, tmp_path: Path
) -> None:
    """And settings that cannot be used."""
    assert command("add", wiki.base, "--name", "listed@here", "--farm", "here")[0] == Exit.OK
    store = open_registry(Layout(tmp_path / "collection"))
    now = datetime(2026, 11, 21, tzinfo=UTC)
    with store.writing() as connection:
        (known,) = all_wikis(connection)
        put_cursor(connection, known.id, "changes", "{}", now=now)
        put_trouble(connection, known.id, ["changes", "sweep"], "logged \x1b[2Jout", now=now)
    store.close()
    _, out, _ = command("ls")
    assert "listed@here" in out
    assert "(stuck)" in out
    assert out.count("logged") == 1
    assert "\x1b" not in out
    found = json.loads(command("ls", "--json")[1])["wikis"][0]
    assert (found["pages"], found["links"]) == (0, 0)
    assert found["feeds"]["changes"]["moment"] == "2026-11-21T00:00:00.000Z"
    assert "logged" in found["trouble"]


def test_a_wiki_is_asked_through_the_proxy_that_the_profile_names(
    wiki: Wiki, command: Command, tmp_path: Path
) -> None:
    """Where everything goes through a proxy nothing goes beside it; what cannot be used is refused."""
    profile = tmp_path / "profile.toml"
    with fronting(wiki.base) as proxy:
        way = proxy.base.replace("://", "://me:p%40w@")
        profile.write_text(f'[egress.via]\n"*" = "{way}"\n')
        url = wiki.api().replace("127.0.0.1", "wiki.invalid")  # only the proxy knows that name
        assert command("add", url, "--profile", str(profile))[0] == Exit.OK
        assert {each.headers["host"].partition(":")[0] for each in proxy.seen} == {"wiki.invalid"}
        assert proxy.seen[0].headers["proxy-authorization"] == "Basic bWU6cEB3"
    profile.write_text('[egress.via]\n"*" = "socks5://127.0.0.1:9"\n')
    code, _, err = command("add", wiki.base, "--profile", str(profile))
    assert (code, "http proxies" in err) == (Exit.INPUT, True)
