"""Configuration of a collection: what of ``weboid.toml`` holds, and how faults are named."""

import re
from pathlib import Path

import pytest

from core.config.settings import ScopeSettings
from core.errors import ConfigError
from crawler.profiles import load_profile
from weboid.app.collection_config import COMMAND_TABLES, parse_origin, read_config, write_config_table, write_operator
from weboid.app.operator_identity import OperatorIdentity, read_operator


def written(root: Path, text: str) -> Path:
    root.mkdir(exist_ok=True)
    (root / "weboid.toml").write_text(text)
    return root


def test_without_a_file_there_is_no_configuration(tmp_path: Path) -> None:
    """A collection needs none."""
    config = read_config(tmp_path)

    assert not config
    assert (config.seeds(), config.operator(), config.options("serve")) == ((), {}, {})


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("", ""),
        ("https://Console.Example:443", "https://console.example"),
        ("http://[::1]:8090", "http://[::1]:8090"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ],
)
def test_an_origin_is_spelled_as_browsers_send_it(text: str, origin: str) -> None:
    """Else every form would come from another site."""
    assert parse_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        "console.example",
        "https://a.example/",
        "https://a.example/x",
        "ftp://a",
        "https://u@a.example",
        "https://",
        "https://a:x",
    ],
)
def test_what_is_no_origin_is_refused(text: str) -> None:
    """With an example."""
    with pytest.raises(ConfigError, match="an origin is like"):
        parse_origin(text)


def test_settings_of_the_file_lie_over_those_of_its_preset(tmp_path: Path) -> None:
    """Keys that the file leaves out are the preset's; another preset can be put below it."""
    written(tmp_path, 'extends = "wiki"\n[politeness]\nmin_delay_s = 7\n[serve]\nport = 1\n')

    own = load_profile(f"{tmp_path}/weboid.toml")
    other = load_profile(f"{tmp_path}/weboid.toml@gentle")

    assert (own.politeness.min_delay_s, own.scope.kind) == (7, "page")
    assert (other.politeness.min_delay_s, other.scope.kind) == (7, "prefix")


def test_durations_and_sizes_may_be_written_with_their_unit(tmp_path: Path) -> None:
    """As on the command line."""
    written(tmp_path, '[visit]\ntimeout_s = "2m"\n[proxy]\nbody_limit_bytes = "5MB"\n')

    settings = load_profile(f"{tmp_path}/weboid.toml")

    assert (settings.visit.timeout_s, settings.proxy.body_limit_bytes) == (120.0, 5_000_000)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[visit]\n\ntimeout_s = true\n", "line 3"),
        ("[visit]\ntimeout = 3\n", "line 2"),
        ('[visit]\ntimeout_s = "soon"\n', "line 2"),
        ('\n[visit.headers]\nCookie = "a=b"\n', "line 2"),
        ("visit = { dom = true, language = 5 }\n", "line 1"),
    ],
)
def test_an_invalid_setting_is_named_with_its_line(tmp_path: Path, text: str, place: str) -> None:
    """Every command that reads the file says so, not the check alone."""
    written(tmp_path, text)

    with pytest.raises(ConfigError, match=rf"weboid\.toml, {place}: \[visit\]"):
        load_profile(f"{tmp_path}/weboid.toml")


def test_each_seed_has_its_own_scope_and_limits(tmp_path: Path) -> None:
    """Values that a seed omits are those of the collection; its patterns are added to the collection's."""
    written(
        tmp_path,
        '[[seed]]\nurl = "https://a.example/x"\n'
        '[[seed]]\nurl = "https://b.example"\nscope = "host"\ndepth = 2\npage_limit = 10\n'
        'time_limit = "2h"\nsize_limit = "1GB"\nexclude = ["b"]\n',
    )

    first, second = read_config(tmp_path).seeds()
    scope = second.applied_to(ScopeSettings(exclude=("a",)))

    assert (first.url, first.applied_to(scope)) == ("https://a.example/x", scope)
    assert second.url == "https://b.example/"
    assert (scope.kind, scope.depth, scope.pages) == ("host", 2, 10)
    assert (scope.seconds, scope.bytes, scope.exclude) == (7200.0, 10**9, ("a", "b"))


