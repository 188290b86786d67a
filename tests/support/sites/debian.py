"""Other releases of Debian than the machine's: their packages, by apt, beside the machine's own apt.

apt is given lists, sources and a state of its own in a temporary folder: it holds the release to
Debian's keyring and each package to the release's hashes, and the machine's configuration is
neither read for sources nor changed. No privilege is needed.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.apt_sources import AptSource, own_sources, read_sources
from tests.support.sites.cache import FETCH_LIMIT_S, SiteUnavailableError

_PUBLIC_ARCHIVE = re.compile(r'^DEF_MIRROR="(.+)"$', re.MULTILINE)  # in debootstrap, which is a script
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@contextmanager
def apt_of(release: str) -> Iterator[tuple[str, ...]]:
    """Yield the options that make apt see this release of Debian alone, until the block ends.

    Raises:
        SiteUnavailableError: Debian's keys are missing, or the release could not be read.
    """
    if not KEYRING.is_file():
        raise SiteUnavailableError(f"Debian's {release} cannot be verified: install debian-archive-keyring.")
    with tempfile.TemporaryDirectory(prefix="apt-") as scratch:
        folder = Path(scratch)
        options = _options(folder, mirror(Path("/etc")), release)
        command = ["apt-get", "-qq", *options, "update"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=FETCH_LIMIT_S)
        except (OSError, subprocess.SubprocessError) as error:
            message = (getattr(error, "stderr", "") or str(error)).strip()
            raise SiteUnavailableError(f"Debian's {release} could not be read: {message}") from error
        yield options


def mirror(etc: Path) -> str:
    """Return the URI of the Debian archive that the machine's apt is set to, or, on other distributions, the public one.

    Raises:
        SiteUnavailableError: apt names none, and debootstrap, which knows the public one, is missing.
    """
    text = (etc / "os-release").read_text() if (etc / "os-release").is_file() else ""
    facts = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    codename = facts.get("VERSION_CODENAME", "").strip('"')
    if facts.get("ID", "").strip('"') == "debian":
        for source in own_sources(read_sources(etc / "apt"), codename):
            if source.suite == codename:
                return source.uri
    script = etc.parent / "usr/sbin/debootstrap"
    public = _PUBLIC_ARCHIVE.search(script.read_text()) if script.is_file() else None
    if public is None:
        raise SiteUnavailableError("Where Debian's other releases are is not known: install debootstrap.")
    return public[1]


def _options(folder: Path, uri: str, release: str) -> tuple[str, ...]:
    for name in ("lists/partial", "cache/archives/partial", "none"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "preferences").touch()
    source = AptSource(uri, release, ("main",), str(KEYRING))
    (folder / "sources.list").write_text(f"{source}\n")
    settings = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": folder / "none",
        "Dir::Etc::preferences": folder / "preferences",
        "Dir::Etc::preferencesparts": folder / "none",
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",  # what is installed here is no candidate
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
        "Acquire::Retries": 3,
        "Acquire::AllowInsecureRepositories": "false",
        "APT::Get::AllowUnauthenticated": "false",
        "APT::Update::Error-Mode": "any",
        # As root, apt would give the download to a user who cannot write here.
        "APT::Sandbox::User": "root",
    }
    return tuple(part for name, value in settings.items() for part in ("-o", f"{name}={value}"))
