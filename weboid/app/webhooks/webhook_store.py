"""Webhooks of a collection, the queue and log of their deliveries, and signatures (standardwebhooks.com, v1)."""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import tomlkit

from core.errors import ConfigError, InputError
from core.timestamps import warc_date
from core.urls import fetch_key
from warc.local_storage import enable_wal, replace_file
from weboid.app.collection_config import WEBHOOK_EVENTS, WebhookConfig, read_config

QUEUED_DELIVERIES: Final = 20_000  # of a receiver
LOGGED_DELIVERIES: Final = 2_000  # that have ended, of all receivers
LEASE_S: Final = 60.0

_TABLES = """
CREATE TABLE IF NOT EXISTS delivery (
  id TEXT PRIMARY KEY, url TEXT NOT NULL, type TEXT NOT NULL, body BLOB NOT NULL, made REAL NOT NULL,
  state TEXT NOT NULL DEFAULT 'queued', attempts INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL,
  tried REAL, status INTEGER, reason TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS delivery_due ON delivery (state, url, due);
"""


class WebhookDelivery(NamedTuple):
    """Delivery of a batch of events to one receiver; times are Unix seconds."""

    id: str  # its ``webhook-id``
    url: str  # the receiver
    type: str  # of its events
    made: float
    state: str  # ``queued``, ``delivered`` or ``failed``
    attempts: int
    due: float  # time of the next attempt
    tried: float | None  # time of the last attempt
    status: int | None  # HTTP status of the last answer
    reason: str  # why the last attempt failed; empty when it did not


class WebhookStore:
    """Queue and log of deliveries in the collection's ``db/webhooks.sqlite``, for one thread, many processes."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        enable_wal(self._db, path)
        self._db.executescript(_TABLES)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add(self, url: str, kind: str, body: bytes, *, now: float) -> str:
        """Queue a delivery and return its id; above `QUEUED_DELIVERIES` the receiver's oldest one fails."""
        delivery_id = f"msg_{secrets.token_hex(16)}"
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            self._db.execute(
                "INSERT INTO delivery (id, url, type, body, made, due) VALUES (?, ?, ?, ?, ?, ?)",
                (delivery_id, url, kind, body, now, now),
            )
            self._db.execute(
                "UPDATE delivery SET state = 'failed', reason = 'the queue is full' WHERE id IN (SELECT id FROM"
                " delivery WHERE state = 'queued' AND url = ? ORDER BY made DESC LIMIT -1 OFFSET ?)",
                (url, QUEUED_DELIVERIES),
            )
            self._db.execute(
                "DELETE FROM delivery WHERE id IN (SELECT id FROM delivery WHERE state != 'queued'"
                " ORDER BY made DESC LIMIT -1 OFFSET ?)",
                (LOGGED_DELIVERIES,),
            )
        return delivery_id

    def claim(self, *, now: float, delivery_id: str = "") -> list[tuple[WebhookDelivery, bytes]]:
        """Return the oldest due delivery of each receiver (or one by id), with its body; due again after `LEASE_S`."""
        rows = self._db.execute(
            "UPDATE delivery SET attempts = attempts + 1, tried = :now, due = :now + :lease WHERE id IN (SELECT id FROM"  # noqa: S608 constants of ours
            " (SELECT id, min(made) FROM delivery WHERE state = 'queued' AND due <= :now AND :id IN ('', id)"
            " GROUP BY url))"
            f" RETURNING {', '.join(WebhookDelivery._fields)}, body",
            {"now": now, "lease": LEASE_S, "id": delivery_id},
        ).fetchall()
        return [(WebhookDelivery(*row[:-1]), row[-1]) for row in rows]

    def end(self, delivery: WebhookDelivery, state: str, *, status: int | None, reason: str) -> None:
        """Store the result of the last attempt: ``delivered`` or ``failed``."""
        values = (state, status, reason[:300], delivery.id)
        self._db.execute("UPDATE delivery SET state = ?, status = ?, reason = ? WHERE id = ?", values)

    def delay(self, delivery: WebhookDelivery, due: float, *, status: int | None, reason: str) -> None:
        """Store a failed attempt; nothing is due for its receiver before that time."""
        self._db.execute("UPDATE delivery SET status=?, reason=? WHERE id=?", (status, reason[:300], delivery.id))
        self._db.execute(
            "UPDATE delivery SET due = CASE WHEN id = :id THEN :due ELSE max(due, :due) END"
            " WHERE state = 'queued' AND url = :url",
            {"id": delivery.id, "due": due, "url": delivery.url},
        )

    def deliveries(self, *, limit: int = 100, url: str = "", state: str = "") -> list[WebhookDelivery]:
        """Return deliveries, the newest first, of a receiver or state where one is given."""
        rows = self._db.execute(
            f"SELECT {', '.join(WebhookDelivery._fields)} FROM delivery"  # noqa: S608 constants of ours
            " WHERE ? IN ('', url) AND ? IN ('', state) ORDER BY made DESC, id LIMIT ?",
            (url, state, limit),
        )
        return [WebhookDelivery(*row) for row in rows]


