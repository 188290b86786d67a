"""Who may speak to a control port: both sides prove that they hold the cluster's secret.

    worker  HELLO, nonce W                       40 bytes
    proxy   nonce P                              32 bytes
    worker  HMAC(secret, "worker", W, P)         32 bytes
    proxy   HMAC(secret, "proxy", W, P)          32 bytes, and from now on frames

HMAC-SHA-256 (RFC 2104), compared in constant time. Each side gives a nonce, so nothing that was said
before is worth anything; each has a word of its own, so nothing can be sent back to who said it. The
proxy proves itself last: who does not hold the secret gets 32 random bytes, or nothing. All of it
takes a fixed number of bytes and at most `LIMIT_S`.

What follows carries tags (`proxy.frames`) by two keys of this conversation, one for each direction,
made of the secret and both nonces. It is not encrypted.
"""

import asyncio
import hmac
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from core.errors import ConfigError, ProxyUnavailableError
from proxy.frames import FrameTags, Tags

HELLO = b"WEBOID2\n"  # no browser begins like that
NONCE_BYTES = 32
PROOF_BYTES = 32
LIMIT_S = 3.0
LEAST_CHARACTERS = 32
MOST_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class Secret:
    """What workers and proxies of a cluster share. It shows itself nowhere."""

    key: bytes = field(repr=False)

    @classmethod
    def of(cls, text: str) -> "Secret":
        """The secret that the text is, white space around it left out.

        Raises:
            ConfigError: it is too short to be one, or far too long.
        """
        text = text.strip()
        if not LEAST_CHARACTERS <= len(text) <= MOST_CHARACTERS:
            raise ConfigError(
                f"The cluster's secret must have at least {LEAST_CHARACTERS} characters "
                f"and at most {MOST_CHARACTERS}: make one with `openssl rand -hex 32`."
            )
        return cls(text.encode())

    def proof(self, role: bytes, ours: bytes, theirs: bytes) -> bytes:
        """What only a holder of the secret can say of these nonces."""
        return hmac.digest(self.key, b"weboid control 2 " + role + b"\n" + ours + theirs, "sha256")

    def tags(self, role: bytes, worker_nonce: bytes, proxy_nonce: bytes) -> Tags:
        """Return the tags of what `role` sends in the conversation with these nonces."""
        label = b"weboid control 2 frames " + role + b"\n"
        return Tags(hmac.digest(self.key, label + worker_nonce + proxy_nonce, "sha256"))

    def signature(self, message: bytes) -> str:
        """Return what only a holder of the secret can put beside a note (`crawler.registry`), in hex."""
        return hmac.digest(self.key, b"weboid note 1\n" + message, "sha256").hex()

    def has_signed(self, message: bytes, signature: str) -> bool:
        """Return whether the signature is that of the message."""
        return hmac.compare_digest(self.signature(message).encode(), signature.encode())


def admit(
    sock: socket.socket,
    secret: Secret,
    *,
    random: Callable[[int], bytes] = os.urandom,
    monotonic: Callable[[], float] = time.monotonic,
) -> FrameTags | None:
    """The proxy's part, on a blocking socket: the tags of what follows; None for a stranger.

    Raises:
        OSError: the other side left, or was too slow.
    """
    deadline = monotonic() + LIMIT_S
    begun = _exactly(sock, len(HELLO), deadline, monotonic)
    if begun != HELLO:
        return None
    theirs = _exactly(sock, NONCE_BYTES, deadline, monotonic)
    ours = random(NONCE_BYTES)
    sock.sendall(ours)
    proof = _exactly(sock, PROOF_BYTES, deadline, monotonic)
    if not hmac.compare_digest(proof, secret.proof(b"worker", theirs, ours)):
        return None
    sock.sendall(secret.proof(b"proxy", theirs, ours))
    sock.settimeout(None)
    return FrameTags(
        sent=secret.tags(b"proxy", theirs, ours), received=secret.tags(b"worker", theirs, ours)
    )


def _exactly(
    sock: socket.socket, size: int, deadline: float, monotonic: Callable[[], float]
) -> bytes:
    data = b""
    while len(data) < size:
        left = deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(left)
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionResetError
        data += piece
    return data


async def introduce(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    secret: Secret,
    *,
    random: Callable[[int], bytes] = os.urandom,
) -> FrameTags:
    """The worker's part: the tags of what follows, when the other side has proved itself, too.

    Raises:
        ProxyUnavailableError: the other side does not hold the secret, or takes us for a stranger.
    """
    ours = random(NONCE_BYTES)
    try:
        async with asyncio.timeout(LIMIT_S):
            writer.write(HELLO + ours)
            theirs = await reader.readexactly(NONCE_BYTES)
            writer.write(secret.proof(b"worker", ours, theirs))
            proof = await reader.readexactly(PROOF_BYTES)
    except (asyncio.IncompleteReadError, OSError) as error:  # TimeoutError is an OSError
        raise ProxyUnavailableError(
            "The proxy does not take us for one of its workers: give both the same secret "
            "(WEBOID_SECRET or --secret-file), and run the same release on both machines."
        ) from error
    if not hmac.compare_digest(proof, secret.proof(b"proxy", ours, theirs)):
        raise ProxyUnavailableError(
            "What answers in the proxy's place does not hold the cluster's secret."
        )
    return FrameTags(
        sent=secret.tags(b"worker", ours, theirs), received=secret.tags(b"proxy", ours, theirs)
    )
