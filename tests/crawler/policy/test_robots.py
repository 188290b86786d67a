"""Rules of robots.txt, by RFC 9309 and by the cases that Google publishes for its own parser.

Its numbers are those of the RFC's sections. The cases are told in our own words.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.policy.robots import ROBOTS_LIMIT_BYTES, Robots, parse_robots, robots_from_facts

SITE = "http://foo.bar"


def _allows(robots: Robots, url: str) -> bool:
    """Return whether the URL may be visited; no rule allows it."""
    rule = robots.rule_for(url)
    return rule is None or rule.allow


def allows(text: str, agent: str, path: str) -> bool:
    """Return whether the text lets the agent visit the path."""
    return _allows(parse_robots(text.encode(), agent), SITE + path)


def lines(*each: str) -> str:
    """Return a robots.txt of these lines."""
    return "\n".join([*each, ""])


# 5.1: the RFC's own simple example, with its own line ends.
SIMPLE = lines(
    "User-Agent: *",
    "Disallow: *.gif$",
    "Disallow: /example/",
    "Allow: /publications/",
    "",
    "User-Agent: foobot",
    "Disallow:/",
    "Allow:/example/page.html",
    "Allow:/example/allowed.gif",
    "",
    "User-Agent: barbot",
    "User-Agent: bazbot",
    "Disallow: /example/page.html",
    "",
    "User-Agent: quxbot",
    "",
)


@pytest.mark.parametrize(
    ("agent", "path", "wanted"),
    [
        ("anybot", "/a.gif", False),
        ("anybot", "/a.gif?x", True),
        ("anybot", "/example/", False),
        ("anybot", "/example", True),
        ("anybot", "/publications/x", True),
        ("foobot", "/", False),
        ("foobot", "/publications/x", False),
        ("foobot", "/example/page.html", True),
        ("foobot", "/example/allowed.gif", True),
        ("barbot", "/example/page.html", False),
        ("bazbot", "/example/page.html", False),
        ("bazbot", "/example/a.gif", True),
        ("quxbot", "/example/page.html", True),
        ("quxbot", "/a.gif", True),
    ],
)
def test_the_rfcs_simple_example(agent: str, path: str, *, wanted: bool) -> None:
    """Groups by name, several names on one group, and a group without rules (5.1)."""
    assert allows(SIMPLE, agent, path) is wanted


def test_the_rfcs_longest_match() -> None:
    """Of two rules that match the longer one decides (5.2)."""
    text = lines("User-Agent: foobot", "Allow: /example/page/", "Disallow: /example/page/disallowed.gif")
    assert not allows(text, "foobot", "/example/page/disallowed.gif")
    assert allows(text, "foobot", "/example/page/other.gif")


def test_the_rfcs_groups_are_merged() -> None:
    """Groups that name the same robot are one, wherever they stand (2.2.1)."""
    text = lines(
        "user-agent: ExampleBot",
        "disallow: /foo",
        "disallow: /bar",
        "",
        "user-agent: OtherBot",
        "disallow: /qux",
        "",
        "user-agent: ExampleBot",
        "disallow: /baz",
    )
    for path in ("/foo", "/bar", "/baz"):
        assert not allows(text, "ExampleBot", path)
    assert allows(text, "ExampleBot", "/qux")


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
        ("/foo/bar?baz=http://foo.bar", "/foo/bar?baz=http%3A%2F%2Ffoo.bar"),
        ("/foo/bar?baz=http%3A%2F%2Ffoo.bar", "/foo/bar?baz=http://foo.bar"),
        ("/foo/bar/\u30c4", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/\u30c4"),
        ("/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
        ("/foo/bar/baz", "/foo/bar/%62%61%7A"),
    ],
)
def test_the_rfcs_spellings_are_one(rule: str, path: str) -> None:
    """A path means the same however it is escaped (2.2.2)."""
    assert not allows(lines("User-agent: *", f"Disallow: {rule}"), "FooBot", path)


@pytest.mark.parametrize("other", ["/foo%2Fbar", "/foo%3Fbar"])
def test_what_delimits_is_not_what_is_escaped(other: str) -> None:
    """An escaped slash or question mark is no delimiter."""
    path = other.replace("%2F", "/").replace("%3F", "?")
    assert allows(lines("User-agent: *", f"Disallow: {path}"), "FooBot", other)


@pytest.mark.parametrize(
    ("rule", "path", "wanted"),
    [
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html", False),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-x.html", True),
        ("/path/foo-%24", "/path/foo-$", False),
        ("/path/foo-%24", "/path/foo-", True),
        ("/a$b", "/a$b/c", False),
    ],
)
def test_special_characters_as_themselves(rule: str, path: str, *, wanted: bool) -> None:
    """Escaped, a star and a dollar are what they are; so is a dollar that does not end a rule (2.2.3)."""
    assert allows(lines("User-agent: *", f"Disallow: {rule}"), "FooBot", path) is wanted


def matching(rule: str) -> set[str]:
    """Which of the documented paths a rule matches."""
    text = lines("User-agent: *", "Disallow: /", f"Allow: {rule}")
    return {path for path in PATHS if allows(text, "FooBot", path)}


PATHS = (
    "/", "/fish", "/fish.html", "/fish/salmon.html", "/fishheads", "/fishheads/yummy.html",
    "/fish.html?id=anything", "/Fish.asp", "/catfish", "/?id=fish", "/fish/", "/fish/?id=anything",
    "/index.php", "/filename.php", "/folder/filename.php", "/folder/filename.php?parameters",
    "/folder/any.php.file.html", "/filename.php/", "/windows.PHP", "/filename.php?parameters",
    "/filename.php5", "/fish.php", "/fishheads/catfish.php?parameters", "/Fish.PHP",
)  # fmt: skip
FISH = {path for path in PATHS if path.startswith("/fish")}
PHP = {path for path in PATHS if ".php" in path}


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("/fish", FISH),
        ("/fish*", FISH),
        ("/fish/", {"/fish/salmon.html", "/fish/", "/fish/?id=anything"}),
        ("/*.php", PHP),
        ("/*.php$", {path for path in PATHS if path.endswith(".php")}),
        ("/fish*.php", {"/fish.php", "/fishheads/catfish.php?parameters"}),
        ("*fish$", {"/fish", "/catfish", "/?id=fish"}),
        ("/$", {"/"}),
        ("/**.php**", PHP),
        ("/fish*$", FISH),
    ],
)
def test_the_documented_paths(rule: str, wanted: set[str]) -> None:
    """Prefixes, stars and the end, on the paths with which Google documents them."""
    assert matching(rule) == wanted


@pytest.mark.parametrize(
    ("allow", "disallow", "path", "wanted"),
    [
        ("/p", "/", "/page", True),
        ("/folder", "/folder", "/folder/page", True),
        ("/page", "/*.htm", "/page.htm", False),
        ("/page", "/*.ph", "/page.php5", True),
        ("/$", "/", "/", True),
        ("/$", "/", "/page.html", False),
        ("/x/", "/x/page.html", "/x/page.html", False),
        ("/x/page.html", "/x/", "/x/page.html", True),
        ("/x/page.html", "/x/", "/x/", False),
        ("", "", "/x/page.html", True),
        ("/", "/", "/x/page.html", True),
        ("/x/", "/x", "/x", False),
        ("/x/", "/x", "/x/", True),
        ("/page", "/*.html", "/page.html", False),
        ("/page", "/*.html", "/page", True),
        ("/x/page.", "/*.html", "/x/page.html", True),
        ("/x/page.", "/*.html", "/x/y.html", False),
        ("/foo/*/qux", "/foo/bar/quz", "/foo/bar/quz", False),
        ("/foo/*/qux", "/foo/bar/quz", "/foo/bax/quz", True),
        ("/foo/bar/qux", "/foo/bar$", "/foo/bar", False),
        ("/foo/bar/qux", "/foo/bar$", "/foo/bar/", True),
    ],
)
def test_which_of_two_rules_decides(allow: str, disallow: str, path: str, *, wanted: bool) -> None:
    """The longer one; of two as long as each other the one that allows (2.2.2)."""
    text = lines("User-agent: *", f"Disallow: {disallow}", f"Allow: {allow}")
    assert allows(text, "FooBot", path) is wanted


def test_groups_begin_with_their_names_and_end_with_the_next() -> None:
    """Empty lines end nothing, and names that follow each other share what comes."""
    text = lines(
        "allow: /foo/bar/", "",
        "user-agent: FooBot", "disallow: /", "allow: /x/",
        "user-agent: BarBot", "disallow: /", "allow: /y/", "", "",
        "allow: /w/", "user-agent: BazBot", "",
        "user-agent: FooBot", "allow: /z/", "disallow: /",
    )  # fmt: skip
    can = {
        (agent, path)
        for agent in ("FooBot", "BarBot", "BazBot", "QuxBot")
        for path in ("/x/b", "/y/c", "/z/d", "/w/a", "/foo/bar/")
        if allows(text, agent, path)
    }
    assert can == {
        ("FooBot", "/x/b"), ("FooBot", "/z/d"), ("BarBot", "/y/c"), ("BarBot", "/w/a"),
        ("BazBot", "/z/d"), *(("QuxBot", p) for p in ("/x/b", "/y/c", "/z/d", "/w/a", "/foo/bar/")),
    }  # fmt: skip


@pytest.mark.parametrize("between", ["Sitemap: https://foo.bar/map", "Unknown: line", "Crawl-delay: 3"])
def test_other_lines_end_no_group(between: str) -> None:
    """Lines that are no rules do not separate the names above and below them (2.2.4)."""
    text = lines("User-agent: BarBot", between, "User-agent: *", "Disallow: /")
    assert not allows(text, "BarBot", "/x")
    assert not allows(text, "FooBot", "/x")


@pytest.mark.parametrize(
    ("name", "agent", "wanted"),
    [
        ("FooBot", "FooBot", False),
        ("FOOBOT", "foobot", False),
        ("FooBot/2.1", "FooBot", False),
        ("FooBot (compatible)", "FooBot", False),
        ("Foo Bar", "Foo", False),
        ("Foo", "FooBot", True),
        ("FooBot-News", "FooBot", True),
        ("FooBot", "Bot", True),
        ("Foo*", "FooBot", True),
        ("*", "FooBot", False),
        ("* baz", "FooBot", False),
        ("", "FooBot", True),
    ],
)
def test_whom_a_name_means(name: str, agent: str, *, wanted: bool) -> None:
    """The whole product token counts, in any letter case, and nothing behind it (2.2.1)."""
    assert allows(lines(f"User-agent: {name}", "Disallow: /"), agent, "/x") is wanted


def test_everybodys_group_is_for_those_without_their_own() -> None:
    """A group of one's own replaces the one for all, also when it comes later or allows more."""
    text = lines("user-agent: *", "allow: /", "user-agent: FooBot", "disallow: /")
    assert not allows(text, "FooBot", "/x")
    assert allows(text, "BarBot", "/x")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("key", ["Disallow:", "DISALLOW :", "disallow", "Dissallow:", " disallow: "])
