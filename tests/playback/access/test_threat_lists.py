"""Lists of bad addresses: canonical URLs, expressions, prefixes, and what is found on them (C-16)."""

import hashlib
import json
import os
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError, TransientError
from core.layout import Layout
from playback.access.decision_store import SqliteDecisionStore
from playback.access.threat_lists import (
    ListEffect,
    PrefixFile,
    ThreatList,
    add_list,
    list_rows,
    load_lists,
    parse_binary_prefixes,
    parse_hex_prefixes,
    remove_list,
    url_expressions,
    url_hashes,
    write_prefixes,
)
from tests.support.examples import examples
from weboid.cli.main import weboid

ROOT = Path(__file__).resolve().parents[3]
NOW = datetime(2026, 3, 1, tzinfo=UTC)

# The vectors that Safe Browsing v4 publishes in "URLs and Hashing".
CANONICAL: list[tuple[str | bytes, str]] = [
    ("http://host/%25%32%35", "http://host/%25"),
    ("http://host/%25%32%35%25%32%35", "http://host/%25%25"),
    ("http://host/%2525252525252525", "http://host/%25"),
    ("http://host/asdf%25%32%35asd", "http://host/asdf%25asd"),
    ("http://host/%%%25%32%35asd%%", "http://host/%25%25%25asd%25%25"),
    ("http://www.google.com/", "http://www.google.com/"),
    (
        "http://%31%36%38%2e%31%38%38%2e%39%39%2e%32%36/%2E%73%65%63%75%72%65/%77%77%77%2E%65%62%61%79%2E%63%6F%6D/",
        "http://168.188.99.26/.secure/www.ebay.com/",
    ),
    (
        "http://195.127.0.11/uploads/%20%20%20%20/.verify/.eBaysecure=updateuserdataxplimnbqmn"
        "-xplmvalidateinfoswqpcmlx=hgplmcx/",
        "http://195.127.0.11/uploads/%20%20%20%20/.verify/.eBaysecure=updateuserdataxplimnbqmn"
        "-xplmvalidateinfoswqpcmlx=hgplmcx/",
    ),
    (
        "http://host%23.com/%257Ea%2521b%2540c%2523d%2524e%25f%255E00%252611%252A22%252833%252944_55%252B",
        "http://host%23.com/~a!b@c%23d$e%25f^00&11*22(33)44_55+",
    ),
    ("http://3279880203/blah", "http://195.127.0.11/blah"),
    ("http://www.google.com/blah/..", "http://www.google.com/"),
    ("www.google.com/", "http://www.google.com/"),
    ("www.google.com", "http://www.google.com/"),
    ("http://www.evil.com/blah#frag", "http://www.evil.com/blah"),
    ("http://www.GOOgle.com/", "http://www.google.com/"),
    ("http://www.google.com.../", "http://www.google.com/"),
    ("http://www.google.com/foo\tbar\rbaz\n2", "http://www.google.com/foobarbaz2"),
    ("http://www.google.com/q?", "http://www.google.com/q?"),
    ("http://www.google.com/q?r?", "http://www.google.com/q?r?"),
    ("http://www.google.com/q?r?s", "http://www.google.com/q?r?s"),
    ("http://evil.com/foo#bar#baz", "http://evil.com/foo"),
    ("http://evil.com/foo;", "http://evil.com/foo;"),
    ("http://evil.com/foo?bar;", "http://evil.com/foo?bar;"),
    (b"http://\x01\x80.com/", "http://%01%80.com/"),
    ("http://notrailingslash.com", "http://notrailingslash.com/"),
    ("http://www.gotaport.com:1234/", "http://www.gotaport.com/"),
    ("  http://www.google.com/  ", "http://www.google.com/"),
    ("http:// leadingspace.com/", "http://%20leadingspace.com/"),
    ("http://%20leadingspace.com/", "http://%20leadingspace.com/"),
    ("%20leadingspace.com/", "http://%20leadingspace.com/"),
    ("https://www.securesite.com/", "https://www.securesite.com/"),
    ("http://host.com/ab%23cd", "http://host.com/ab%23cd"),
    ("http://host.com//twoslashes?more//slashes", "http://host.com/twoslashes?more//slashes"),
]
# Ours, after the rules' words.
MORE: list[tuple[str | bytes, str]] = [
    ("http://a.example/b/./c/../d/", "http://a.example/b/d/"),
    ("http://a.example/../../x", "http://a.example/x"),
    ("http://user:p%40ss@a.example/", "http://a.example/"),
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("http://017700000001/", "http://127.0.0.1/"),
    ("http://1.2.3.4.5/", "http://1.2.3.4.5/"),
    ("http://256.1/", "http://256.1/"),
    ("http://[2001:0db8:0000::1]:80/", "http://[2001:db8::1]/"),
    ("http://[::ffff:1.2.3.4]/", "http://1.2.3.4/"),
    ("http://[64:ff9b::1.2.3.4]/", "http://1.2.3.4/"),
    ("https://b\u00fccher.example/\u00e9", "https://xn--bcher-kva.example/%C3%A9"),
    ("http://a.example?q", "http://a.example/?q"),
    ("", "http:///"),
]