def read_secrets(path: Path) -> list[bytes]:
    """Return the keys of a secret file, one a line, base64 after ``whsec_``. Raises ConfigError."""
    try:
        lines = path.read_text(encoding="ascii").split()
        keys = [base64.b64decode(line.removeprefix("whsec_"), validate=True) for line in lines]
    except (OSError, UnicodeError, binascii.Error) as error:
        raise ConfigError(f"The webhook secret {path} cannot be read: {error}.") from error
    if not keys or not all(24 <= len(each) <= 64 for each in keys):
        raise ConfigError(f"{path} must hold 24 to 64 bytes in base64, as `openssl rand -base64 32` prints.")
    return keys


def signed_headers(keys: Sequence[bytes], delivery_id: str, body: bytes, *, now: datetime) -> dict[str, str]:
    """Return the headers of a delivery, with a signature by each key: while secrets change, both verify."""
    stamp = int(now.timestamp())
    signed = f"{delivery_id}.{stamp}.".encode() + body
    signatures = (base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys)
    headers = {"Content-Type": "application/json", "webhook-id": delivery_id, "webhook-timestamp": str(stamp)}
    return headers | {"webhook-signature": " ".join(f"v1,{each}" for each in signatures)}


def event_body(kind: str, root: Path, items: Sequence[dict[str, Any]], *, now: datetime) -> bytes:
    """Return the JSON of a delivery, in the form of docs/reference/webhooks.md."""
    data = {"collection": root.resolve().name, "items": list(items)}
    text = json.dumps({"type": kind, "timestamp": warc_date(now), "data": data}, ensure_ascii=False)
    return text.encode("utf-8", "replace")


def add_webhook(root: Path, url: str, events: Sequence[str] = ()) -> WebhookConfig:
    """Add a webhook, with a new secret in a file of ``secrets/``. Raises InputError: there is one with the URL."""
    config = read_config(root)
    url = fetch_key(url, allow_single_label=True)
    if any(each.url == url for each in config.webhooks()):
        raise InputError(f"{url} is already a webhook: `weboid webhooks rm` removes it.")
    if unknown := set(events) - set(WEBHOOK_EVENTS):
        raise InputError(f"There is no event {min(unknown)!r}. Known: {', '.join(WEBHOOK_EVENTS)}.")
    name = f"secrets/webhook-{secrets.token_hex(8)}"
    (root / "secrets").mkdir(mode=0o700, exist_ok=True)
    secret = base64.b64encode(secrets.token_bytes(32)).decode()
    replace_file(root / name, f"whsec_{secret}\n", mode=0o600)
    document = tomlkit.parse(config.text)
    table = tomlkit.table()
    table.update({"url": url, "secret_file": name} | ({"events": list(events)} if events else {}))
    document.setdefault("webhooks", tomlkit.aot()).append(table)
    replace_file(config.path, tomlkit.dumps(document).lstrip())
    return WebhookConfig(url, root / name, tuple(events) or WEBHOOK_EVENTS)


def remove_webhook(root: Path, url: str) -> None:
    """Remove a webhook from ``weboid.toml``, and a secret that `add_webhook` made. Raises InputError: unknown."""
    config = read_config(root)
    hooks = [each.url for each in config.webhooks()]
    if (url := fetch_key(url, allow_single_label=True)) not in hooks:
        raise InputError(f"{url} is not a webhook of {root}: `weboid webhooks ls` lists them.")
    document = tomlkit.parse(config.text)
    secret = config.webhooks()[hooks.index(url)].secret_file
    document["webhooks"].pop(hooks.index(url))
    replace_file(config.path, tomlkit.dumps(document))
    if secret.parent == root / "secrets" and secret.name.startswith("webhook-"):
        secret.unlink(missing_ok=True)