def test_lines_as_people_write_them(end: str, key: str) -> None:
    """Every line end, any letter case, white space, a forgotten colon, a common misspelling."""
    text = end.join(["\ufeffUser-agent: FooBot # us", f"{key} /x # why", "# Allow: /x", ""])
    assert not allows(text, "FooBot", "/x")
    assert allows(text, "FooBot", "/y")


@pytest.mark.parametrize("text", ["", "foo: FooBot\nbar: /\n", "<html><body>Not found", "\x00" * 9])
def test_what_says_nothing_allows_everything(text: str) -> None:
    """An empty file, another file, and no text at all forbid nothing."""
    assert allows(text, "FooBot", "/x")


def test_paths_are_told_apart_by_case_and_need_their_slash() -> None:
    """Letter case counts in paths, and a rule that does not begin a path never holds."""
    text = lines("User-agent: *", "Disallow: /X", "Disallow: y", "Disallow: http://foo.bar/z")
    assert allows(text, "FooBot", "/x")
    assert allows(text, "FooBot", "/y")
    assert allows(text, "FooBot", "/z")


def test_the_file_itself_may_always_be_read() -> None:
    """robots.txt cannot forbid itself (2.2.2)."""
    assert allows(lines("User-agent: *", "Disallow: /"), "FooBot", "/robots.txt")