@pytest.mark.parametrize(("url", "expected"), CANONICAL + MORE, ids=range(len(CANONICAL) + len(MORE)))
def test_a_url_has_one_canonical_form(url: str | bytes, expected: str) -> None:
    """As published, and as the rules say of what the published examples leave out."""
    whole = url_expressions(url)[0]

    assert whole.decode() == expected.partition("://")[2]
    assert url_expressions(b"http://" + whole)[0] == whole


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_whatever_is_asked_for_has_expressions(url: str | bytes) -> None:
    """Never an error, at most thirty, each of printable ASCII; escapes do not change them."""
    expressions = url_expressions(url)

    assert 1 <= len(expressions) <= 30
    assert all(0x20 < byte < 0x7F for each in expressions for byte in each)
    assert len(set(expressions)) == len(expressions)


@given(st.text(st.characters(codec="ascii", exclude_characters="\t\r\n#% "), max_size=12))
def test_escapes_hide_nothing(path: str) -> None:
    """However often a path is escaped, it is the same address."""
    url, once = f"http://a.example/{path}", "".join(f"%{ord(each):02x}" for each in path)
    twice = once.replace("%", "%25")
    spelled = (url, f"http://a.example/{once}", f"http://a.example/{twice}")
    assert len({url_expressions(each)[0] for each in spelled}) == 1


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "http://a.b.c/1/2.html?param=1",
            "a.b.c/1/2.html?param=1 a.b.c/1/2.html a.b.c/ a.b.c/1/ b.c/1/2.html?param=1 b.c/1/2.html b.c/ b.c/1/",
        ),
        (
            "http://a.b.c.d.e.f.g/1.html",
            "a.b.c.d.e.f.g/1.html a.b.c.d.e.f.g/ c.d.e.f.g/1.html c.d.e.f.g/ d.e.f.g/1.html"
            " d.e.f.g/ e.f.g/1.html e.f.g/ f.g/1.html f.g/",
        ),
        ("http://1.2.3.4/1/", "1.2.3.4/1/ 1.2.3.4/"),
        ("http://a.b/saw-cgi/eBayISAPI.dll/", "a.b/saw-cgi/eBayISAPI.dll/ a.b/ a.b/saw-cgi/"),
        ("http://a.b/1/2/3/4/5/6", "a.b/1/2/3/4/5/6 a.b/ a.b/1/ a.b/1/2/ a.b/1/2/3/"),
    ],
    ids=["three-labels", "seven-labels", "address", "folders", "deep"],
)
def test_expressions_are_those_published(url: str, expected: str) -> None:
    """Suffixes of the host with prefixes of the path."""
    assert {each.decode() for each in url_expressions(url)} == set(expected.split())


def test_hashes_are_sha256() -> None:
    """Of the expressions, whole."""
    url = "http://a.b/"
    assert url_hashes(url) == [hashlib.sha256(b"a.b/").digest()]


# ------------------------------------------------------------------------------- files

_prefixes = st.lists(st.binary(min_size=4, max_size=32), min_size=1, max_size=60)


@settings(max_examples=examples(30))
@given(_prefixes, st.lists(st.binary(min_size=32, max_size=32), max_size=10), st.data())
def test_a_file_finds_what_begins_with_an_entry_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, prefixes: list[bytes], others: list[bytes], data: st.DataObject
) -> None:
    """As a walk through all entries would; the longest entry is the one that is told."""
    path = tmp_path_factory.mktemp("prefixes") / "list"
    assert write_prefixes(path, prefixes) == len(set(prefixes))
    file = PrefixFile(path)
    known = [each + data.draw(st.binary(min_size=32, max_size=32)) for each in prefixes[:10]]

    for full in [each[:32] for each in known] + others:
        expected = max((len(each) for each in prefixes if full.startswith(each)), default=0)
        assert file.find(full) == expected


