"""Captures, WARC record types, artifact URIs (as pywb and browsertrix key them) and login names of visits."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from core.layout import check_name


class RecordType(StrEnum):
    """WARC record types in use (WARC/1.1, 5.5)."""

    WARCINFO = "warcinfo"
    REQUEST = "request"
    RESPONSE = "response"
    REVISIT = "revisit"
    RESOURCE = "resource"
    METADATA = "metadata"


class ArtifactKind(StrEnum):
    """Artifact of a page, in addition to its captures."""

    VIEW = "view"
    FULL_PAGE = "fullPage"
    THUMBNAIL = "thumbnail"
    DOM = "dom"
    TEXT = "text"
    PDF = "pdf"
    PAGEINFO = "pageinfo"


def artifact_uri(kind: ArtifactKind, url: str) -> str:
    """Return the target URI of a page's artifact: ``urn:view:https://example.org/``."""
    return f"urn:{kind}:{url}"


def parse_artifact_uri(uri: str) -> tuple[ArtifactKind, str] | None:
    """Return (kind, page URL) of an artifact's target URI; None when it names no artifact."""
    parts = uri.split(":", 2)
    if len(parts) != 3 or parts[0] != "urn" or parts[1] not in set(ArtifactKind):
        return None
    return ArtifactKind(parts[1]), parts[2]


IMPORT_PREFIX = "imported-"  # of files that came from elsewhere: ``imported-IMPORT-SHA256-NAME.warc.gz``


def imported_page_id(filename: str, name: str) -> str | None:
    """Return the id of a page in an imported file, which no other import can name; None for one of Weboid's own.

    >>> imported_page_id("imported-0f3c-91ab-crawl.warc.gz", "page-1"), imported_page_id("weboid-1.warc.gz", "p")
    ('0eb236e50de35c59c03b6362-0f3c', None)
    """
    if not filename.startswith(IMPORT_PREFIX):
        return None
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
    return f"{digest[:24]}-{filename.split('-', 2)[1]}"


LOGIN_HEADER = "WARC-Login"  # in each record of such a visit, so that an index that was rebuilt knows
# In a revisit of the profile server-not-modified: status and media type of the response that the origin confirmed and
# that the page received, so that an index that was rebuilt has it.
CONFIRMED_HEADER = "WARC-Confirmed-Response"
LOGIN_NAME_LIMIT_CHARS = 64


def check_login_name(name: str) -> str:
    """Return the login name if it is valid. Raises InputError if the name is not valid."""
    return check_name(name, of="a login", limit=LOGIN_NAME_LIMIT_CHARS)


def dedup_bucket(bucket: str, login: str) -> str:
    """Return the dedup bucket of a visit: `bucket`, or within it the login's own, as its responses are personal.

    >>> dedup_bucket("default", ""), dedup_bucket("default", "wiki")
    ('default', 'default/login:wiki')
    """
    return f"{bucket}/login:{login}" if login else bucket


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """Location of a record: a WARC's final name, its offset and compressed length in bytes."""

    filename: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Capture:
    """Row of the captures index."""

    url: str  # the requested URL (URI-R), or an artifact's ``urn:``
    urlkey: str  # the replay key of `url` (`core.urls.replay_key`)
    captured_at: datetime  # the record's WARC-Date, to the millisecond
    record_type: RecordType  # response, revisit or resource; requests are never indexed
    mime: str  # bare media type; for a revisit, the original's
    status: int | None  # HTTP status, None for artifacts
    digest: str  # payload digest as the record spells it, ``sha256:…``
    location: RecordLocation
    original: RecordLocation | None = None  # for a revisit, the record that holds the payload
    page_id: str | None = None  # the page whose visit made it; None for captures made outside a visit
    truncated: str | None = None  # the record's WARC-Truncated reason, None when whole
    login: str | None = None  # the name of the login that the visit was made with; None without one
