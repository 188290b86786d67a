"""Paths of files inside a collection, and valid names of path components."""

import re
from dataclasses import dataclass
from pathlib import Path

from core.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def check_name(name: str, *, of: str, limit: int) -> str:
    """Return the name if it is valid in a path.

    `of` is the kind of name, for the error: ``a crawl``. Raises InputError if it is no valid name.
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
    """Return True for a valid WARC name inside ``archive/``; names from an index are untrusted.

    >>> is_warc_name("weboid-1.warc.gz"), is_warc_name("../weboid-1.warc.gz"), is_warc_name(".warc")
    (True, False, False)
    """
    return _WARC_NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Layout:
    """Folders and files of the collection at `root`."""

    root: Path

    @property
    def archive(self) -> Path:
        """Return the folder of WARCs: captures and ``artifacts-*``."""
        return self.root / "archive"

    @property
    def checksums(self) -> Path:
        """Return the checksum file of closed WARCs, as ``sha256sum -c`` reads it."""
        return self.archive / "SHA256SUMS"

    @property
    def damaged(self) -> Path:
        """Return the folder of data that recovery could not use."""
        return self.archive / "damaged"

    @property
    def databases(self) -> Path:
        """Return the folder of SQLite files, one per store."""
        return self.root / "db"

    @property
    def captures_db(self) -> Path:
        """Return the captures index (`warc.index.schema`)."""
        return self.databases / "captures.sqlite"

    @property
    def owners(self) -> Path:
        """Return the folder of lock files of processes that claim payloads in a shared dedup index."""
        return self.databases / "owners"

    @property
    def proxies(self) -> Path:
        """Return the folder of lock files of a cluster's proxies (`proxy.presence`)."""
        return self.databases / "proxies"

    @property
    def frontier_db(self) -> Path:
        """Return the frontier's database."""
        return self.databases / "frontier.sqlite"

    @property
    def decisions_db(self) -> Path:
        """Return the database of take-downs, levels and verdicts (`playback.decisions`)."""
        return self.databases / "decisions.sqlite"

    @property
    def links_db(self) -> Path:
        """Return the link registry (`links.store`)."""
        return self.databases / "links.sqlite"

    @property
    def made(self) -> Path:
        """Return the cache folder of sanitised copies."""
        return self.root / "cache" / "playback"

    @property
    def url_lists(self) -> Path:
        """Return the folder of lists of bad addresses."""
        return self.databases / "lists"

    @property
    def quality_pictures(self) -> Path:
        """Return the folder of pictures of checks with faults (`core.playback_check.picture_name`)."""
        return self.root / "cache" / "quality"

    @property
    def ca(self) -> Path:
        """Return the folder of the proxy's certificate authority and host certificates."""
        return self.root / "ca"

    @property
    def logins(self) -> Path:
        """Return the folder of encrypted logins of `weboid login`, one file each."""
        return self.root / "logins"

    @property
    def reports(self) -> Path:
        """Return the folder of reports that commands write for people."""
        return self.root / "reports"

    @property
    def quality_baselines(self) -> Path:
        """Return the folder of playback samples from before upgrades, one folder each."""
        return self.reports / "quality"

    @property
    def recovery_report(self) -> Path:
        """Return the log of recovered WARCs: one JSON object per line."""
        return self.reports / "recovered.jsonl"

    @property
    def crawl_log(self) -> Path:
        """Return the crawl log: one JSON object per line for each attempt; rotated ones are next to it."""
        return self.reports / CRAWL_LOG

    @property
    def marker(self) -> Path:
        """Return ``collection.toml``: version and name."""
        return self.root / "collection.toml"

    @property
    def lock(self) -> Path:
        """Return the lock file of the process that writes the collection."""
        return self.root / ".lock"

    def warc(self, filename: str) -> tuple[Path, Path]:
        """Return the possible paths of the WARC of that final name: closed, and still open."""
        closed = self.archive / filename
        return closed, closed.with_name(closed.name + OPEN_SUFFIX)