def test_what_lies_beyond_the_limit_is_not_read() -> None:
    """500 KiB are read, and a line that they cut is not (2.5)."""
    head = "User-agent: *\nDisallow: /early\n"
    fill = "#" * (ROBOTS_LIMIT_BYTES - len(head) - len("Disallow: /cu")) + "\n"
    text = head + fill + "Disallow: /cut\nDisallow: /late\n"
    assert not allows(text, "FooBot", "/early")
    assert allows(text, "FooBot", "/cu")
    assert allows(text, "FooBot", "/late")


def test_utf16_and_other_charsets_are_read_as_far_as_they_go() -> None:
    """A file in UTF-16 is read; a byte of an old encoding stands for itself."""
    assert not _allows(parse_robots("\ufeffUser-agent: *\nDisallow: /x".encode("utf-16"), "a"), f"{SITE}/x")
    old = parse_robots("User-agent: *\nDisallow: /stra\xdfe".encode("latin-1"), "a")
    assert not _allows(old, f"{SITE}/stra%DFe")


def test_sitemaps_and_delay() -> None:
    """Sitemaps are for everybody, wherever they stand; a delay is for the group's robots."""
    text = lines(
        "Sitemap: https://foo.bar/a.xml",
        "User-agent: FooBot", "Crawl-delay: 2.5", "Disallow:",
        "User-agent: *", "Crawl-delay: 10", "Crawl-delay: nan", "Crawl-delay: -1", "Crawl-delay: x",
        "sitemap: https://foo.bar/b.xml", "Sitemap: https://foo.bar/a.xml",
    )  # fmt: skip
    robots = parse_robots(text.encode(), "foobot")
    assert robots.crawl_delay_s == 2.5
    assert robots.sitemaps == ("https://foo.bar/a.xml", "https://foo.bar/b.xml")
    assert parse_robots(text.encode(), "other").crawl_delay_s == 10
    assert parse_robots(b"", "other").crawl_delay_s is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (lines("User-agent: *", "Disallow: /"), True),
        (lines("User-agent: *", "Disallow: /*"), True),
        (lines("User-agent: *", "Disallow: /x"), False),
        (lines("User-agent: *", "Disallow: /", "Allow: /x"), False),
        (lines("User-agent: other", "Disallow: /"), False),
    ],
)
def test_a_site_that_is_closed_altogether(text: str, *, wanted: bool) -> None:
    """Everything disallowed and nothing allowed."""
    assert parse_robots(text.encode(), "FooBot").forbids_all is wanted


