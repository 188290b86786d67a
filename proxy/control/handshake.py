"""Handshake of workers and proxies over TCP, by which each proves that it holds the cluster's secret.

    worker  HELLO, nonce W                       40 bytes
    proxy   nonce P                              32 bytes
    worker  HMAC(secret, "worker", W, P)         32 bytes
    proxy   HMAC(secret, "proxy", W, P)          32 bytes, and from now on frames

Compared in constant time. The nonces prevent replay, the labels reflection. The proxy proves itself last: a peer
without the secret receives 32 random bytes, or nothing. The handshake takes at most `HANDSHAKE_LIMIT_S`.
"""

import asyncio
import hmac
import os
import socket
import time
from dataclasses import dataclass, field

from core.errors import ConfigError, ProxyUnavailableError
from proxy.control.frames import FrameTags

HELLO = b"WEBOID2\n"  # no browser begins like that
NONCE_BYTES = 32
PROOF_BYTES = 32
HANDSHAKE_LIMIT_S = 3.0
MIN_SECRET_CHARS = 32
MAX_SECRET_CHARS = 4096


class ForgedFrameError(ProxyUnavailableError):
    """Wrong frame tag: the connection between worker and proxy was tampered with."""


class DirectionTags:
    """Tags of one direction of a connection, made or checked part by part."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def make(self, *pieces: bytes) -> bytes:
        """Return the tag of the next part, which consists of these pieces."""
        mac = hmac.new(self._key, self._number.to_bytes(8, "big"), "sha256")
        self._number += 1
        for piece in pieces:
            mac.update(piece)
        return mac.digest()

    def check(self, tag: bytes, *pieces: bytes) -> None:
        """Verify the tag of the next part. Raises ForgedFrameError if it does not match."""
        if not hmac.compare_digest(self.make(*pieces), tag):
            raise ForgedFrameError(
                "A control message was changed in transit: allow only the cluster's machines to reach the proxies' "
                "control ports."
            )


@dataclass(frozen=True, slots=True)
class ClusterSecret:
    """Secret shared by the workers and proxies of a cluster. Its `repr` does not reveal it."""

    key: bytes = field(repr=False)

    @classmethod
    def of(cls, text: str) -> "ClusterSecret":
        """Return the secret in the text, white space around it removed; ConfigError for its length."""
        text = text.strip()
        if not MIN_SECRET_CHARS <= len(text) <= MAX_SECRET_CHARS:
            raise ConfigError(
                f"The cluster's secret must have at least {MIN_SECRET_CHARS} characters "
                f"and at most {MAX_SECRET_CHARS}: make one with `openssl rand -hex 32`."
            )
        return cls(text.encode())

    def proof(self, role: bytes, ours: bytes, theirs: bytes) -> bytes:
        """Return the HMAC of role and nonces by which a peer proves that it holds the secret."""
        return hmac.digest(self.key, b"weboid control 2 " + role + b"\n" + ours + theirs, "sha256")

    def tags(self, role: bytes, worker_nonce: bytes, proxy_nonce: bytes) -> DirectionTags:
        """Return the tags for frames sent by `role` in the session with these nonces."""
        label = b"weboid control 2 frames " + role + b"\n"
        return DirectionTags(hmac.digest(self.key, label + worker_nonce + proxy_nonce, "sha256"))

    def signature(self, message: bytes) -> str:
        """Return the signature of a message (`crawler.pools.cluster`), in hexadecimal."""
        return hmac.digest(self.key, b"weboid note 1\n" + message, "sha256").hex()

    def has_signed(self, message: bytes, signature: str) -> bool:
        """Return whether the signature is that of the message."""
        return hmac.compare_digest(self.signature(message).encode(), signature.encode())


def admit_worker(sock: socket.socket, secret: ClusterSecret) -> FrameTags | None:
    """Run the proxy's side of the handshake on a blocking socket; None for an unauthenticated peer."""
    deadline = time.monotonic() + HANDSHAKE_LIMIT_S
    if _receive_by(sock, len(HELLO), deadline) != HELLO:
        return None
    theirs = _receive_by(sock, NONCE_BYTES, deadline)
    own_nonce = os.urandom(NONCE_BYTES)
    sock.sendall(own_nonce)
    proof = _receive_by(sock, PROOF_BYTES, deadline)
    if not hmac.compare_digest(proof, secret.proof(b"worker", theirs, own_nonce)):
        return None
    sock.sendall(secret.proof(b"proxy", theirs, own_nonce))
    sock.settimeout(None)
    return FrameTags(sent=secret.tags(b"proxy", theirs, own_nonce), received=secret.tags(b"worker", theirs, own_nonce))


def _receive_by(sock: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(left)
        if not (piece := sock.recv(size - len(data))):
            raise ConnectionResetError
        data += piece
    return data


async def introduce(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: ClusterSecret) -> FrameTags:
    """Run the worker's side of the handshake; return the tags once the proxy has proved itself."""
    own_nonce = os.urandom(NONCE_BYTES)
    try:
        async with asyncio.timeout(HANDSHAKE_LIMIT_S):
            writer.write(HELLO + own_nonce)
            theirs = await reader.readexactly(NONCE_BYTES)
            writer.write(secret.proof(b"worker", own_nonce, theirs))
            proof = await reader.readexactly(PROOF_BYTES)
    except (asyncio.IncompleteReadError, OSError) as error:  # TimeoutError is an OSError
        raise ProxyUnavailableError(
            "The proxy does not accept this worker: give both the same secret "
            "(WEBOID_SECRET or --secret-file), and run the same release on both machines."
        ) from error
    if not hmac.compare_digest(proof, secret.proof(b"proxy", own_nonce, theirs)):
        raise ProxyUnavailableError("The server at the proxy's address does not know the cluster's secret.")
    return FrameTags(sent=secret.tags(b"worker", own_nonce, theirs), received=secret.tags(b"proxy", own_nonce, theirs))
