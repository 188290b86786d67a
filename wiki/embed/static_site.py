"""Static site: a folder of HTML files, marked in place or into another folder.

Only changed files are written, each atomically. Links that lead out of the folder are never followed.
"""

import os
import re
import shutil
import stat
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from urllib.parse import quote

from core.errors import InputError
from warc.local_storage import replacing_file
from wiki.embed.link_lookup import URLS_AT_ONCE, CopyDisplay, LinkAnswer, LinkLookup, PageLocation
from wiki.embed.page_marker import MarkablePage, MarkRules, insert_marks, read_page, remove_marks

HTML_SUFFIXES = frozenset((".html", ".htm"))
FILE_LIMIT_BYTES = 64 << 20
_SCRATCH = re.compile(r"(?:.*/)?\.[^/]+\.[0-9a-f]{8}\.new", re.DOTALL)  # files of `replacing_file`, after a crash
_BATCH_BYTES = 32 << 20
_BATCH_FILES = 200
_INDEX = ("index.html", "index.htm")


@dataclass(frozen=True)
class MarkOptions:
    """Options for marking pages."""

    wiki: str  # name under which the front knows the pages: ``handbook@me``
    show: CopyDisplay = CopyDisplay.ALWAYS  # links that get a link to their copy
    rules: MarkRules = field(default_factory=MarkRules)  # selection of links
    base: str = ""  # address of the site's root folder; empty when unknown
    own: tuple[str, ...] = ()  # hosts whose pages are not citations
    fronts: tuple[str, ...] = ()  # origins of this archive
    replace: bool = True  # replace existing marks by current ones; otherwise they stay
    language: str = ""  # of the links to copies; empty: English

    def around(self, name: str = "") -> PageLocation:
        """Return the location of a page by its path below the root, with slashes."""
        return PageLocation(f"{self.base.rstrip('/')}/{site_path(name)}" if self.base else "", self.own, self.fronts)

    def read(self, data: bytes, around: PageLocation, charset: str = "") -> MarkablePage:
        """Find the links of a page to be marked."""
        return read_page(remove_marks(data) if self.replace else data, around, rules=self.rules, charset=charset)

    def insert(self, page: MarkablePage, answers: Mapping[str, LinkAnswer]) -> bytes:
        """Return the page with marks for the answers."""
        return insert_marks(page, answers, self.show, self.language)


def site_path(name: str) -> str:
    """Return the URL path of a file below its site's root.

    >>> site_path("guide/first steps/index.html")
    'guide/first%20steps/'
    """
    folder, slash, last = name.rpartition("/")
    return quote(folder + slash if last in _INDEX else name, safe="/", errors="surrogateescape")


def site_title(name: str) -> str:
    """Return a file's display title: its path, for an index page that of its folder.

    >>> site_title("guide/first steps/index.html"), site_title("index.html")
    ('guide/first steps/', '/')
    """
    folder, slash, last = name.rpartition("/")
    title = folder + slash if last in _INDEX else name
    return title.encode("utf-8", "surrogateescape").decode("utf-8", "replace") or "/"


async def mark_page(data: bytes, marking: MarkOptions, lookup: LinkLookup) -> tuple[bytes, bool]:
    """Return one page marked, and True if the lookup succeeded; otherwise the page is unchanged."""
    page = marking.read(data, marking.around())
    urls = page.urls()
    answers = await lookup.ask(marking.wiki, urls)
    if len(answers) < len(urls):
        return data, False
    return marking.insert(page, answers), True


@dataclass(slots=True)
class SiteMarkResult:
    """Result of marking a folder."""

    pages: int = 0  # HTML files read
    links: int = 0  # links that can be marked, on all of them
    changed: list[str] = field(default_factory=list)  # pages written; with `--check`, to write
    copied: int = 0  # other files written into the other folder
    unanswered: int = 0  # pages left unchanged because the front did not answer
    passed_over: dict[str, str] = field(default_factory=dict)  # unreadable, too large or changed


@dataclass(frozen=True, slots=True)
class _SiteFile:
    name: str
    path: Path
    facts: os.stat_result
    data: bytes
    page: MarkablePage