@pytest.mark.parametrize(
    ("seed", "line"),
    [
        ('url = "ftp://x"', 4),
        ('url = "https://x.example"\ndept = 3', 5),
        ('url = "https://x.example"\nscope = "site"', 5),
        ('url = "https://x.example"\ntime_limit = "later"', 5),
        ('url = "https://x.example"\nexclude = "a"', 5),
        ('url = "https://x.example"\ntime_limit = true', 5),
        ('url = "https://x.example"\ntime_limit = nan', 5),
        ('url = "https://x.example"\nsize_limit = -1', 5),
        ('url = "https://x.example"\nsize_limit = 1.5', 5),
        ('url = "https://x.example"\nexclude = ["("]', 5),
        ('url = ["https://x.example"]', 4),
        ('scope = "page"\nurl = "https://a.example/"', 5),
        ("depth = 3", 3),
    ],
)
def test_an_invalid_seed_is_named_with_its_line(tmp_path: Path, seed: str, line: int) -> None:
    """Of several seeds the wrong one's."""
    written(tmp_path, f'[[seed]]\nurl = "https://a.example"\n[[seed]]\n{seed}\n')

    with pytest.raises(ConfigError, match=rf"weboid\.toml, line {line}: "):
        read_config(tmp_path).seeds()


@pytest.mark.parametrize(
    ("sheet", "line"),
    [
        ("dom = true", 3),
        ('match = "b.example"\n[sheet.visit]\ndom = true\ntimeout_s = "soon"', 7),
        ('match = "b.example"\nvisit.timeout_s = "soon"', 5),
    ],
)
def test_an_invalid_sheet_is_named_with_its_line(tmp_path: Path, sheet: str, line: int) -> None:
    """Of several sheets the wrong one's, and of its keys the wrong one."""
    written(tmp_path, f'[[sheet]]\nmatch = "a.example"\n[[sheet]]\n{sheet}\n')

    with pytest.raises(ConfigError, match=rf"weboid\.toml, line {line}: sheet"):
        load_profile(f"{tmp_path}/weboid.toml")


def test_tables_of_commands_are_no_settings(tmp_path: Path) -> None:
    """A command that loads the settings accepts the options of all others."""
    written(tmp_path, "".join(f"[{table}]\n" for table in COMMAND_TABLES.values()))

    assert load_profile(f"{tmp_path}/weboid.toml") == load_profile("default")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[policy]\nrobot = "obey"\n', "Did you mean robots?"),
        ('[visit]\nrobots = "obey"\n', "It is a key of [policy]."),
        ('robots = "obey"\n', "It is a key of [policy]."),
        ("\nextends = 5\n", "line 2: extends must be a profile's name"),
        ('[behaviours]\nrun = "scroll"\n', 'run must be a list of strings, not "scroll".'),
        ("[visit]\nviewport_width = true\n", "viewport_width must be a whole number, not true."),
    ],
)
def test_an_error_says_in_words_of_the_file_what_would_be_right(tmp_path: Path, text: str, message: str) -> None:
    """Not in those of the programming language."""
    written(tmp_path, text)

    with pytest.raises(ConfigError, match=re.escape(message)):
        load_profile(f"{tmp_path}/weboid.toml@wiki")


def test_the_file_may_begin_with_a_byte_order_mark_but_must_be_utf_8(tmp_path: Path) -> None:
    """Editors of Windows write the mark; a wrong byte is named with its line, also in a profile."""
    path = written(tmp_path, "") / "weboid.toml"
    path.write_bytes(b"\xef\xbb\xbf[visit]\r\ndom = false\r\n")
    assert not load_profile(f"{path}").visit.dom
    write_config_table(tmp_path, "operator", {"contact": "a@b.example"})
    assert read_config(tmp_path).operator() == {"contact": "a@b.example"}

    path.write_bytes(b'[operator]\nname = "\xfcber"\n')
    for read in (lambda: read_config(tmp_path), lambda: load_profile(f"{path}")):
        with pytest.raises(ConfigError, match=r"line 2: TOML files must be UTF-8, which byte 20 is not\."):
            read()


def test_a_change_keeps_comments_and_other_tables(tmp_path: Path) -> None:
    written(tmp_path, '# mine\n[operator]\ncontact = "a@b.example"  # us\n[visit]\ndom = true\n')

    write_config_table(tmp_path, "operator", {"contact": "c@d.example", "recrawl": ""})

    text = (tmp_path / "weboid.toml").read_text()
    assert text == '# mine\n[operator]\ncontact = "c@d.example"  # us\n[visit]\ndom = true\n'


def test_the_operator_of_an_older_collection_moves_into_the_file(tmp_path: Path) -> None:
    """It is read from collection.toml until it is changed."""
    marker = tmp_path / "collection.toml"
    marker.write_text('version = 1\n\n[operator]\ncontact = "old@b.example"\n')
    before = read_operator(tmp_path)

    write_operator(tmp_path, OperatorIdentity(contact="new@b.example"))

    assert before.contact == "old@b.example"
    assert read_operator(tmp_path).contact == "new@b.example"
    assert marker.read_text() == "version = 1\n"


def test_a_file_that_is_no_toml_is_an_error(tmp_path: Path) -> None:
    """It names the file."""
    written(tmp_path, "[visit")

    with pytest.raises(ConfigError, match=r"weboid\.toml cannot be read"):
        read_config(tmp_path)
