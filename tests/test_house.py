"""The rules of the house that no linter knows."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "core", "net", "classify", "warc", "links", "proxy", "render", "playback", "wiki", "crawler", "qa",
    "weboid",
)  # fmt: skip
FOREIGN_TEXT = {"LICENSE"}

# Spelled in pieces, so that this file does not find itself.
_MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:" + "|".join(("work", "root", "home", "tmp")) + r")/\w")
_UNFINISHED = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
_REGISTRY = re.compile("|".join(("pypi" + r"\.org", "python" + "hosted", "npm" + "js", r"deb\." + "debian")))

# Imports every module named on its command line; reports what a mere import has no business doing.
# Binding a socket is not among it: urllib3 tries IPv6 in that way when it is imported.
_IMPORT_PROBE = """
import importlib, os, sys, threading
root = os.getcwd() + os.sep
seen = []

def watch(event, arguments):
    if event in {"socket.connect", "subprocess.Popen", "os.system", "os.exec"}:
        seen.append(event)
    elif event == "open" and isinstance(arguments[0], (str, bytes)):
        path, mode = os.fsdecode(arguments[0]), arguments[1] or "r"
        written = any(letter in mode for letter in "wax+") and "__pycache__" not in path
        ours = path.startswith(root) and not path.startswith(root + ".venv")
        own = (".py", ".pyc", ".toml", ".sql", ".js")  # modules, and tables of a package in other languages
        data = ours and not path.endswith(own) and "__pycache__" not in path
        if written or data:
            seen.append(f"open {path} {mode}")

sys.addaudithook(watch)
for name in sys.argv[1:]:
    before = len(seen), threading.active_count()
    importlib.import_module(name)
    after = len(seen), threading.active_count()
    if before != after:
        print(name, seen[before[0]:], after[1] - before[1])
"""


def _committed() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listing.stdout.split("\0") if name]


_PYWB_MODULES = ["playback.replay.full.text_rewriter", "playback.replay.full.pywb_rewriter"]


@functools.cache
def _texts() -> dict[str, str]:
    texts = {}
    for path in _committed():
        if path.name in FOREIGN_TEXT or not path.is_file():
            continue
        try:
            texts[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or another binary
    return texts


def _lines(pattern: re.Pattern[str], texts: dict[str, str]) -> list[str]:
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name, text in texts.items()
        for match in pattern.finditer(text)
    ]


def _modules() -> list[str]:
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.name not in {"__init__.py", "__main__.py"}
    ]


def _imported(python: Path, modules: list[str]) -> str:
    done = subprocess.run(
        [str(python), "-c", _IMPORT_PROBE, *modules], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    return done.stdout if done.returncode == 0 else done.stderr


def test_no_committed_file_names_a_place_on_somebodys_machine() -> None:
    """A path of one machine means nothing on the next."""
    assert _lines(_MACHINE_PATH, _texts()) == []


def test_no_committed_file_puts_work_off() -> None:
    """Open work is listed in the table of requirements, not in comments."""
    assert _lines(_UNFINISHED, _texts()) == []


def test_no_committed_file_names_a_registry() -> None:
    """Whoever installs packages decides which registry they come from."""
    assert _lines(_REGISTRY, _texts()) == []


def test_locked_requirements_name_versions_and_hashes_only() -> None:
    """A lock holds no address and nothing without a hash."""
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        pins = re.findall(r"^[\w.-]+==.*$", text, flags=re.MULTILINE)

        assert "://" not in text, path.name
        assert pins, path.name
        assert all(pin.endswith("\\") for pin in pins), path.name


def test_every_package_says_what_it_is() -> None:
    """A package's __init__ is its docstring, in one sentence at least."""
    silent = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]

    assert silent == []


@pytest.mark.slow
def test_importing_any_module_does_nothing() -> None:
    """No thread, socket or process comes from a mere import, and no file but a package's own tables is read."""
    ours = [name for name in _modules() if name not in _PYWB_MODULES]

    assert _imported(Path(sys.executable), ours) == ""


@pytest.mark.playback
def test_importing_what_makers_with_pywb_need_does_nothing() -> None:
    """The same in the environment with pywb."""
    assert _imported(ROOT / ".venv-replay" / "bin" / "python", _PYWB_MODULES) == ""


def test_archiving_loads_no_module_of_what_a_run_may_never_need() -> None:
    """Crawl rules, robots.txt, recovery, levels, lists and host look-ups are imported where they are used."""
    rare = (
        "crawler.rules.scope_rule crawler.rules.sitemap_rule crawler.policy.robots_cache warc.recovery"
        " warc.rebuild crawler.capture.plain_visit crawler.capture.media_download"
        " crawler.capture.site_logins playback links net.egress crawler.pools.cluster warc.object_storage warc.uploads"
        " warc.text_index.indexer core.config.sheets core.config.added_headers weboid.app.malware_scanner"
    )
    script = f"import sys, weboid.cli.crawl.archive_command; print({{*{rare.split()}}} & {{*sys.modules}})"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)

    assert result.stdout.strip() == "set()"


def test_the_command_line_does_not_load_what_only_the_proxy_needs() -> None:
    """Warcprox takes a fifth of a second and 20 MB for each command, PostgreSQL's driver a tenth."""
    script = "import sys, weboid.cli.crawl.archive_command; print({'warcprox', 'psycopg'} & {*sys.modules})"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)

    assert result.stdout.strip() == "set()"
