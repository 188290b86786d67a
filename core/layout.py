"""Paths of files inside a collection, and names that may be part of one."""

import re
from dataclasses import dataclass
from pathlib import Path

from core.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def check_name(name: str, *, of: str, limit: int) -> str:
    """The name, which may be a part of a path.

    Args:
        name: as given.
        of: whose, for the error: ``a crawl``.
        limit: its most characters.

    Raises:
        InputError: it is no name.
    """
    if len(name) > limit or not _NAME.fullmatch(name):
        raise InputError(
            f"{name[:limit]!r} is no name for {of}: letters, digits, dots, hyphens and underscores, "
            f"at most {limit}."
        )
    return name


COLLECTION_VERSION = 1
OPEN_SUFFIX = ".open"
CRAWL_LOG = "crawl.jsonl"
# P-20: no separators, no schemes, no hidden files.
_WARC_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,250}\.warc(?:\.gz)?", re.ASCII)


def is_warc_name(text: str) -> bool:
    """True for what may name a WARC inside ``archive/``: an index can be poisoned.

    >>> is_warc_name("weboid-1.warc.gz"), is_warc_name("../weboid-1.warc.gz"), is_warc_name(".warc")
    (True, False, False)
    """
    return _WARC_NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders and files of the collection at `root`."""

    root: Path

    @property
    def archive(self) -> Path:
        """WARCs: captures and, beside them, ``artifacts-*``."""
        return self.root / "archive"

    @property
    def checksums(self) -> Path:
        """A line for each closed WARC, as ``sha256sum -c`` reads it."""
        return self.archive / "SHA256SUMS"

    @property
    def damaged(self) -> Path:
        """What recovery could not use: kept, and read by nobody."""
        return self.archive / "damaged"

    @property
    def databases(self) -> Path:
        """SQLite files, one a store."""
        return self.root / "db"

    @property
    def captures_db(self) -> Path:
        """The captures index (`warc.index.schema`)."""
        return self.databases / "captures.sqlite"

    @property
    def owners(self) -> Path:
        """Names of the processes that claim payloads in a shared dedup index, locked while they live."""
        return self.databases / "owners"

    @property
    def proxies(self) -> Path:
        """A file for each proxy of a cluster, locked while it lives (`proxy.presence`)."""
        return self.databases / "proxies"

    @property
    def frontier_db(self) -> Path:
        """The frontier."""
        return self.databases / "frontier.sqlite"

    @property
    def decisions_db(self) -> Path:
        """Take-downs, levels and verdicts (`playback.decisions`)."""
        return self.databases / "decisions.sqlite"

    @property
    def links_db(self) -> Path:
        """The link registry (`links.store`)."""
        return self.databases / "links.sqlite"

    @property
    def made(self) -> Path:
        """Copies that playback made safe, to be made again when they are not there."""
        return self.root / "cache" / "playback"

    @property
    def url_lists(self) -> Path:
        """Files of lists of bad addresses, beside the decisions."""
        return self.databases / "lists"

    @property
    def quality_pictures(self) -> Path:
        """Pictures of checks that found something, as `core.playback_check.picture_name` names them."""
        return self.root / "cache" / "quality"

    @property
    def ca(self) -> Path:
        """The proxy's certificate authority and host certificates."""
        return self.root / "ca"

    @property
    def logins(self) -> Path:
        """What `weboid login` made, a file each, encrypted."""
        return self.root / "logins"

    @property
    def reports(self) -> Path:
        """What commands write for people."""
        return self.root / "reports"

    @property
    def quality_baselines(self) -> Path:
        """How playback showed samples of pages before upgrades, a folder each."""
        return self.reports / "quality"

    @property
    def recovery_report(self) -> Path:
        """What was done to WARCs that a crash had interrupted: a JSON object a line."""
        return self.reports / "recovered.jsonl"

    @property
    def crawl_log(self) -> Path:
        """What came of each attempt at a page: a JSON object a line; older ones beside it."""
        return self.reports / CRAWL_LOG

    @property
    def marker(self) -> Path:
        """``collection.toml``: version and name."""
        return self.root / "collection.toml"

    @property
    def lock(self) -> Path:
        """Held by the one process that writes the collection."""
        return self.root / ".lock"

    def warc(self, filename: str) -> tuple[Path, Path]:
        """Where the WARC of that final name may lie: closed, or still open."""
        closed = self.archive / filename
        return closed, closed.with_name(closed.name + OPEN_SUFFIX)
