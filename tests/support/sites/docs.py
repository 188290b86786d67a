"""Debian's manuals as a static site: hundreds of real pages, pictures, and PDFs."""

import gzip
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.support.sites.cache import SiteUnavailableError, built, copy_followed, unpack_packages

# What a release of Debian does not have is left out; the rest still makes a library.
PACKAGES = ("debian-handbook", "debian-policy", "debian-reference-en", "developers-reference", "maint-guide")
ENOUGH_PAGES = 100

# shelf -> the folders where a release may keep that manual
_SHELVES = {
    "handbook": ("usr/share/doc/debian-handbook/html/en-US",),
    "policy": ("usr/share/doc/debian-policy/policy.html",),
    "reference": ("usr/share/debian-reference",),
    "developers": (
        "usr/share/developers-reference",
        "usr/share/doc/developers-reference/html",
        "usr/share/doc/developers-reference",
    ),
    "maintainers": ("usr/share/doc/maint-guide/html",),
}
_PDFS = "*.pdf*"


@dataclass(frozen=True, slots=True)
class ManualLibrary:
    """The manuals.

    Attributes:
        root: the folder to serve: one folder a manual, and ``pdf/``.
        pages: the paths of the HTML pages, sorted, each shelf's in turn.
        pdfs: the paths of the PDFs.
    """

    root: Path
    pages: tuple[str, ...]
    pdfs: tuple[str, ...]


def library() -> ManualLibrary:
    """Return the manuals, fetched and arranged on the first call.

    Raises:
        SiteUnavailableError: apt could not deliver them.
    """
    recipe = f"3 {PACKAGES} {sorted(_SHELVES.items())}"
    root = built("docs", recipe, _build)
    shelves = [sorted(f"/{path.relative_to(root)}" for path in (root / shelf).glob("*.html")) for shelf in _SHELVES]
    pdfs = sorted(f"/pdf/{path.name}" for path in (root / "pdf").iterdir())
    return ManualLibrary(root, tuple(path for shelf in shelves for path in shelf), tuple(pdfs))


def _build(folder: Path) -> None:
    tree = folder / "tree"
    tree.mkdir()
    unpack_packages(PACKAGES, tree, optional=True)
    # Sphinx manuals link to scripts that lie in a package of their own.
    unpack_packages(("libjs-sphinxdoc", "libjs-jquery", "libjs-underscore"), tree, optional=True)
    (folder / "pdf").mkdir()
    for path in sorted(tree.rglob(_PDFS)):
        _keep_pdf(path, folder / "pdf")
    for shelf, places in _SHELVES.items():
        source = next((tree / place for place in places if any((tree / place).glob("*.html"))), None)
        if source is not None:
            copy_followed(source, folder / shelf, tree)
    shutil.rmtree(tree)
    count = sum(1 for _ in folder.glob("*/*.html"))
    if count < ENOUGH_PAGES:
        raise SiteUnavailableError(f"Debian's manuals gave only {count} pages.")


def _keep_pdf(path: Path, shelf: Path) -> None:
    if path.is_symlink() or "images" in path.parts:
        return
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if data.startswith(b"%PDF"):
        (shelf / path.name.removesuffix(".gz")).write_bytes(data)
