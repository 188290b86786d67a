"""Tests of `links.checker.http_exchange`."""

import ssl

import pytest

from links.check_result import FetchFailure
from links.checker.http_exchange import tls_refusal

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds


@pytest.mark.parametrize(
    ("words", "trouble"),
    [
        ("[SSL] tlsv13 alert certificate required (_ssl.c:2580)", FetchFailure.WANTS_CERTIFICATE),
        ("[SSL] tlsv1 alert no application protocol (_ssl.c:1006)", FetchFailure.OTHER_PROTOCOL),
        ("[SSL: SSLV3_ALERT_HANDSHAKE_FAILURE] sslv3 alert handshake failure", None),
    ],
)
def test_what_a_server_minds_about_us_is_told_apart(words: str, trouble: FetchFailure | None) -> None:
    """A host that wants a certificate of ours, or another protocol, is there."""
    assert tls_refusal(ssl.SSLError(1, words)) is trouble
