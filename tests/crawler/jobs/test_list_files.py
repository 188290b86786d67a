"""A list of URLs, with everything that people put into lists."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from crawler.jobs.list_files import GivenUrls, ListFile, ListLineProblem, parse_lines


def read_file(path: Path) -> list[str | ListLineProblem]:
    with ListFile(str(path)) as file:
        return list(file)


def test_lines_are_urls_in_their_order() -> None:
    """Blank lines and comments are left out; a URL that stood before is yielded again."""
    lines = ["# list", "", " https://b.example/ ", "https://a.example", "https://A.example:443/"]
    urls = list(parse_lines(lines, source="list"))

    assert urls == ["https://b.example/", "https://a.example/", "https://a.example/"]


def test_a_line_that_is_no_url_is_named_with_its_number() -> None:
    """The rest of the list goes on."""
    lines = ["https://a.example/", "no url", "mailto:a@b.example"]
    url, *problems = parse_lines(lines, source="x.txt")

    assert [each.line for each in problems if isinstance(each, ListLineProblem)] == [2, 3]
    assert str(problems[0]).startswith("x.txt, line 2: ")
    assert url == "https://a.example/"


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfhttps://a.example/\r\nhttps://b.example/\r\n",
        "https://a.example/\nhttps://b.example/".encode("utf-16"),
        b"https://a.example/\r# \xfcber\rhttps://b.example/",
    ],
)
def test_a_list_is_read_whatever_program_wrote_it(tmp_path: Path, data: bytes) -> None:
    """Byte order marks, line ends of three systems, and old encodings."""
    path = tmp_path / "urls.txt"
    path.write_bytes(data)

    assert read_file(path) == ["https://a.example/", "https://b.example/"]


def test_a_line_in_an_old_encoding_does_not_garble_the_others(tmp_path: Path) -> None:
    """Lists are pasted together from several sources."""
    path = tmp_path / "urls.txt"
    path.write_bytes("https://a.example/猫\nhttps://b.example/".encode() + b"\xf6\n")

    assert read_file(path) == ["https://a.example/%E7%8C%AB", "https://b.example/%C3%B6"]


def test_a_hidden_character_ends_no_line_and_is_refused(tmp_path: Path) -> None:
    """A line separator inside a URL makes neither two URLs nor a wrong line number."""
    path = tmp_path / "urls.txt"
    path.write_bytes(
        "https://a.example/x\u2028https://b.example/\nhttps://c.example/\n".encode() + b"https://d.example/\x81\n"
    )

    first, url, last = read_file(path)

    assert url == "https://c.example/"
    assert [each.line for each in (first, last) if isinstance(each, ListLineProblem)] == [1, 3]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"# nothing\n"])
def test_an_empty_list_is_an_error_that_names_it(tmp_path: Path, data: bytes) -> None:
    """Nothing to do is most likely a mistake."""
    path = tmp_path / "urls.txt"
    path.write_bytes(data)
    with GivenUrls((), str(path), report=print) as urls:
        assert list(urls) == []
        with pytest.raises(InputError, match=r"urls\.txt is empty"):
            urls.require_some()


def test_a_list_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    """The system's own words follow."""
    with pytest.raises(InputError, match="No such file"):
        read_file(tmp_path / "nowhere.txt")


@given(st.lists(st.text(max_size=40), max_size=10))
def test_no_line_crashes_the_reader(lines: list[str]) -> None:
    """Every line that says something is a URL or a problem."""
    assert len(list(parse_lines(lines, source="list"))) <= len(lines)


@pytest.mark.slow
def test_a_long_list_takes_memory_for_a_line(tmp_path: Path) -> None:
    """2,000 URLs are read one by one, as often as wanted, with a few kilobytes held."""
    path = tmp_path / "long.txt"
    with path.open("w") as file:
        file.writelines(f"https://a.example/{number}\n" for number in range(2_000))
    with ListFile(str(path)) as urls:
        tracemalloc.start()
        try:
            counts = [sum(1 for _ in urls) for _ in range(2)]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert counts == [2_000, 2_000]
    assert peak < 20_000
