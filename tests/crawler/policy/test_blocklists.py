"""List files: both formats, lines that are none, and lists that change while they are used."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from core.url_patterns import pattern_target
from crawler.policy.blocklists import LINE_LIMIT_BYTES, LISTS_POLL_S, BlocklistCache, UrlBlocklists, read_lists


def lists_of(folder: Path, *, name: str = "spam.txt", text: str | bytes = "") -> UrlBlocklists:
    """The list with that text."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_lists([str(path)])


def refusing(lists: UrlBlocklists, url: str) -> str:
    """The line that names the URL, as reasons cite it."""
    return str(lists.refusing(pattern_target(url)) or "")


def test_a_plain_list(tmp_path: Path) -> None:
    """A pattern a line; comments, empty lines and a byte order mark are passed over."""
    text = "\ufeff# spam\n\nspam.example  # since 2026\nhttp://a.example/#!x\nb.example/x#y\n re:casino\n"
    lists = lists_of(tmp_path, text=text)
    assert lists.lines == 4
    assert lists.bad == 0
    assert refusing(lists, "https://www.spam.example/x") == "spam.txt, line 3"
    assert refusing(lists, "http://a.example/#!x") == "spam.txt, line 4"
    assert refusing(lists, "http://b.example/xyz") == "spam.txt, line 5"
    assert refusing(lists, "http://c.example/casino") == "spam.txt, line 6"
    assert refusing(lists, "http://c.example/") == ""


@pytest.mark.parametrize("name", ["wiki.spamlist", "wiki.txt"])
def test_mediawikis_spam_blacklist(tmp_path: Path, name: str) -> None:
    """Fragments for the host and what follows, by the file's name or its first line."""
    text = (
        "# format: mediawiki\n"
        "\\bcasino-[a-z]+\\.com\\b # a comment\n"
        "viagra\n"
        "example\\.org/spam\n"
        "(?<=look)behind\n"
        "a)|(b\n"
    )
    lists = lists_of(tmp_path, name=name, text=text)
    assert refusing(lists, "https://www.Casino-Royal.com/x") == f"{name}, line 2"
    assert refusing(lists, "http://buy-viagra.example/") == f"{name}, line 3"
    assert refusing(lists, "http://www.example.org/SPAM") == f"{name}, line 4"
    assert refusing(lists, "http://example.com/?q=viagra") == ""
    assert [problem.line for problem in lists.problems] == [5, 6]


def test_lines_that_are_no_patterns_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    """By file and number, with the reason; a line without end is one of them."""
    long = b"x" * (3 * LINE_LIMIT_BYTES)
    text = b"two words\n" + long + b"\nre:(\nftp://a.example/\nlatin-\xe4.example/\ngood.example\n"
    lists = lists_of(tmp_path, text=text)
    assert [problem.line for problem in lists.problems] == [1, 2, 3, 4, 5]
    assert lists.problems[0].source.endswith("spam.txt")
    assert refusing(lists, "http://good.example/") == "spam.txt, line 6"


def test_a_flood_of_bad_lines_is_counted_and_not_kept(tmp_path: Path) -> None:
    """The first hundred are named."""
    lists = lists_of(tmp_path, text="bad line\n" * 5_000)
    assert (lists.bad, len(lists.problems)) == (5_000, 100)


def test_several_lists_are_told_apart(tmp_path: Path) -> None:
    """The reason names the list that has the line."""
    (tmp_path / "one").write_text("a.example\n")
    (tmp_path / "two").write_text("\nb.example\n")
    lists = read_lists([str(tmp_path / "one"), str(tmp_path / "two")])
    assert refusing(lists, "http://a.example/") == "one, line 1"
    assert refusing(lists, "http://b.example/") == "two, line 2"


def test_a_list_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A crawl does not begin without a list that its profile names."""
    with pytest.raises(ConfigError, match=r"missing\.txt"):
        read_lists([str(tmp_path / "missing.txt")])
    with pytest.raises(ConfigError, match=r"missing\.txt"):
        BlocklistCache([str(tmp_path / "missing.txt")])


async def test_a_list_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """Within half a minute; a list that is gone for a while holds on as it was."""
    path = tmp_path / "list"
    path.write_text("a.example\n")
    book = BlocklistCache([str(path)])
    await book.refresh(monotonic=0.0)
    assert refusing(book.lists, "http://a.example/")

    path.write_text("b.example\n")
    await book.refresh(monotonic=1.0)
    assert not refusing(book.lists, "http://b.example/")
    await book.refresh(monotonic=LISTS_POLL_S)
    assert refusing(book.lists, "http://b.example/")

    path.unlink()
    await book.refresh(monotonic=2 * LISTS_POLL_S)
    assert refusing(book.lists, "http://b.example/")
    path.write_text("c.example\n")
    await book.refresh(monotonic=3 * LISTS_POLL_S)
    assert refusing(book.lists, "http://c.example/")


async def test_many_lines_are_looked_up_one_by_one(tmp_path: Path) -> None:
    """Every line is found, by its own number."""
    text = "".join(f"h{number:x}.example\n" for number in range(20_000))
    lists = lists_of(tmp_path, text=text)
    assert lists.lines == 20_000
    for number in (0, 1, 12_345, 19_999):
        assert refusing(lists, f"http://www.h{number:x}.example/") == f"spam.txt, line {number + 1}"
    assert not refusing(lists, "http://example/")
