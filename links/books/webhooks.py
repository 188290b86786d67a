"""Signatures of requests to the webhook that were taken: each counts once, also after a restart."""

from datetime import datetime, timedelta

from sqlalchemy import Connection, delete

from links.store.schema import webhook_signatures
from links.store.statements import Statement, one
from links.store.upserts import insert_new

FORGET = Statement(delete(webhook_signatures).where(webhook_signatures.c.moment < one("before")))


def use_signature(
    connection: Connection, signature: bytes, moment: datetime, *, kept: timedelta
) -> bool:
    """Note a signature as used, and forget those that are older than `kept`.

    Args:
        connection: one that writes.
        signature: 32 bytes.
        moment: when it was made.
        kept: for how long a signature could be accepted at all.

    Returns:
        True when nobody had used it before.
    """
    made = int(moment.timestamp())
    FORGET.run(connection, {"before": made - int(kept.total_seconds())})
    return insert_new(connection, webhook_signatures, {"signature": signature, "moment": made})