@given(st.binary(max_size=3_000))
def test_no_bytes_are_too_odd(data: bytes) -> None:
    """Whatever comes is read, requested_paths, and comes back from its facts as it was."""
    robots = parse_robots(data, "FooBot")
    _allows(robots, f"{SITE}/a?b")
    assert robots_from_facts(robots.to_facts()) == robots


_PIECES = st.lists(
    st.sampled_from(["/", "a", "b", "%61", "%2f", "*", "$", "?", "=", "\u00e9", "%C3%A9"]), max_size=8
).map("".join)


@given(_PIECES, _PIECES)
def test_a_rule_without_stars_is_a_prefix(rule: str, rest: str) -> None:
    """A rule matches what it is the beginning of, and escapes make no difference."""
    plain = rule.replace("*", "").replace("$", "")
    text = lines("User-agent: *", f"Disallow: /{plain}")
    assert not allows(text, "FooBot", f"/{plain}{rest}")


@pytest.mark.slow
def test_a_hostile_file_takes_bounded_time() -> None:
    """Half a megabyte of rules full of stars is matched with a long URL step by step."""
    rule = b"Disallow: /" + b"*a" * 100 + b"z\n"
    data = b"User-agent: *\n" + rule * (ROBOTS_LIMIT_BYTES // len(rule))
    robots: Robots = parse_robots(data, "FooBot")
    assert len(robots.rules) > 2_000
    assert _allows(robots, f"{SITE}/{'a' * 60_000}")