@settings(max_examples=examples(30))
@given(_prefixes)
def test_hexadecimal_and_binary_say_the_same(prefixes: list[bytes]) -> None:
    """Comments, empty lines and letter case do not matter."""
    lines = [b"# a list\r\n", b"\n"] + [each.hex().upper().encode() + b" # x\r\n" for each in prefixes]
    assert list(parse_hex_prefixes(lines)) == prefixes
    same = [each[:4] for each in prefixes]
    assert list(parse_binary_prefixes(b"".join(same), 4)) == same


@pytest.mark.parametrize("line", [b"abc", b"abcdef", b"00" * 33, b"xyzxyzxy", b"abcdefab0"])
def test_a_line_that_is_no_prefix_is_named(line: bytes) -> None:
    """Too short, too long, uneven, or no hexadecimal."""
    with pytest.raises(InputError, match="Line 2"):
        list(parse_hex_prefixes([b"00112233", line]))


@pytest.mark.parametrize(
    "content",
    [None, b"", b"GARBAGE", b"WEBOID PREFIXES 1\n", b"WEBOID PREFIXES 1\n{}\n",
     b'WEBOID PREFIXES 1\n{"sections": [[4, 2]]}\nabcd'],
    ids=["missing", "empty", "garbage", "headless", "nothing", "short"],
)  # fmt: skip
def test_a_file_that_is_none_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    """Playback then says "not now" rather than that the address is on no list."""
    path = tmp_path / "list"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TransientError, match="cannot be read"):
        PrefixFile(path)


# ------------------------------------------------------------------------------- lists


def about(name: str, effect: ListEffect = ListEffect.HOLD, *, days: int = 0) -> ThreatList:
    """Return the row of a list that was added `days` after NOW."""
    return ThreatList(name, "", effect, "phishing", 0, NOW + timedelta(days=days))


def test_a_listed_address_is_found_with_what_lies_below_it(tmp_path: Path) -> None:
    """A host's entry covers its subdomains and pages; what holds goes before what warns."""
    whole = url_hashes("http://evil.example/")[0]
    page = url_hashes("http://good.example/bad.html")[0][:4]
    with closing(SqliteDecisionStore(tmp_path / "d.sqlite")) as store:
        add_list(store, tmp_path, about("hosts"), [whole])
        add_list(store, tmp_path, about("pages", ListEffect.WARN), [page, whole])
        lists = load_lists(store, tmp_path)

    hit = lists.on("https://www.evil.example:8080/login?x=1#y")
    assert hit is not None
    assert (hit.on.name, hit.is_sure, hit.on.added_at) == ("hosts", True, NOW)
    assert {each.on.name for each in lists.all_on("http://evil.example/")} == {"hosts", "pages"}
    warned = lists.on("http://good.example/bad.html")
    assert warned is not None
    assert (warned.on.effect, warned.is_sure) == (ListEffect.WARN, False)
    assert lists.on("http://good.example/") is None
    assert lists.on("http://notevil.example/") is None


def test_a_newer_list_takes_an_older_ones_place(tmp_path: Path) -> None:
    """Under the same name; its file goes, and a reader who holds it goes on."""
    one, two = url_hashes("http://one.example/"), url_hashes("http://two.example/")
    with closing(SqliteDecisionStore(tmp_path / "d.sqlite")) as store:
        first = add_list(store, tmp_path, about("x"), one)
        held = load_lists(store, tmp_path)
        second = add_list(store, tmp_path, about("x", days=1), two)
        assert [each.entries for each in list_rows(store)] == [1]
        assert held.on("http://one.example/") is not None
        assert load_lists(store, tmp_path).on("http://one.example/") is None
        assert {path.name for path in tmp_path.glob("*.prefixes")} == {second.file} != {first.file}
        remove_list(store, tmp_path, "x")
        assert not load_lists(store, tmp_path)
        with pytest.raises(InputError, match="no list 'x'"):
            remove_list(store, tmp_path, "x")


