"""Listener for clients of warcprox, such as brozzler: its protocol, on an address of its own, without credentials.

`Warcprox-Meta` names the WARC, dedup buckets, blocks, limits and counters of a request and goes no further;
`WARCPROX_WRITE_RECORD` (or `PUTMETA`) writes a record, which is on disk when the answer comes; ``GET /status``
describes the service. A page in the client's browser cannot write records: browsers mark what scripts send. Tests
hold this module and stock warcprox to the same contract.
"""

import base64
import json
import logging
import os
import socket
import threading
import zlib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import re2
import urlcanon
from cachetools import LRUCache, cachedmethod

from core.captures import RecordType, parse_artifact_uri
from core.errors import WeboidError
from core.timestamps import from_unix_milliseconds
from net.http1 import BodyFraming, MalformedMessageError, RequestHead, request_framing
from proxy.archiving_proxy import MAX_CONNECTIONS, ArchivingProxy, ListenAddress, RecorderServer
from proxy.archivist import BACKLOG_RECORDS
from proxy.archivist_jobs import PendingArtifact
from proxy.browser_connection import ConnectionLostError
from proxy.exchange import NoResponseError, RecordedExchange, now_ms
from proxy.handler import ArchivingHandler
from proxy.request_log import RequestLogEntry, RequestOutcome
from proxy.visit_registry import VisitSession
from warc.local_storage import replace_file
from warc.writer import log_failure

log = logging.getLogger(__name__)

META_HEADER = b"warcprox-meta"
META_CACHE = 512  # parsed values of the header; a page's requests have the same
BLOCKS_LIMIT_BYTES = 16 << 20  # of compressed_blocks
PREFIX_LIMIT_CHARS = 200
SAVE_S = 1.0  # interval at which counters are written
SAMPLE_S = 10.0  # interval of the samples from which rates are computed
TTL_S = 60  # as warcprox announces itself: three heartbeats
NOT_ARCHIVED = "-"  # the prefix of captures that are relayed and not written
DEFAULT_PREFIX = "weboid"
_RECORD_METHODS = ("WARCPROX_WRITE_RECORD", "PUTMETA")
# Browsers add one of them to what a script sends with another method than GET and HEAD (Fetch, 3.2; Fetch Metadata).
_OF_PAGES = (b"origin", b"sec-fetch-site", b"sec-fetch-mode")
_KINDS = {"resource": RecordType.RESOURCE, "metadata": RecordType.METADATA}


class LimitRefusal(NamedTuple):
    """Answer to a request that a client's rule or limit refuses."""

    status: int
    phrase: str
    text: str
    meta: dict[str, Any]  # the Warcprox-Meta of the answer


@dataclass(eq=False, slots=True)
class CaptureCounters:
    """Requests and received bytes by bucket, as warcprox counts them; in a file that `save` writes. Thread-safe."""

    path: Path
    _buckets: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _is_saved: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        try:
            self._buckets = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            log.warning("warcprox.counters_lost path=%s error=%s", self.path, error)

    def add(self, buckets: Iterable[str], size: int, kind: str) -> None:
        """Count a capture of `size` bytes in each bucket: in its total, and as ``new`` or ``revisit``."""
        with self._lock:
            self._is_saved = False
            for bucket in buckets:
                if (counts := self._buckets.get(bucket)) is None:
                    empty = {name: {"urls": 0, "wire_bytes": 0} for name in ("total", "new", "revisit")}
                    counts = self._buckets[bucket] = {"bucket": bucket, **empty}
                for name in ("total", kind) if kind else ("total",):
                    counts[name]["urls"] += 1
                    counts[name]["wire_bytes"] += size

    def bucket(self, name: str) -> dict[str, Any] | None:
        """Return a copy of the bucket's counters; None for an unknown one."""
        with self._lock:
            bucket = self._buckets.get(name)
            return None if bucket is None else json.loads(json.dumps(bucket))

    def save(self) -> None:
        """Write the counters to their file if they have changed."""
        with self._lock:
            if self._is_saved:
                return
            text, self._is_saved = json.dumps(self._buckets), True
        try:
            replace_file(self.path, text, mode=0o600)
        except OSError as error:  # they stay in memory, and are written with the next change
            log_failure(log, "warcprox.counters_unwritten", error)


