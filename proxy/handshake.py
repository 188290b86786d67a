"""Who may speak to a control port: both sides prove that they hold the cluster's secret.

    worker  HELLO, nonce W                       40 bytes
    proxy   nonce P                              32 bytes
    worker  HMAC(secret, "worker", W, P)         32 bytes
    proxy   HMAC(secret, "proxy", W, P)          32 bytes, and from now on frames

HMAC-SHA-256 (RFC 2104), compared in constant time. Each side gives a nonce, so nothing that was said
before is worth anything; each has a word of its own, so nothing can be sent back to who said it. The
proxy proves itself last: who does not hold the secret gets 32 random bytes, or nothing. All of it
takes a fixed number of bytes and at most `LIMIT_S`.

What follows is neither encrypted nor signed: the network between workers and proxies is trusted.
"""

import asyncio
import hmac
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from core.errors import ConfigError, ProxyUnavailableError

HELLO = b"WEBOID1\n"  # no browser begins like that
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
        return hmac.digest(self.key, b"weboid control 1 " + role + b"\n" + ours + theirs, "sha256")


def admit(
    sock: socket.socket,
    secret: Secret,
    *,
    random: Callable[[int], bytes] = os.urandom,
    monotonic: Callable[[], float] = time.monotonic,
) -> bool:
    """The proxy's part, on a blocking socket: whether the other side holds the secret.

    Raises:
        OSError: the other side left, or was too slow.
    """
    deadline = monotonic() + LIMIT_S
    begun = _exactly(sock, len(HELLO), deadline, monotonic)
    if begun != HELLO:
        return False
    theirs = _exactly(sock, NONCE_BYTES, deadline, monotonic)
    ours = random(NONCE_BYTES)
    sock.sendall(ours)
    proof = _exactly(sock, PROOF_BYTES, deadline, monotonic)
    if not hmac.compare_digest(proof, secret.proof(b"worker", theirs, ours)):
        return False
    sock.sendall(secret.proof(b"proxy", theirs, ours))
    sock.settimeout(None)
    return True


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
) -> None:
    """The worker's part; returns when the other side has proved itself, too.

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
            "(WEBOID_SECRET or --secret-file)."
        ) from error
    if not hmac.compare_digest(proof, secret.proof(b"proxy", ours, theirs)):
        raise ProxyUnavailableError(
            "What answers in the proxy's place does not hold the cluster's secret."
        )
