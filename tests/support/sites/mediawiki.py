"""Debian's MediaWiki on SQLite, served by PHP's own server.

The wiki is installed and filled once into the cache; whoever uses one gets a copy of its database,
settings and pictures, and shares its code. Of the versions in `tests.support.sites.versions` there is an
empty wiki each.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from tests.support.polling import wait_until
from tests.support.services.ports import free_port
from tests.support.sites import hosts
from tests.support.sites.articles import ARTICLES, INFOBOX, LENGTH, WEBCITE, WikiArticle, articles
from tests.support.sites.cache import SiteUnavailableError, built
from tests.support.sites.docs import library
from tests.support.sites.versions import MACHINES, MediaWikiVersion, PhpCommand, php_of, unpack_version

ADMIN = "Admin"
PASSWORD = "long-enough-passphrase-1"
WORKERS = 4
START_LIMIT_S = 120.0
STEP_LIMIT_S = 300.0
MEMORY = Path("/dev/shm")

_EXTENSIONS = (
    "CategoryTree",
    "Cite",
    "Gadgets",
    "ImageMap",
    "InputBox",
    "Interwiki",
    "MultimediaViewer",
    "PageImages",
    "ParserFunctions",
    "Poem",
    "SpamBlacklist",
    "TemplateData",
    "TextExtracts",
    "WikiEditor",
)
_LOADED = ("Cite", "MultimediaViewer", "PageImages", "ParserFunctions", "TextExtracts")
_SETTINGS = f"""
// The test web's own settings.
$wgServer = getenv( 'WIKI_SERVER' ) ?: '//{hosts.WIKI}';
$wgCanonicalServer = getenv( 'WIKI_SERVER' ) ?: 'http://{hosts.WIKI}';
$wgArticlePath = '/wiki/$1';
$wgUsePathInfo = true;
$wgSQLiteDataDir = getenv( 'WIKI_FOLDER' ) . '/data';
foreach ( $wgObjectCaches as &$cache ) {{
	if ( isset( $cache['server']['dbDirectory'] ) ) {{
		$cache['server']['dbDirectory'] = $wgSQLiteDataDir;
	}}
}}
unset( $cache );
$wgLocalisationCacheConf['storeServer']['dbDirectory'] = $wgSQLiteDataDir;
// Jobs in the main database: in one of their own each would keep a file open, and a thousand is
// all that most systems allow.
unset( $wgJobTypeConf['default']['server'] );
$wgUploadDirectory = getenv( 'WIKI_FOLDER' ) . '/images';
$wgUploadPath = '/images';
$wgEnableUploads = true;
$wgFileExtensions = [ 'png', 'jpg', 'jpeg', 'gif' ];
$wgUseImageMagick = false;
$wgHashedUploadDirectory = true;
$wgCacheDirectory = getenv( 'WIKI_FOLDER' ) . '/cache';
$wgMainCacheType = CACHE_DB;
$wgJobRunRate = 0;
$wgPingback = false;
$wgEnableEmail = false;
$wgRateLimits = [];
$wgUseInstantCommons = false;
$wgUseCdn = true; // shared caches may keep what anonymous readers get
$wgShowExceptionDetails = true;
foreach ( explode( ' ', '{" ".join(_LOADED)}' ) as $name ) {{
	wfLoadExtension( $name );
}}
foreach ( glob( getenv( 'WIKI_FOLDER' ) . '/settings.d/*.php' ) as $more ) {{
	require $more;
}}
"""
# Hashing a password takes half of a bot's login; the passwords here guard nothing.
_FAST_LOGIN = "$wgPasswordConfig['pbkdf2']['cost'] = '2';"
_ROUTER = Path(__file__).parent / "router.php"


@dataclass(frozen=True, slots=True)
class RunningWiki:
    """A running wiki.

    Attributes:
        port: the loopback port it listens on.
        base: ``http://127.0.0.1:PORT``; it answers whatever host it is asked for.
        code: MediaWiki's code, shared: never write there.
        folder: this wiki's own settings, database and pictures.
        titles: the titles of its articles.
        php: what it runs with.
        restart: ends its server and starts it again at the same port.
    """

    port: int
    base: str
    code: Path
    folder: Path
    titles: tuple[str, ...]
    php: PhpCommand
    restart: Callable[[], None]

    def api(self) -> str:
        """Return the URL of the wiki's API."""
        return f"{self.base}/api.php"

    def maintain(self, script: str, *arguments: str, text: str = "") -> str:
        """Run one of MediaWiki's maintenance scripts on this wiki; return its output.

        Raises:
            SiteUnavailableError: it failed.
        """
        return _maintain(self.php, self.code, self.folder, script, *arguments, text=text)