class MetaRules:
    """Rules of a parsed Warcprox-Meta header for its requests. Raises MalformedMessageError if it is not valid."""

    def __init__(self, server: "WarcproxServer", value: bytes) -> None:
        self._server = server
        try:
            self._parse(json.loads(value) if value.strip() else {})
        except (ValueError, TypeError, AttributeError, KeyError, zlib.error, re2.error) as error:
            raise MalformedMessageError(f"Warcprox-Meta cannot be read: {error!r}.") from error

    def _parse(self, meta: Any) -> None:
        self.prefix = str(meta.get("warc-prefix", DEFAULT_PREFIX))
        unsafe = "/" in self.prefix or "\\" in self.prefix or self.prefix.startswith(".")
        if unsafe or not self.prefix.isprintable() or not 0 < len(self.prefix) <= PREFIX_LIMIT_CHARS:
            raise MalformedMessageError("Slash and backslash are not permitted in warc-prefix; it names a file.")
        # Former names of a bucket are counted as the bucket.
        one = meta.get("dedup-bucket", meta.get("captures-bucket"))
        buckets = meta.get("dedup-buckets", {}) if one is None else {str(one): "rw"}
        written = [name for name, mode in buckets.items() if mode == "rw"]
        self.bucket = written[0] if written else "" if buckets else self._server.exchanges.settings.dedup_bucket
        self.also = tuple(name for name in buckets if name != self.bucket)
        if not buckets:
            self.also = self._server.exchanges.settings.dedup_also
        # Counters: (name, domains that have further ones).
        named = ["__all__", *meta.get("stats", {}).get("buckets", ["__unspecified__"])]
        counted = [each if isinstance(each, dict) else {"bucket": each} for each in named]
        self._buckets = tuple(
            (str(each["bucket"]), tuple(map(_canonical_host, each.get("tally-domains", ())))) for each in counted
        )
        self._limits = tuple(
            (*_limit_key(key), int(limit), is_soft)
            for name, is_soft in (("limits", False), ("soft-limits", True))
            for key, limit in meta.get(name, {}).items()
        )
        blocks = list(meta.get("blocks", ()))
        if "compressed_blocks" in meta:
            inflater = zlib.decompressobj()
            text = inflater.decompress(base64.b64decode(meta["compressed_blocks"]), BLOCKS_LIMIT_BYTES)
            blocks = json.loads(text)
        self._blocks = tuple((each, urlcanon.MatchRule(**each)) for each in blocks)
        filters = meta.get("mime-type-filters", ())
        self._filters = tuple((each["type"] == "LIMIT", re2.compile(each["regex"])) for each in filters)
        self.wants_metadata = "capture-metadata" in meta.get("accept", ())

    def buckets(self, url: str) -> list[str]:
        """Return the names of the counters in which a capture of the URL is counted."""
        names, canonical = [], None
        for name, domains in self._buckets:
            names.append(name)
            if domains:
                canonical = canonical or urlcanon.semantic(url)
                names += [f"{name}:{each}" for each in domains if urlcanon.url_matches_domain(canonical, each)]
        return names

    def discards(self, content_type: str) -> bool:
        """Return whether a response of that type is relayed without being archived."""
        if self.prefix == NOT_ARCHIVED:
            return True
        return any(is_limit is not bool(pattern.match(content_type)) for is_limit, pattern in self._filters)

    def refusal(self, url: str) -> LimitRefusal | None:
        """Return the answer to a request of the URL that a limit or block refuses; None when it is allowed."""
        counters = self._server.counters
        names = self.buckets(url) if self._limits else ()
        for key, bucket, part, unit, limit, is_soft in self._limits:
            counts = counters.bucket(bucket) if bucket in names else None
            if counts is None or limit <= 0 or counts[part][unit] < limit:
                continue
            reached, status = ("soft limit", 430) if is_soft else ("limit", 420)
            meta = {"stats": {bucket: counts}, f"reached-{reached.replace(' ', '-')}": {key: limit}}
            text = f"request rejected by warcprox: reached {reached} {key}={limit}\n"
            return LimitRefusal(status, f"Reached {reached}", text, meta)
        canonical = urlcanon.semantic(url) if self._blocks else None
        for rule, matcher in self._blocks:
            if matcher.applies(canonical):
                text = (
                    f"request rejected by warcprox: blocked by rule found in Warcprox-Meta header: {json.dumps(rule)}\n"
                )
                return LimitRefusal(403, "Forbidden", text, {"blocked-by-rule": rule})
        return None

    def note(self, entry: RequestLogEntry) -> None:
        """Count a capture whose records are on disk."""
        kind = "revisit" if entry.kept is RequestOutcome.REVISIT else "new"
        self._server.count(self.buckets(entry.url), entry.size, kind, entry.length)


def _canonical_host(name: str) -> str:
    return str(urlcanon.normalize_host(name).decode("ascii"))


