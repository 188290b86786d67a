"""`weboid wiki add` and `ls`, as an operator runs them, on a real wiki."""

import io
import json
import re
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, update

from core.layout import Layout
from links.registry.pages import PageName, PutPage, number_of, put_pages
from links.registry.schema import urls, wanted
from links.registry.urls import ensure_urls
from links.registry.wikis import all_wikis, parse_wiki, put_cursors, put_trouble
from links.rules.link_class import classify_link
from links.states import LinkState
from playback.access.decision_store import open_decisions
from playback.access.level_store import LevelStore
from tests.support.playback_fixtures import CollectionBuilder
from tests.support.services.registries import open_registry
from tests.support.sites.mediawiki import RunningWiki
from tests.support.wiki_proxy import running_wiki_proxy
from tests.support.wiki_writer import BOT_SECRET, WikiWriter
from weboid.cli.main import main
from weboid.cli.support.commands import ExitCode

pytestmark = pytest.mark.slow
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs `weboid wiki` on a collection as `main` does: exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        argv = ["weboid", "wiki", *arguments, "--collection", str(tmp_path / "collection")]
        monkeypatch.setattr(sys, "argv", argv)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, output.out, output.err

    return run


def _added(ran: tuple[int, str, str]) -> Any:
    code, out, err = ran
    assert code == ExitCode.OK, err
    return json.loads(out)


def test_a_wiki_is_added_by_the_address_of_a_page(wiki: RunningWiki, command: Command) -> None:
    """The output names what was detected and the command that comes next."""
    code, out, _ = command("add", f"{wiki.base}/wiki/Main_Page")
    assert code == ExitCode.OK
    assert re.search(rf"The library is known as my_wiki@127\.0\.0\.1: MediaWiki [\d.]+, {re.escape(wiki.api())}", out)
    assert "Observed: articles." in out
    assert "archived at once" in out
    assert "weboid wiki watch" in out
    assert "my_wiki@127.0.0.1" in command("ls")[1]


def test_said_again_it_changes_what_is_given(
    wiki: RunningWiki, writer: WikiWriter, bot_name: str, command: Command, tmp_path: Path
) -> None:
    """Criteria, a grace, an account; a list is emptied by a hyphen."""
    password = tmp_path / "password"
    password.write_text(BOT_SECRET)
    password.chmod(0o600)
    writer.write("Category:Cmd", "x")
    criteria = ("--namespace", "Help", "--namespace", "0", "--category", "Cmd", "--grace", "48")
    account = ("--account", bot_name, "--password-file", str(password), "--not-template", "None such")
    code, out, _ = command("add", wiki.base, *criteria, *account)
    assert code == ExitCode.OK
    assert "Observed: Help, articles, in Cmd, without None such." in out
    assert "after 2 d" in out
    assert "Read as Repairer, with a bot's limits." in out
    assert "Warning: the wiki has no Template:None such" in out
    added_wiki = _added(command("add", wiki.base, "--no-archive", "--not-template", "-", "--json"))
    assert added_wiki["settings"]["feed"] == {
        "account": bot_name,
        "archive": False,
        "categories": ["Cmd"],
        "grace_h": 48.0,
        "namespaces": [12, 0],
        "password_file": str(password),
    }
    assert (added_wiki["user"], added_wiki["high_limits"], added_wiki["dbname"]) == ("Repairer", True, "my_wiki")
    assert BOT_SECRET not in json.dumps(added_wiki)


def test_a_wiki_says_how_much_of_what_it_cites_is_recorded(wiki: RunningWiki, command: Command, tmp_path: Path) -> None:
    """Kept as a level of the wiki, by whoever adds it; said again it changes, unsaid it stays."""
    assert _added(command("add", wiki.base, "--json"))["store"] == "everything"
    for _ in range(2):
        code, out, _ = command("add", wiki.base, "--store", "text")
        assert (code, "recorded at the level text" in out) == (ExitCode.OK, True)
    added_wiki = _added(command("add", wiki.base, "--json"))
    assert added_wiki["store"] == "text"
    with closing(open_decisions(Layout(tmp_path / "collection"))) as store:
        (decision,) = LevelStore(store).history(is_stored=True)
    assert decision.target.wiki == parse_wiki(added_wiki["wiki"]).in_levels
    assert decision.actor.is_operator


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--namespace", "Hlep"), ExitCode.INPUT, "12 Help"),
        (("--account", "A@b"), ExitCode.INPUT, "password"),
        (("--password-file", "/nothing"), ExitCode.INPUT, "/nothing"),
        (("--grace", "-1"), ExitCode.INPUT, "--grace"),
        (("--name", "a b"), ExitCode.INPUT, "is not a wiki's name"),
        (("--farm", "a b"), ExitCode.INPUT, "is not a wiki's name"),
    ],
    ids=str,
)
def test_what_cannot_be_used_adds_nothing(
    wiki: RunningWiki, command: Command, options: tuple[str, ...], code: ExitCode, message: str
) -> None:
    """And says what can."""
    ended, _, err = command("add", wiki.base, *options)
    assert (ended, message in err) == (code, True), err
    assert "No wiki is known" in command("ls")[1] or command("ls")[0] == ExitCode.UNAVAILABLE


def test_a_password_in_an_address_is_not_kept(wiki: RunningWiki, command: Command) -> None:
    """It would be shown wherever the wiki's address is."""
    code, _, err = command("add", wiki.base.replace("://", "://me:pw@"))
    assert code == ExitCode.INPUT
    assert "--basic-file" in err