def test_a_list_whose_file_is_gone_is_an_error(tmp_path: Path) -> None:
    """Nothing is taken for unlisted because a disk was not mounted."""
    with closing(SqliteDecisionStore(tmp_path / "d.sqlite")) as store:
        made = add_list(store, tmp_path, about("x"), url_hashes("http://one.example/"))
        (tmp_path / made.file).unlink()
        with pytest.raises(TransientError, match="cannot be read"):
            load_lists(store, tmp_path)


# ------------------------------------------------------------------------------- the command


def run(root: Path, *arguments: str, given: str | bytes = "") -> Result:
    """Run `weboid scan lists` on the collection at `root`, with `given` on standard input."""
    Layout(root).databases.mkdir(parents=True, exist_ok=True)
    Layout(root).marker.write_text("version = 1\n")
    command = ["scan", "lists", *arguments, "--collection", str(root)]
    return CliRunner().invoke(weboid, command, input=given, standalone_mode=False)


@pytest.mark.parametrize("form", ["hex", "binary", "urls"])
def test_a_list_is_added_checked_shown_and_removed(tmp_path: Path, form: str) -> None:
    """From hashes or from addresses; what is below a listed host is on the list."""
    full = url_hashes("http://evil.example/")[0]
    given = {"hex": full.hex().encode(), "binary": full, "urls": b"# hosts\nevil.example\n"}[form]
    added = run(
        tmp_path, "add", "bad", "-", "--format", form, "--width", "32", "--reason", "why",
        given=given,
    )  # fmt: skip
    bad = run(tmp_path, "ls", "https://www.evil.example/x", "http://good.example/", "--json")
    good = run(tmp_path, "ls", "http://good.example/")
    shown = run(tmp_path, "ls", "--json")
    removed = run(tmp_path, "rm", "bad")

    assert "Entries on the list bad: 1" in added.output
    urls = json.loads(bad.output)["urls"]
    assert [[each["name"] for each in one["lists"]] for one in urls] == [["bad"], []]
    assert (bad.return_value, good.return_value, removed.return_value) == (1, 0, 0)
    assert "on no list" in good.output
    assert json.loads(shown.output)["lists"][0]["reason"] == "why"
    assert json.loads(run(tmp_path, "ls", "--json").output) == {"lists": []}


def test_lists_whose_files_have_changed_are_read_again(tmp_path: Path) -> None:
    """As they were added; what is broken, or gone, leaves the older list as it is."""
    file, root = tmp_path / "hosts.txt", tmp_path / "c"
    file.write_text("evil.example\n")
    run(root, "add", "bad", str(file), "--format", "urls", "--warn", "--reason", "why")
    os.utime(file, (0, 0))
    assert run(root, "refresh").output == ""
    file.write_text("evil.example\nworse.example\n")
    os.utime(file, (2**33, 2**33))
    assert "Entries on the list bad: 2" in run(root, "refresh").output
    threat_list = json.loads(run(root, "ls", "--json").output)["lists"][0]
    assert (threat_list["entries"], threat_list["effect"], threat_list["reason"]) == (2, "warn", "why")
    file.unlink()
    failed = run(root, "refresh")
    assert (failed.return_value, "is unchanged" in failed.output) == (1, True)
    assert json.loads(run(root, "ls", "--json").output)["lists"][0]["entries"] == 2


@pytest.mark.slow
def test_lists_are_read_again_and_again_until_it_is_stopped(tmp_path: Path) -> None:
    """As the service of docker-compose.yml does, which SIGTERM ends."""
    file, root = tmp_path / "hosts.txt", tmp_path / "c"
    file.write_text("evil.example\n")
    run(root, "add", "bad", str(file), "--format", "urls")
    os.utime(file, (2**33, 2**33))
    command = [sys.executable, "-m", "weboid", "scan", "lists", "refresh", "--every=1s"]
    with subprocess.Popen(
        [*command, f"--collection={root}"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.terminate()
        process.wait(120)

    assert lines == ["Entries on the list bad: 1.\n"] * 2


def test_a_dry_run_and_a_bad_file_change_nothing(tmp_path: Path) -> None:
    """The count is told; the fault is told with its line."""
    tried = run(tmp_path, "add", "x", "-", "--dry-run", given="00112233\n00112233\n44556677\n")
    bad = run(tmp_path, "add", "x", "-", given="00112233\nnonsense\n")

    assert "Entries that would be on the list x: 2." in tried.output
    assert isinstance(bad.exception, InputError)
    assert "Line 2" in str(bad.exception)
    assert json.loads(run(tmp_path, "ls", "--json").output) == {"lists": []}