def _limit_key(key: str) -> tuple[str, str, str, str]:
    """Parse a key such as ``bucket:domain/total/urls`` to (key as normalised, bucket, part, unit)."""
    bucket, part, unit = key.rsplit("/", 2)
    if part not in ("total", "new", "revisit") or unit not in ("urls", "wire_bytes"):
        raise ValueError(key)
    name, colon, domain = bucket.partition(":")
    bucket = f"{name}:{_canonical_host(domain)}" if colon else bucket
    return f"{bucket}/{part}/{unit}", bucket, part, unit


class WarcproxHandler(ArchivingHandler):
    """Handler of one connection of a warcprox client."""

    server: "WarcproxServer"

    def visit_of(self, head: RequestHead) -> VisitSession | None:
        """Return a visit for the request alone, with the rules of its Warcprox-Meta."""
        rules = self.server.rules(head.get(META_HEADER) or b"")
        added = b""
        if rules.wants_metadata:
            moment = f"{from_unix_milliseconds(now_ms()):%Y-%m-%dT%H:%M:%SZ}"
            added = _meta_line({"capture-metadata": {"timestamp": moment}})
        # No credentials lead to it: the connection does.
        return VisitSession(
            "",
            rules.bucket,
            limit_requests=2,
            rules=rules,
            added_head=added,
            username="-",
            password="-",  # noqa: S106
        )

    def forward(self, head: RequestHead, visit: VisitSession, *, keep_alive: bool) -> bool:
        """Run the exchange of a request, or answer one for this service."""
        self.server.busy.add(self)
        keep_alive = keep_alive and not self.server.proxy.leaving
        try:
            if head.method in _RECORD_METHODS:
                return self._write_record(head, visit, keep_alive=keep_alive)
            if self.tunnel is None and head.method == "GET" and head.target == "/status":
                facts = json.dumps(self.server.status(self.request.getsockname())).encode()
                self.send(200, b"Content-Type: application/json\r\n", keep_alive=keep_alive, body=facts)
                return keep_alive
            headers = tuple(each for each in head.headers if each[0] != META_HEADER)
            return super().forward(replace(head, headers=headers), visit, keep_alive=keep_alive)
        finally:
            self.server.busy.discard(self)

    def is_answered(self, head: RequestHead, visit: VisitSession, url: str, *, keep_alive: bool) -> bool:
        """Answer a request that the client's rules, or the disk reserve, refuse."""
        if self.server.proxy.disk.is_low():
            self.answer_error(503, "limit: disk_reserve_bytes", keep_alive=False)
            raise ConnectionLostError("Half of the reserve is used.")
        refusal = visit.rules.refusal(url) if visit.rules is not None else None
        if refusal is None:
            return False
        has_body = request_framing(head)[0] is not BodyFraming.NONE
        line = _meta_line(refusal.meta) + b"Content-Type: text/plain;charset=utf-8\r\n"
        body = refusal.text.encode()
        self.send(
            refusal.status, line, keep_alive=keep_alive and not has_body, body=body, phrase=refusal.phrase,
            head_only=head.method == "HEAD",
        )  # fmt: skip
        if has_body:
            raise ConnectionLostError("The body of a refused request is not read.")
        return True

    def _write_record(self, head: RequestHead, visit: VisitSession, *, keep_alive: bool) -> bool:
        """Write the record that a client has sent, and answer when it is on disk."""
        if self.tunnel is not None or any(head.get(name) is not None for name in _OF_PAGES):
            self.answer_error(403, "record: sent by a page", keep_alive=False)
            return False
        if self.is_answered(head, visit, head.target, keep_alive=keep_alive):
            return keep_alive
        named = "metadata" if head.method == "PUTMETA" else (head.get(b"warc-type") or b"").decode("latin-1").lower()
        content_type = (head.get(b"content-type") or b"").decode("latin-1")
        kind = _KINDS.get(named)
        if kind is None or not content_type or head.get(b"content-length") is None:
            reason = "record: WARC-Type (resource or metadata), Content-Type and Content-Length are required"
            self.answer_error(400, reason, keep_alive=False)
            return False
        if parse_artifact_uri(head.target) is not None:  # the names of a page's own artifacts
            self.answer_error(400, "record: a name of Weboid's own records", keep_alive=False)
            return False
        rules = visit.rules
        try:
            data = self.read_body(head) or b""
            if rules is not None and not rules.discards(content_type):
                date = from_unix_milliseconds(now_ms())
                record = PendingArtifact(head.target, content_type, date, "", visit, data, kind)
                (at,) = self.server.proxy.archivist.write((record,))
                self.server.count(rules.buckets(head.target), len(data), "new", at.length)
        except NoResponseError as error:
            self.answer_error(error.status, error.reason, keep_alive=False)
            return False
        except WeboidError as error:
            self.answer_error(503, f"record: {error}", keep_alive=False)
            return False
        finally:
            self.return_borrowed()
        self.send(204, b"", keep_alive=keep_alive, body=None)
        return keep_alive