@pytest.mark.parametrize(
    ("url", "code"), [("http://127.0.0.1:9/", ExitCode.UNAVAILABLE), ("nothing at all", ExitCode.INPUT)]
)
def test_an_address_without_a_wiki_is_told(command: Command, url: str, code: ExitCode) -> None:
    """Away now, or never there."""
    assert command("add", url)[0] == code


def test_the_list_tells_how_far_feeds_are_and_what_holds_them_up(
    wiki: RunningWiki, command: Command, tmp_path: Path
) -> None:
    """And settings that cannot be used."""
    assert command("add", wiki.base, "--name", "listed@here", "--farm", "here")[0] == ExitCode.OK
    store = open_registry(Layout(tmp_path / "collection"))
    now = datetime(2026, 11, 21, tzinfo=UTC)
    with store.writing() as connection:
        (known,) = all_wikis(connection)
        put_cursors(connection, known.id, {"changes": "{}"}, now=now)
        put_trouble(connection, known.id, ["changes", "sweep"], "logged \x1b[2Jout", now=now)
    store.close()
    _, out, _ = command("ls")
    assert "listed@here" in out
    assert "(stuck)" in out
    assert out.count("logged") == 1
    assert "\x1b" not in out
    listed_wiki = json.loads(command("ls", "--json")[1])["wikis"][0]
    assert (listed_wiki["pages"], listed_wiki["links"]) == (0, 0)
    assert listed_wiki["feeds"]["changes"]["moment"] == "2026-11-21T00:00:00.000Z"
    assert "logged" in listed_wiki["trouble"]


def test_a_wiki_is_added_with_a_contact_and_an_interval(wiki: RunningWiki, command: Command, tmp_path: Path) -> None:
    """The collection keeps both; without a contact the command says so, with the next step."""
    code, out, err = command("add", wiki.base)
    assert (code, "No contact address is set" in err) == (ExitCode.OK, True)
    given = ("--contact", "a@b.example", "--recrawl", "90d")
    code, out, err = command("add", wiki.base, *given)
    assert (code, "contact" in err) == (ExitCode.OK, False)
    assert "archived again after 90d" in out
    stored = (tmp_path / "collection" / "weboid.toml").read_text()
    assert '[operator]\ncontact = "a@b.example"\nrecrawl = "90d"\n' in stored
    code, _, err = command("add", wiki.base, "--recrawl", "1d")
    assert (code, "--recrawl 30d or more" in err) == (ExitCode.INPUT, True)


def test_the_list_tells_what_becomes_of_links(wiki: RunningWiki, command: Command, tmp_path: Path) -> None:
    """Queued, dead, without a copy, as readers see them; and whether the bot is on."""
    assert command("add", wiki.base, "--name", "counted@here", "--farm", "here")[0] == ExitCode.OK
    layout = Layout(tmp_path / "collection")
    fine, dead, waiting, bare = (f"https://{name}.org/" for name in ("fine", "dead", "soon", "bare"))
    with closing(open_registry(layout)) as store, store.writing() as rows:
        (known,) = all_wikis(rows)
        links = tuple(map(classify_link, (fine, dead, waiting, bare)))
        put_pages(rows, known.id, [PutPage(PageName(7, "Page"), links)], day=1)
        numbers = ensure_urls(rows, [fine, dead, waiting, bare], day=1)
        page = number_of(known.id, 7)
        rows.execute(update(urls).where(urls.c.id == numbers[dead]).values(state=LinkState.DEAD))
        waits = {"wiki_id": known.id, "page": page, "since": 1, "due": 1, "priority": 0}
        rows.execute(insert(wanted), {**waits, "url_id": numbers[waiting]})
    with closing(CollectionBuilder(layout.root, is_there=True)) as builder:
        builder.page(fine, "<p>x</p>", at=datetime(2026, 11, 20, tzinfo=UTC))
    listed_wiki = json.loads(command("ls", "--json")[1])["wikis"][0]
    assert {each: listed_wiki[each] for each in ("links", "queued", "dead", "without_copy", "bot")} == {
        "links": 4,
        "queued": 1,
        "dead": 1,
        "without_copy": 2,
        "bot": False,
    }
    head, row = command("ls")[1].splitlines()[:2]
    assert all(each in head for each in ("queued", "dead", "no copy", "bot"))
    assert row.split()[:7] == ["counted@here", "1", "4", "1", "1", "2", "off"]


def test_a_wiki_is_asked_through_the_proxy_that_the_profile_names(
    wiki: RunningWiki, command: Command, tmp_path: Path
) -> None:
    """With a proxy for all hosts no request bypasses it; a proxy of an unsupported kind is refused."""
    profile = tmp_path / "profile.toml"
    with running_wiki_proxy(wiki.base) as proxy:
        way = proxy.base.replace("://", "://me:p%40w@")
        profile.write_text(f'[egress.via]\n"*" = "{way}"\n')
        url = wiki.api().replace("127.0.0.1", "wiki.invalid")  # only the proxy knows that name
        assert command("add", url, "--profile", str(profile))[0] == ExitCode.OK
        assert {each.headers["host"].partition(":")[0] for each in proxy.requests} == {"wiki.invalid"}
        assert proxy.requests[0].headers["proxy-authorization"] == "Basic bWU6cEB3"
    profile.write_text('[egress.via]\n"*" = "socks5://127.0.0.1:9"\n')
    code, _, err = command("add", wiki.base, "--profile", str(profile))
    assert (code, "http proxies" in err) == (ExitCode.INPUT, True)
