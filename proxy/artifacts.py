"""An artifact as a WARC record and as a row of the captures index."""

from core.captures import Capture, RecordLocation
from core.digests import sha256_digest
from core.logins import LOGIN_HEADER
from core.records import RecordType
from core.timestamps import to_milliseconds, warc_date
from proxy.builder import Headers, member, new_record_id
from proxy.index.rows import CaptureRow, key_or_empty, row_of
from proxy.jobs import Artifact


def artifact_member(artifact: Artifact) -> tuple[str, bytes]:
    """Return the artifact's digest, and its `resource` record as a gzip member.

    Its page is named by WARC-Page-ID and WARC-Concurrent-To: WARC-Refers-To-Target-URI and -Date are
    not for `resource` records (WARC/1.1, 5.9 and 5.10).
    """
    digest = sha256_digest(artifact.data)
    date = warc_date(artifact.date)
    concurrent = artifact.visit.records_of(artifact.document)
    headers: Headers = [
        ("WARC-Type", str(RecordType.RESOURCE)),
        ("WARC-Record-ID", new_record_id()),
        ("WARC-Date", date),
        ("WARC-Target-URI", artifact.uri),
        ("WARC-Page-ID", artifact.visit.page_id),
        *(((LOGIN_HEADER, artifact.visit.login),) if artifact.visit.login else ()),
        *(("WARC-Concurrent-To", each) for each in concurrent[-1:]),
        ("Content-Type", artifact.content_type),
        ("WARC-Payload-Digest", digest),
        ("WARC-Block-Digest", digest),
        ("Content-Length", str(len(artifact.data))),
    ]
    return digest, member(headers, artifact.data)


def artifact_row(artifact: Artifact, digest: str, at: RecordLocation) -> CaptureRow:
    """The artifact's row."""
    return row_of(
        Capture(
            url=artifact.uri,
            urlkey=key_or_empty(artifact.uri),
            captured_at=to_milliseconds(artifact.date),
            record_type=RecordType.RESOURCE,
            mime=artifact.content_type.partition(";")[0].strip(),
            status=None,
            digest=digest,
            location=at,
            page_id=artifact.visit.page_id,
            login=artifact.visit.login or None,
        )
    )