def _meta_line(meta: Mapping[str, Any]) -> bytes:
    return b"Warcprox-Meta: " + json.dumps(meta, separators=(",", ":")).encode() + b"\r\n"


class WarcproxServer(RecorderServer):
    """Listener for warcprox clients of a proxy. Run `serve_forever` in a thread, then `shutdown` and `close`."""

    def __init__(self, proxy: ArchivingProxy, listen: ListenAddress, folder: Path) -> None:
        """Listen, or raise ListenError; counters are kept in the `folder`, a file for each address."""
        self.proxy = proxy
        self.visits, self.ca, self.secrets = proxy.visits, proxy.ca, proxy.secrets
        self.exchanges = replace(proxy.exchanges, hand_over=self._hand_over)
        self.busy: set[WarcproxHandler] = set()  # those with a request in progress
        super().__init__(listen, WarcproxHandler)
        host, port = self.reached_at = str(self.server_address[0]), int(self.server_address[1])
        proxy.egress.refuse_listener(host, port)  # so that no page reaches it, of whatever visit
        self.counters = CaptureCounters(folder / f"warcprox-{host}-{port}.json".replace(":", "."))
        self._cache: LRUCache[bytes, MetaRules] = LRUCache(META_CACHE)
        self._lock = threading.Lock()
        self._urls = self._bytes = 0
        self._started = now_ms() / 1000
        self._samples = deque([(self._started, 0, 0)], maxlen=int(15 * 60 / SAMPLE_S) + 1)
        self._over = threading.Event()
        self._writer_thread = threading.Thread(target=self._keep, name="warcprox-counters", daemon=True)
        self._writer_thread.start()

    @cachedmethod(attrgetter("_cache"), lock=attrgetter("_lock"))
    def rules(self, value: bytes) -> MetaRules:
        """Return the rules of a Warcprox-Meta value; MalformedMessageError if it is not valid."""
        return MetaRules(self, value)

    def count(self, buckets: Iterable[str], size: int, kind: str, written: int) -> None:
        """Count a capture of `size` received and `written` stored bytes."""
        self.counters.add(buckets, size, kind)
        with self._lock:
            self._urls += 1
            self._bytes += written

    def status(self, address: tuple[Any, ...]) -> dict[str, Any]:
        """Return the facts of ``/status``, which are those of warcprox's service registration."""
        queued, now = self.proxy.archivist.waiting, now_ms() / 1000
        facts: dict[str, Any] = {
            "id": f"warcprox:{socket.gethostname()}:{address[1]}",
            "role": "warcprox",
            "version": f"weboid {version('weboid')}",
            "host": socket.gethostname(),
            "address": address[0],
            "port": address[1],
            "pid": os.getpid(),
            "ttl": TTL_S,
            "load": queued / BACKLOG_RECORDS,
            "queued_urls": queued,
            "queue_max_size": BACKLOG_RECORDS,
            "seconds_behind": 0,
            "threads": MAX_CONNECTIONS,
            "active_requests": len(self.open_handlers),
            "unaccepted_requests": 0,
            "urls_processed": self._urls,
            "warc_bytes_written": self._bytes,
            "start_time": self._started,
            "postfetch_chain": [{"processor": "Archivist", "queued_urls": queued}],
        }
        for minutes in (1, 5, 15):
            since, urls, size = next(
                each for each in self._samples if each[0] >= now - minutes * 60 or each is self._samples[-1]
            )
            elapsed = max(now - since, 0.001)
            facts[f"rates_{minutes}min"] = {
                "actual_elapsed": elapsed,
                "urls_per_sec": (self._urls - urls) / elapsed,
                "warc_bytes_per_sec": (self._bytes - size) / elapsed,
            }
        return facts

    def close(self) -> None:
        """End all connections and write the counters; call after `shutdown`, before the proxy is closed."""
        self.end_connections()
        self.proxy.archivist.flush()
        self._over.set()
        self._writer_thread.join()
        self.counters.save()

    def _hand_over(self, recorded: RecordedExchange) -> None:
        rules = recorded.visit.rules
        content_type = (recorded.head.get(b"content-type") or b"").decode("latin-1")
        if rules is not None and rules.discards(content_type):
            recorded.spool.close()
            self.count(rules.buckets(recorded.entry.url), recorded.entry.size, "", 0)
        else:
            self.proxy.archivist.hand_over(recorded)

    def _keep(self) -> None:
        """Save the counters and take samples for the rates until the server is closed."""
        while not self._over.wait(SAVE_S):
            self.counters.save()
            now = now_ms() / 1000
            if now - self._samples[-1][0] >= SAMPLE_S:
                self._samples.append((now, self._urls, self._bytes))
