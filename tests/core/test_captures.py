"""Names of artifacts, and the page manifest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.captures import ArtifactKind, artifact_uri, parse_artifact_uri
from core.errors import InputError
from core.page_manifest import PageInfo, PageResource, VisitOutcome, parse_pageinfo


@given(st.sampled_from(ArtifactKind), st.text())
def test_an_artifacts_name_reads_back(kind: ArtifactKind, url: str) -> None:
    """Kind and page, whatever the URL holds."""
    assert parse_artifact_uri(artifact_uri(kind, url)) == (kind, url)


@pytest.mark.parametrize(
    "uri", ["", "urn", "urn:view", "urn:other:https://a.example/", "https://a.example/", "URN:view:x"]
)
def test_what_names_no_artifact_is_none(uri: str) -> None:
    """Other tools' names are left alone."""
    assert parse_artifact_uri(uri) is None


TEXT = st.text(max_size=20)
RESOURCES = st.builds(PageResource, url=TEXT, status=st.none() | st.integers(100, 599), reason=TEXT, digest=TEXT)


@given(
    st.builds(
        PageInfo,
        page_id=TEXT,
        url=TEXT,
        final_url=TEXT,
        captured_at=TEXT,
        outcome=st.sampled_from(VisitOutcome),
        title=TEXT,
        resources=st.lists(RESOURCES, max_size=3).map(tuple),
        outlinks=st.lists(TEXT, max_size=3).map(tuple),
        timings=st.none() | st.dictionaries(TEXT, st.floats(0, 100)),
        tls_verified=st.none() | st.booleans(),
    )
)
def test_a_manifest_reads_back(page: PageInfo) -> None:
    """JSON and back is the same value."""
    assert parse_pageinfo(page.to_json()) == page


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version": 99}', b'{"version": 1}', b"\xff", b"null"])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    """Never a crash, never half a value."""
    with pytest.raises(InputError):
        parse_pageinfo(data)
