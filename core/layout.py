"""Paths of files inside a collection, valid names of path components, and URIs of SQLite files."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from core.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def check_name(name: str, *, of: str, limit: int) -> str:
    """Return the name if it is valid in a path; InputError names what it is `of`: ``a crawl``."""
    if len(name) > limit or not _NAME.fullmatch(name):
        raise InputError(
            f"{name[:limit]!r} is not a name for {of}: use letters, digits, dots, hyphens and underscores, at most {limit}."
        )
    return name


COLLECTION_VERSION = 1
CONFIG_FILE = "weboid.toml"  # of a collection
OPEN_SUFFIX = ".open"
CRAWL_LOG = "crawl.jsonl"
CA_FILE = "weboid-ca.pem"  # in `Layout.ca`: certificate of the proxy's authority
# P-20: no separators, no schemes, no hidden files.
_WARC_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,250}\.warc(?:\.gz)?", re.ASCII)


def is_warc_name(text: str) -> bool:
    """Return True for a valid WARC name inside ``archive/``; names from an index are untrusted.

    >>> is_warc_name("weboid-1.warc.gz"), is_warc_name("../weboid-1.warc.gz"), is_warc_name(".warc")
    (True, False, False)
    """
    return _WARC_NAME.fullmatch(text) is not None


class _CollectionPath:
    """Path within a collection, as an attribute of its `Layout`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, layout: "Layout", _: type) -> Path:
        return layout.root / self._path


@dataclass(frozen=True, slots=True)
class Layout:
    """Folders and files of the collection at `root`."""

    root: Path
    archive = _CollectionPath("archive")  # WARCs: captures and ``artifacts-*``
    checksums = _CollectionPath("archive/SHA256SUMS")  # checksums of closed WARCs, for ``sha256sum -c``
    checksum_chain = _CollectionPath("archive/SHA256SUMS.chain")  # its lines as a hash chain (`warc.checksums`)
    damaged = _CollectionPath("archive/damaged")  # data that recovery could not use
    databases = _CollectionPath("db")  # SQLite files, one per store
    captures_db = _CollectionPath("db/captures.sqlite")  # captures index (`warc.index.database`)
    texts_db = _CollectionPath("db/texts.sqlite")  # full-text index (`warc.text_index.store`)
    owners = _CollectionPath("db/owners")  # lock files of processes with claims in a shared dedup index
    proxies = _CollectionPath("db/proxies")  # lock files of a cluster's proxies (`proxy.process`)
    frontier_db = _CollectionPath("db/frontier.sqlite")
    decisions_db = _CollectionPath("db/decisions.sqlite")  # take-downs, levels and verdicts
    console_db = _CollectionPath("db/console.sqlite")  # accounts of the console (`weboid.console.accounts`)
    links_db = _CollectionPath("db/links.sqlite")  # link registry (`links.store`)
    webhooks_db = _CollectionPath("db/webhooks.sqlite")  # deliveries (`weboid.app.webhooks.webhook_store`)
    incoming = _CollectionPath("incoming")  # files that the console may import
    made = _CollectionPath("cache/playback")  # sanitised copies
    url_lists = _CollectionPath("db/lists")  # lists of bad addresses
    quality_pictures = _CollectionPath("cache/quality")  # `core.playback_check.picture_name`
    ca = _CollectionPath("ca")  # the proxy's certificate authority and host certificates
    logins = _CollectionPath("logins")  # encrypted logins of `weboid login`, one file each
    reports = _CollectionPath("reports")  # reports that commands write for people
    quality_baselines = _CollectionPath("reports/quality")  # playback samples from before upgrades
    recovery_report = _CollectionPath("reports/recovered.jsonl")  # recovered WARCs: one JSON object per line
    crawl_log = _CollectionPath(f"reports/{CRAWL_LOG}")  # one JSON object per line for each attempt
    marker = _CollectionPath("collection.toml")  # version and name
    lock = _CollectionPath(".lock")  # of the process that writes the collection

    def warc(self, filename: str) -> tuple[Path, Path]:
        """Return the possible paths of the WARC of that final name: closed, and still open."""
        closed = self.archive / filename
        return closed, closed.with_name(closed.name + OPEN_SUFFIX)


def is_frozen(path: Path) -> bool:
    """Return True for a file in a folder that is not writable, unless a log file shows a writer."""
    return not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()


def read_only_uri(path: Path) -> str:
    """Return SQLite's URI of the file for reading; immutable where no lock file for WAL mode can be made."""
    query = "mode=ro&immutable=1" if is_frozen(path) else "mode=ro"
    return f"{path.absolute().as_uri()}?{query}"
