"""The versions of MediaWiki that there are tests with, out of releases of Debian, and their PHP."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.sites.cache import SiteUnavailableError, built, unpack_packages
from tests.support.sites.debian import apt_of

_PACKAGES = ("mediawiki", "mediawiki-classes")


@dataclass(frozen=True, slots=True)
class MediaWikiVersion:
    """A version of MediaWiki.

    Attributes:
        number: e.g. ``1.43``; empty: whatever the machine's own Debian has.
        release: the release of Debian that it is taken from; empty: the machine's.
        php: the PHP that it needs, from the same release; empty: the machine's.
    """

    number: str = ""
    release: str = ""
    php: str = ""

    def __str__(self) -> str:
        """Return the number, or ``own`` for the machine's, to name a test by."""
        return self.number or "own"


@dataclass(frozen=True, slots=True)
class PhpCommand:
    """Command that starts PHP, and its environment."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


MACHINES = MediaWikiVersion()
# The oldest that the API's clients are for, with the oldest PHP that it runs with; and a later one.
OLDEST = MediaWikiVersion("1.35", "bullseye", "7.4")
LATER = MediaWikiVersion("1.43", "trixie")
OTHERS = (OLDEST, LATER)

_PHP_MODULES = (
    *("json", "ctype", "dom", "fileinfo", "iconv", "intl", "mbstring", "pdo", "pdo_sqlite"),
    *("phar", "posix", "simplexml", "sockets", "tokenizer", "xml", "xmlreader", "xmlwriter"),
)
_PHP_PARTS = ("cli", "common", "intl", "json", "mbstring", "opcache", "sqlite3", "xml")
_PHP_LIBRARIES = (
    *("libargon2-1", "libedit2", "libicu67", "libmagic1", "libonig5", "libpcre2-8-0"),
    *("libsodium23", "libsqlite3-0", "libssl1.1", "libxml2"),
)


def unpack_version(version: MediaWikiVersion, tree: Path) -> None:
    """Fetch this MediaWiki and unpack it as Debian lays it out.

    Raises:
        SiteUnavailableError: apt could not deliver it.
    """
    if not version.release:
        unpack_packages(_PACKAGES, tree)
        return
    with apt_of(version.release) as apt:
        unpack_packages(_PACKAGES, tree, apt=apt)


def php_of(version: MediaWikiVersion) -> PhpCommand:
    """Return the PHP that this MediaWiki runs with; that of another release is fetched on the first call.

    Raises:
        SiteUnavailableError: the machine has no PHP, or apt could not deliver it.
    """
    if not version.php:
        if shutil.which("php") is None:
            raise SiteUnavailableError("PHP is missing: run `make test`, which installs it.")
        return PhpCommand(("php",))
    packages = (*(f"php{version.php}-{part}" for part in _PHP_PARTS), *_PHP_LIBRARIES)

    def unpack(home: Path) -> None:
        with apt_of(version.release) as apt:
            unpack_packages(packages, home, apt=apt)

    home = built(f"php-{version.php}", f"1 {version} {packages}", unpack)
    (modules,) = (path.parent for path in home.glob("usr/lib/php/*/mbstring.so"))
    (library,) = (path.parent for path in home.glob("usr/lib/*/libonig.so.5"))
    # -n: not the machine's settings, which name modules of another PHP.
    command = [str(home / f"usr/bin/php{version.php}"), "-n", "-d", f"extension_dir={modules}"]
    command += ["-d", f"zend_extension={modules / 'opcache.so'}"]  # or each request compiles all
    for module in _PHP_MODULES:
        command += ["-d", f"extension={module}"]
    return PhpCommand(tuple(command), {"LD_LIBRARY_PATH": str(library)})