class StaticSite:
    """Folder of HTML files."""

    def __init__(self, root: Path, marking: MarkOptions, prefix: Path | None = None) -> None:
        """Open the folder or file; `prefix`: of the names in results. Raises InputError: it does not exist."""
        if not root.exists():
            raise InputError(f"{root} does not exist.")
        self._root = root if root.is_dir() else root.resolve()
        self._marking = marking
        self._prefix = prefix

    def names(self) -> list[str]:
        """List all files and links to files, as paths below the folder, in order."""
        if not self._root.is_dir():
            return [""]
        names = []
        for folder, below, files in os.walk(self._root):
            below.sort()
            links = [each for each in below if Path(folder, each).is_symlink()]
            names += [os.path.relpath(Path(folder, each), self._root) for each in (*files, *links)]
        return sorted(name.replace(os.sep, "/") for name in names if not _SCRATCH.fullmatch(name))

    async def mark(
        self, names: list[str], lookup: LinkLookup, *, target: Path | None, write: bool, done: SiteMarkResult
    ) -> AsyncIterator[None]:
        """Mark files in place or in a `target` folder; add to the result `done`, and yield after each batch."""
        for batch in self._batches(names, done, target if write else None):
            urls = list(dict.fromkeys(url for each in batch for url in each.page.urls()))
            answers = await lookup.ask(self._marking.wiki, urls)
            for each in batch:
                done.pages += 1
                done.links += len(each.page.links)
                is_answered = all(url in answers for url in each.page.urls())
                done.unanswered += not is_answered
                data = self._marking.insert(each.page, answers) if is_answered else each.data
                self._put(each, data, target, done, write=write)
            yield

    def pages(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each page's name and the distinct addresses that it cites."""
        done = SiteMarkResult()
        for name in self.names():
            if (page := self._read(name, done)) is not None:
                yield name, page.page.urls()
        self.passed_over = done.passed_over

    def _batches(self, names: list[str], done: SiteMarkResult, target: Path | None) -> Iterator[list[_SiteFile]]:
        batch: list[_SiteFile] = []
        size = urls = 0
        for name in names:
            page = self._read(name, done)
            if page is None:
                if target is not None and _copied(self._root / name, target / name, self._root):
                    done.copied += 1
                continue
            batch.append(page)
            size += len(page.data)
            urls += len(page.page.urls())
            if urls >= URLS_AT_ONCE or size >= _BATCH_BYTES or len(batch) >= _BATCH_FILES:
                yield batch
                batch, size, urls = [], 0, 0
        if batch:
            yield batch

    def _read(self, name: str, done: SiteMarkResult) -> _SiteFile | None:
        path = self._root / name if name else self._root
        if path.suffix.lower() not in HTML_SUFFIXES or path.is_symlink():
            return None
        try:
            facts = path.stat()
            if not stat.S_ISREG(facts.st_mode):
                return None
            if facts.st_size > FILE_LIMIT_BYTES:
                done.passed_over[self._label(name)] = f"it is larger than {FILE_LIMIT_BYTES >> 20} MB"
                return None
            data = path.read_bytes()
        except OSError as error:
            done.passed_over[self._label(name)] = str(error.strerror)
            return None
        return _SiteFile(name, path, facts, data, self._marking.read(data, self._marking.around(name or path.name)))

    def _label(self, name: str) -> str:
        if self._prefix is None:
            return name or self._root.name
        return str(self._prefix / name if name else self._prefix)

    def _put(self, each: _SiteFile, data: bytes, target: Path | None, done: SiteMarkResult, *, write: bool) -> None:
        path = each.path if target is None else target / (each.name or each.path.name)
        with suppress(OSError):  # it is not there yet
            if data == (each.data if target is None else path.read_bytes()):
                return
        moment = attrgetter("st_mtime_ns", "st_size", "st_ino")
        try:
            if write and target is None and moment(each.path.stat()) != moment(each.facts):
                done.passed_over[self._label(each.name)] = "another program changed it meanwhile; run this again"
                return
            if write:
                # With the mode and modification time of the original page. Servers derive file versions
                # from time and size: when the size is unchanged, the time is changed.
                before = path.stat().st_size if path.exists() else -1
                path.parent.mkdir(parents=True, exist_ok=True)
                with replacing_file(path, mode=0o600) as scratch:
                    scratch.write_bytes(data)
                    scratch.chmod(stat.S_IMODE(each.facts.st_mode))
                    if before != len(data):
                        os.utime(scratch, ns=(each.facts.st_atime_ns, each.facts.st_mtime_ns))
        except OSError as error:
            done.passed_over[self._label(each.name)] = str(error.strerror)
        else:
            done.changed.append(self._label(each.name))


def page_number(name: str) -> int:
    """Return a stable page number derived from the name.

    >>> page_number("guide/index.html") == page_number("guide/index.html") > 0
    True
    """
    digest = blake2b(name.encode("utf-8", "surrogateescape"), digest_size=5).digest()
    return int.from_bytes(digest, "big") or 1  # as large as the registry's numbers may be


def _copied(source: Path, path: Path, root: Path) -> bool:
    """Copy a file that is not a page, unless it exists or is a link out of the folder; return True if written."""
    if source.is_symlink():
        inside = source.resolve().is_relative_to(root.resolve())
        if not inside or source.readlink().is_absolute() or path.is_symlink():
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(source.readlink())
        return True
    facts = source.stat()
    if not stat.S_ISREG(facts.st_mode):
        return False
    if path.exists() and (copy := path.stat()).st_size == facts.st_size and copy.st_mtime_ns == facts.st_mtime_ns:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path, mode=0o600) as scratch:
        shutil.copy2(source, scratch)
    return True