@contextmanager
def running_wiki(
    *, server: str = "", settings: str = "", version: MediaWikiVersion = MACHINES
) -> Iterator[RunningWiki]:
    """Run a wiki of your own within the block.

    Args:
        server: what the wiki believes its address is, e.g. ``http://wiki.org``; empty: the
            test web's name for it, under either scheme. ``self`` means ``http://127.0.0.1:PORT``.
        settings: more PHP for its settings, e.g. to load an extension.
        version: of MediaWiki; another than the machine's has no articles.

    Raises:
        SiteUnavailableError: PHP is missing, or the wiki could not be built or started.
    """
    home = wiki_template(version)
    php = php_of(version)
    # Each edit waits for the disk otherwise, seven times as long as for PHP.
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="wiki-", dir=memory) as scratch:
        folder = Path(scratch) / "wiki"
        shutil.copytree(home / "wiki", folder)
        (folder / "settings.d" / "own.php").write_text(f"<?php\n{_FAST_LOGIN}\n{settings}\n")
        port = free_port()
        base = f"http://127.0.0.1:{port}"
        server_url = base if server == "self" else server
        environment = _environment(php, home / "code", folder, server_url)
        titles = tuple((home / "titles.txt").read_text().splitlines())
        with ExitStack() as serving:

            def start() -> None:
                serving.close()
                serving.enter_context(_served(php, home / "code", port, environment))

            start()
            yield RunningWiki(port, base, home / "code", folder, titles, php, start)


def wiki_template(version: MediaWikiVersion = MACHINES) -> Path:
    """Return the folder of the installed and filled wiki, made on the first call (about a minute).

    Raises:
        SiteUnavailableError: PHP is missing, or a step failed.
    """
    if version != MACHINES:
        php = php_of(version)
        recipe = f"1 {_EXTENSIONS} {_SETTINGS} {version}"

        def build(home: Path) -> None:
            _build_empty(home, version, php)

        return built(f"wiki-{version.number}", recipe, build)
    recipe = f"6 {_EXTENSIONS} {_SETTINGS} {ARTICLES} {LENGTH} {INFOBOX} {WEBCITE} {library().root.name}"
    return built("mediawiki", recipe, _build)


def _build(home: Path) -> None:
    php = php_of(MACHINES)
    folder = _build_empty(home, MACHINES, php)
    code = home / "code"
    pages = articles(library().root / "handbook")
    _import(php, code, folder, pages)
    _maintain(php, code, folder, "runJobs.php", "--quiet")
    ordinary = [page.title for page in pages if ":" not in page.title]
    (home / "titles.txt").write_text("\n".join(ordinary))


def _build_empty(home: Path, version: MediaWikiVersion, php: PhpCommand) -> Path:
    code = home / "code"
    _unpack_code(home, code, version)
    folder = home / "wiki"
    for name in ("data", "images", "cache", "settings.d"):
        (folder / name).mkdir(parents=True)
    _install(php, code, folder)
    (home / "titles.txt").touch()
    return folder


def _unpack_code(home: Path, code: Path, version: MediaWikiVersion) -> None:
    """Fetch MediaWiki and turn Debian's layout, made of links into the system, into one folder."""
    tree = home / "tree"
    tree.mkdir()
    unpack_version(version, tree)
    (tree / "usr/share/mediawiki").rename(code)
    shutil.rmtree(tree)
    for link in ("LocalSettings.php", "config", "extensions", "images"):
        (code / link).unlink(missing_ok=True)
    for extension in (code / "extensions-core").iterdir():
        if extension.is_dir() and extension.name not in _EXTENSIONS:
            shutil.rmtree(extension)
    (code / "extensions-core").rename(code / "extensions")
    (code / "images").mkdir()


