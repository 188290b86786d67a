"""Cache of real sites between runs: fetched once, built once, never half.

Debian's packages are fetched with ``apt-get download`` and unpacked with ``dpkg -x``: nothing is
installed, no privilege is needed. Python's come as wheels, held to their hashes.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache" / "sites"
FETCH_LIMIT_S = 600.0  # a download or an unpacking that takes longer has hung


class SiteUnavailableError(Exception):
    """A real site could not be fetched or built; the text says what to do."""


def built(name: str, recipe: str, build: Callable[[Path], None]) -> Path:
    """Return the folder that `build` fills, built once for each `recipe`, by whichever process is first.

    A build that fails leaves nothing; two processes never build at once; folders of older recipes
    are removed.

    Raises:
        SiteUnavailableError: as `build` does.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / f"{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    with _locked(CACHE / f"{name}.lock"):
        if folder.is_dir():
            return folder
        for left_over in CACHE.glob(f"building-{name}-*"):
            shutil.rmtree(left_over)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=f"building-{name}-") as scratch:
            # A folder of its own: a TemporaryDirectory is private, and PHP or others must read it.
            work = Path(scratch) / "work"
            work.mkdir()
            build(work)
            for old in CACHE.glob(f"{name}-*"):
                shutil.rmtree(old)
            work.rename(folder)
    return folder


def unpack_packages(
    names: tuple[str, ...], into: Path, *, optional: bool = False, apt: tuple[str, ...] = ()
) -> list[str]:
    """Fetch Debian packages and unpack them into one tree; return the names that exist.

    Args:
        names: the packages.
        into: the tree.
        optional: a package that does not exist is left out.
        apt: options for apt, such as `tests.support.sites.debian.apt_of` gives.

    Raises:
        SiteUnavailableError: a package that is not `optional` does not exist, or a download failed.
    """
    known = [name for name in names if _candidate(name, apt)]
    if len(known) < len(names) and not optional:
        missing = ", ".join(sorted(set(names) - set(known)))
        raise SiteUnavailableError(f"apt knows no package {missing}: run `apt-get update`.")
    with tempfile.TemporaryDirectory(dir=into) as folder:
        # APT::Sandbox::User: as root, apt would give the download to a user who cannot write here.
        _run(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", *apt, "download", *known], cwd=folder)
        for package in sorted(Path(folder).glob("*.deb")):
            _run(["dpkg", "-x", str(package), str(into)], cwd=folder)
    return known


def unpack_wheels(requirements: str, into: Path) -> None:
    """Fetch the wheels that `requirements` pins with hashes, and unpack them into one tree.

    Raises:
        SiteUnavailableError: a download failed, or a wheel is not what was pinned.
    """
    with tempfile.TemporaryDirectory(dir=into) as folder:
        listing = Path(folder) / "requirements.txt"
        listing.write_text(requirements)
        _run(
            [
                sys.executable,
                *("-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"),
                *("--require-hashes", "--dest", folder, "-r", str(listing)),
            ],
            cwd=folder,
        )
        for wheel in sorted(Path(folder).glob("*.whl")):
            with ZipFile(wheel) as archive:
                archive.extractall(into)


def unpack_npm(names: tuple[str, ...], into: Path) -> None:
    """Fetch npm's packages, each with its version, and unpack what they are built of into one folder.

    Raises:
        SiteUnavailableError: a download failed.
    """
    into.mkdir()
    with tempfile.TemporaryDirectory(dir=into.parent) as folder:
        _run(["npm", "pack", "--silent", *names], cwd=folder)
        for package in sorted(Path(folder).glob("*.tgz")):
            _run(["tar", "-xzf", str(package)], cwd=folder)
            shutil.copytree(Path(folder) / "package" / "build", into, dirs_exist_ok=True)
            shutil.rmtree(Path(folder) / "package")


def copy_followed(source: Path, target: Path, tree: Path) -> None:
    """Copy a folder; a link becomes what it means inside `tree`, one to nowhere or in a circle is dropped."""
    target.mkdir(parents=True, exist_ok=True)
    folder = source.resolve()
    for path in sorted(source.iterdir()):
        real = _followed(path, tree)
        if real is None or not real.exists() or real.resolve() in (folder, *folder.parents):
            continue  # a link to nowhere, or to a folder that holds it
        if real.is_dir():
            copy_followed(real, target / path.name, tree)
        else:
            shutil.copyfile(real, target / path.name)


def _followed(path: Path, tree: Path) -> Path | None:
    """Return where a path leads inside the unpacked tree; None when nowhere."""
    for _ in range(8):
        if not path.is_symlink():
            return path
        target = path.readlink()
        path = tree / str(target).lstrip("/") if target.is_absolute() else path.parent / target
    return None


def _candidate(name: str, apt: tuple[str, ...]) -> bool:
    process = subprocess.run(["apt-cache", *apt, "--no-all-versions", "show", name], capture_output=True, check=False)
    return process.returncode == 0


def _run(command: list[str], *, cwd: str) -> None:
    try:
        subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=FETCH_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        message = getattr(error, "stderr", "") or str(error)
        raise SiteUnavailableError(f"{' '.join(command[:3])} failed: {message.strip()}") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
