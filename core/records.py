"""WARC record types, and the names that our artifacts go by.

Artifacts are ``resource`` records whose target is ``urn:KIND:URL``; lower-case ``urn:`` is what
pywb keys and replays, and the kinds are browsertrix's where it has one.
"""

from enum import StrEnum


class RecordType(StrEnum):
    """The record types that we write (WARC/1.1, 5.5)."""

    WARCINFO = "warcinfo"
    REQUEST = "request"
    RESPONSE = "response"
    REVISIT = "revisit"
    RESOURCE = "resource"
    METADATA = "metadata"


class ArtifactKind(StrEnum):
    """What we make of a page, besides its captures."""

    VIEW = "view"
    FULL_PAGE = "fullPage"
    THUMBNAIL = "thumbnail"
    DOM = "dom"
    TEXT = "text"
    PDF = "pdf"
    PAGEINFO = "pageinfo"


def artifact_uri(kind: ArtifactKind, url: str) -> str:
    """The target URI of a page's artifact.

    >>> artifact_uri(ArtifactKind.VIEW, "https://example.org/")
    'urn:view:https://example.org/'
    """
    return f"urn:{kind}:{url}"


def parse_artifact_uri(uri: str) -> tuple[ArtifactKind, str] | None:
    """The kind and page URL of an artifact's target URI; None when it names no artifact.

    >>> parse_artifact_uri("urn:dom:https://example.org/")
    (<ArtifactKind.DOM: 'dom'>, 'https://example.org/')
    """
    parts = uri.split(":", 2)
    if len(parts) != 3 or parts[0] != "urn" or parts[1] not in set(ArtifactKind):
        return None
    return ArtifactKind(parts[1]), parts[2]