def _install(php: PhpCommand, code: Path, folder: Path) -> None:
    _run_php(
        php,
        code,
        folder,
        str(code / "maintenance/install.php"),
        *("--dbtype", "sqlite", "--dbpath", str(folder / "data"), "--confpath", str(folder)),
        *("--server", f"http://{hosts.WIKI}", "--scriptpath", "", "--lang", "en"),
        *("--pass", PASSWORD, "--skins", "Vector", "The library", ADMIN),
    )
    settings = folder / "LocalSettings.php"
    settings.write_text(settings.read_text() + _SETTINGS)


def _import(php: PhpCommand, code: Path, folder: Path, pages: list[WikiArticle]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        pictures = Path(scratch) / "pictures"
        texts = Path(scratch) / "texts"
        pictures.mkdir()
        texts.mkdir()
        for picture in {picture for page in pages for picture in page.pictures}:
            shutil.copyfile(picture, pictures / picture.name)
        _maintain(php, code, folder, "importImages.php", "--user", ADMIN, str(pictures))
        for page in pages:
            # importTextFiles.php takes the title from the name; a slash or colon would be lost.
            edit = ("edit.php", "--user", ADMIN, "--no-rc", page.title)
            _maintain(php, code, folder, *edit, text=page.text)


def _maintain(php: PhpCommand, code: Path, folder: Path, script: str, *arguments: str, text: str = "") -> str:
    settings = str(folder / "LocalSettings.php")
    path = str(code / "maintenance" / script)
    return _run_php(php, code, folder, path, "--conf", settings, *arguments, text=text)


def _run_php(php: PhpCommand, code: Path, folder: Path, *arguments: str, text: str = "") -> str:
    done = subprocess.run(
        [*php.command, *arguments],
        cwd=code,
        env=_environment(php, code, folder, ""),
        input=text,
        capture_output=True,
        text=True,
        timeout=STEP_LIMIT_S,
        check=False,
    )
    if done.returncode:
        output = (done.stdout + done.stderr).strip()
        raise SiteUnavailableError(f"{Path(arguments[0]).name} failed:\n{output[:2_000]}")
    return done.stdout


def _environment(php: PhpCommand, code: Path, folder: Path, server: str) -> dict[str, str]:
    ours = {"WIKI_CODE": str(code), "WIKI_FOLDER": str(folder), "WIKI_SERVER": server}
    return {**os.environ, **php.environment, **ours, "PHP_CLI_SERVER_WORKERS": str(WORKERS)}


@contextmanager
def _served(php: PhpCommand, code: Path, port: int, environment: dict[str, str]) -> Iterator[None]:
    """Run PHP's server, with all its workers, until the block ends or this process does."""
    # The shell reads the pipe that only this process holds: when it closes, the group ends.
    command = [*php.command, "-q", "-S", f"127.0.0.1:{port}", "-t", str(code), str(_ROUTER)]
    guard = '"$@" </dev/null >/dev/null 2>&1 & read -r _; kill -TERM 0'
    process = subprocess.Popen(
        ["sh", "-c", guard, "sh", *command], env=environment, stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        _await_answer(port)
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        wait_until(lambda: not _has_processes(process.pid))  # the workers end after the shell


def _has_processes(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _await_answer(port: int) -> None:
    """Wait until the wiki answers; its first answer also warms its caches."""
    pause = Event()
    message = ""
    for _ in range(int(START_LIMIT_S * 10)):
        try:
            url = f"http://127.0.0.1:{port}/api.php?action=query&meta=siteinfo&format=json"
            with urllib.request.urlopen(url, timeout=START_LIMIT_S) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            with error:
                message = error.read(2_000).decode("utf-8", "replace")
            break
        except OSError as error:
            message = str(error)
            pause.wait(0.1)
        else:
            return
    raise SiteUnavailableError(f"The wiki did not start: {message}")
