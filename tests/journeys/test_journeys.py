"""The rule of this folder: the product is driven from outside only."""

import ast
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SERVICES = {
    "tests.support.loopback",
    "tests.support.polling",
    "tests.support.services.ports",
    "tests.support.services.postgres",
    "tests.support.services.processes",
    "tests.support.services.redis_server",
    "tests.support.sites.mediawiki",
    "tests.support.wiki_writer",
}
PACKAGES = {
    "classify", "core", "crawler", "links", "net", "playback", "proxy", "qa", "render", "warc", "weboid", "wiki",
}  # fmt: skip


def _imported(path: Path) -> set[str]:
    """Return the modules that a file imports, at its top or anywhere within."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{each.name}" for each in node.names}
    return names


def test_journeys_import_nothing_of_the_product() -> None:
    """They see what users see: commands, HTTP, a browser. No other test's helpers bring it in, either."""
    own = {"tests.journeys.sites", "tests.journeys.conftest", "tests.journeys.test_archivist"}
    for path in FOLDER.glob("*.py"):
        modules = _imported(path)
        assert {name for name in modules if name.split(".")[0] in PACKAGES} == set(), path.name
        tests = {name for name in modules if name.split(".")[0] == "tests"}
        assert {name for name in tests if _is_file(name)} <= own | SERVICES, path.name


def test_services_of_journeys_import_nothing_of_the_product() -> None:
    """The servers that they start, and all that these bring with them, are nobody's but their makers'."""
    seen: set[str] = set()
    waiting = set(SERVICES)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        modules = _imported(ROOT.joinpath(*name.split(".")).with_suffix(".py"))
        assert {each for each in modules if each.split(".")[0] in PACKAGES} == set(), name
        files = {each for each in modules if _is_file(each)}
        waiting |= files - seen


def _is_file(name: str) -> bool:
    """Return whether a module is one of the tests' own."""
    return name.startswith("tests.") and ROOT.joinpath(*name.split(".")).with_suffix(".py").is_file()


def test_journeys_open_no_database() -> None:
    """Nothing is put into a store, or read out of it, behind the product's back.

    Files that other programs would have made are written with warcio.
    """
    for path in FOLDER.glob("*.py"):
        drivers = {"sqlite3", "sqlalchemy", "psycopg", "redis"}
        drivers |= {"warcio"} if path.stem != "test_interoperability" else set()
        assert {name for name in _imported(path) if name.split(".")[0] in drivers} == set()
