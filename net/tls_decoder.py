"""Passive decoder of a TLS connection between others, from the secrets that one side logs (RFC 9850).

TLS 1.3 (RFC 8446) and the suites of TLS 1.2 that browsers offer: AEAD, and AES-CBC with HMAC-SHA-1.
"""

import hashlib
import hmac
import struct
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import brotlicffi
from cachetools import LRUCache
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from core.errors import TransientError

SECRETS_LIMIT = 4_096  # connections whose secrets are kept
RECORD_LIMIT_BYTES = (1 << 14) + 2048  # RFC 5246, 6.2.3: the larger of the two versions' limits
HANDSHAKE_LIMIT_BYTES = 1 << 20
UNREAD_LIMIT_BYTES = 1 << 20
CERTIFICATE_LIMIT_BYTES = 1 << 17
CHAIN_LIMIT = 16  # certificates
_ALERT, _HANDSHAKE, _DATA, _CHANGE = 21, 22, 23, 20  # content types
_CLIENT_HELLO, _SERVER_HELLO, _CERTIFICATE, _FINISHED, _KEY_UPDATE, _PACKED_CERTIFICATE = (
    1, 2, 11, 20, 24, 25,
)  # fmt: skip
_BROTLI = 2  # RFC 8879, 7.3
_RETRY = hashlib.sha256(b"HelloRetryRequest").digest()  # RFC 8446, 4.1.3
_TLS13, _VERSIONS, _ENCRYPT_THEN_MAC = b"\x03\x04", 43, 22
_MAC_BYTES = 20
# Name as OpenSSL has it, hash, key size; AES-GCM but for the last of each group, and CBC where the name ends with SHA.
_SUITES = {
    0x1301: ("TLS_AES_128_GCM_SHA256", "sha256", 16),
    0x1302: ("TLS_AES_256_GCM_SHA384", "sha384", 32),
    0x1303: ("TLS_CHACHA20_POLY1305_SHA256", "sha256", 32),
    0x009C: ("AES128-GCM-SHA256", "sha256", 16),
    0x009D: ("AES256-GCM-SHA384", "sha384", 32),
    0xC02B: ("ECDHE-ECDSA-AES128-GCM-SHA256", "sha256", 16),
    0xC02C: ("ECDHE-ECDSA-AES256-GCM-SHA384", "sha384", 32),
    0xC02F: ("ECDHE-RSA-AES128-GCM-SHA256", "sha256", 16),
    0xC030: ("ECDHE-RSA-AES256-GCM-SHA384", "sha384", 32),
    0xCCA8: ("ECDHE-RSA-CHACHA20-POLY1305", "sha256", 32),
    0x002F: ("AES128-SHA", "sha256", 16),
    0x0035: ("AES256-SHA", "sha256", 32),
    0xC009: ("ECDHE-ECDSA-AES128-SHA", "sha256", 16),
    0xC00A: ("ECDHE-ECDSA-AES256-SHA", "sha256", 32),
    0xC013: ("ECDHE-RSA-AES128-SHA", "sha256", 16),
    0xC014: ("ECDHE-RSA-AES256-SHA", "sha256", 32),
    0xCCA9: ("ECDHE-ECDSA-CHACHA20-POLY1305", "sha256", 32),
}


class TlsDecodeError(TransientError):
    """Connection that cannot be decoded: unknown parameters, no secrets, or altered data."""


class NotTlsError(TlsDecodeError):
    """Data that is not a TLS record."""


class TlsSecrets:
    """Secrets of TLS connections, by the client's random value and their label. Thread-safe."""

    def __init__(self, limit: int = SECRETS_LIMIT) -> None:
        self._connections: LRUCache[str, dict[str, bytes]] = LRUCache(limit)
        self._change = threading.Condition()

    def add(self, lines: Iterable[str]) -> None:
        """Add lines of a key log, ``LABEL RANDOM SECRET``; others are ignored."""
        with self._change:
            for line in lines:
                label, _, rest = line.partition(" ")
                random, _, secret = rest.partition(" ")
                with suppress(ValueError):
                    self._connections.setdefault(random, {})[label] = bytes.fromhex(secret)
            self._change.notify_all()

    def wait(self, random: bytes, label: str, patience_s: float) -> bytes | None:
        """Return the secret once it is there; None after the time."""
        key = random.hex()
        with self._change:
            return self._change.wait_for(lambda: self._connections.get(key, {}).get(label), patience_s)


class _RecordProtection:
    """Record protection of one direction under one key."""

    def __init__(self, name: str, key: bytes, iv: bytes, *, modern: bool) -> None:
        self._modern = modern  # TLS 1.3
        self._implicit = modern or "CHACHA" in name  # whether nonces are not sent
        self._aead = ChaCha20Poly1305(key) if "CHACHA" in name else AESGCM(key)
        self._iv = iv
        self._number = 0

    def open(self, header: bytes, data: bytes) -> tuple[int, bytes]:
        """Return content type and content of the next record."""
        number = struct.pack(">Q", self._number)
        self._number += 1
        if self._implicit:
            mask = int.from_bytes(self._iv, "big") ^ int.from_bytes(number, "big")
            nonce = mask.to_bytes(12, "big")
        else:
            nonce, data = self._iv + data[:8], data[8:]
        bound = header
        if not self._modern:
            bound = number + header[:3] + struct.pack(">H", max(len(data) - 16, 0))
        try:
            content = self._aead.decrypt(nonce, data, bound)
        except (InvalidTag, ValueError) as error:
            raise TlsDecodeError("A TLS record cannot be decrypted.") from error
        if not self._modern:
            return header[0], content
        content = content.rstrip(b"\0")  # padding
        return (content[-1], content[:-1]) if content else (0, b"")


class _CbcProtection:
    """Record protection by AES-CBC and HMAC-SHA-1 (RFC 5246, 6.2.3.2; encrypted first: RFC 7366)."""

    def __init__(self, key: bytes, mac_key: bytes, *, encrypts_first: bool) -> None:
        self._cipher, self._mac_key = algorithms.AES(key), mac_key
        self._encrypts_first = encrypts_first
        self._number = 0

    def open(self, header: bytes, data: bytes) -> tuple[int, bytes]:
        """See `_RecordProtection.open`."""
        bound = struct.pack(">Q", self._number) + header[:3]
        self._number += 1
        tag = b""
        if self._encrypts_first:
            data, tag = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
        if len(data) < 32 or len(data) % 16:
            raise TlsDecodeError("A TLS record cannot be decrypted.")
        decryptor = Cipher(self._cipher, modes.CBC(data[:16])).decryptor()
        content = decryptor.update(data[16:]) + decryptor.finalize()
        content = content[: max(len(content) - 1 - content[-1], 0)]  # padding
        authenticated = data
        if not self._encrypts_first:
            content, tag = content[:-_MAC_BYTES], content[-_MAC_BYTES:]
            authenticated = content
        bound += struct.pack(">H", len(authenticated))
        if not hmac.compare_digest(tag, hmac.digest(self._mac_key, bound + authenticated, "sha1")):
            raise TlsDecodeError("A TLS record cannot be decrypted.")
        return header[0], content


@dataclass(eq=False)
class _TlsDirection:
    """State of one direction."""

    label: str  # "CLIENT" or "SERVER"
    unread: bytearray = field(default_factory=bytearray)
    handshake: bytearray = field(default_factory=bytearray)
    protection: _RecordProtection | _CbcProtection | None = None
    is_protected: bool = False
    has_finished: bool = False  # whether its handshake is over
    secret: bytes = b""  # of TLS 1.3


class TlsDecoder:
    """Decoder of one connection; its methods return application data, or raise TlsDecodeError."""

    def __init__(self, secrets: TlsSecrets, *, patience_s: float) -> None:
        """Begin before the first byte; `patience_s` is how long a secret that is due is waited for."""
        self._secrets = secrets
        self._patience_s = patience_s
        self._client, self._server = _TlsDirection("CLIENT"), _TlsDirection("SERVER")
        self._client_random = self._server_random = b""
        self._suite = 0
        self._encrypts_first = False
        self.version = ""  # as `ssl` writes it, e.g. ``TLSv1.3``
        self.cipher = ""  # OpenSSL's name
        self.chain: tuple[bytes, ...] = ()  # the server's certificates (DER), its own first; empty when it sent none

    def from_client(self, data: bytes) -> bytes:
        """Decode what the client has sent."""
        return self._feed(self._client, data)

    def from_server(self, data: bytes) -> bytes:
        """Decode what the server has sent."""
        return self._feed(self._server, data)

    def _feed(self, side: _TlsDirection, data: bytes) -> bytes:
        side.unread += data
        contents = []
        while len(side.unread) >= 5:
            header = bytes(side.unread[:5])
            kind, size = header[0], int.from_bytes(header[3:], "big")
            if size > RECORD_LIMIT_BYTES or kind not in (_ALERT, _HANDSHAKE, _DATA, _CHANGE):
                raise NotTlsError("This is not TLS.")
            if len(side.unread) < 5 + size:
                break
            is_modern = self.version == "TLSv1.3"
            is_protected = side.is_protected and (kind == _DATA or not is_modern)
            if is_protected and kind != _CHANGE and side.protection is None:
                side.protection = self._protect(side)
                if side.protection is None:
                    break
            content = bytes(side.unread[5 : 5 + size])
            del side.unread[: 5 + size]
            if kind == _CHANGE:  # of no meaning in TLS 1.3
                side.is_protected = side.is_protected or self.version == "TLSv1.2"
                continue
            if is_protected and side.protection is not None:
                kind, content = side.protection.open(header, content)
            elif kind == _DATA:
                raise TlsDecodeError("There is data before the handshake.")
            if kind == _HANDSHAKE:
                self._read_handshake(side, content)
            elif kind == _DATA:
                contents.append(content)
        if len(side.unread) > UNREAD_LIMIT_BYTES:
            raise TlsDecodeError("The server sends data before the client's handshake ends.")
        return b"".join(contents)

    def _secret(self, side: _TlsDirection, label: str) -> bytes | None:
        """Return the secret; None when the client cannot have it yet: it has all at its first protected record."""
        is_due = side is self._client or self._client.protection is not None
        patience_s = self._patience_s if is_due or self._client.has_finished else 0.0
        secret = self._secrets.wait(self._client_random, label, patience_s)
        if secret is None and patience_s:
            raise TlsDecodeError("The browser has not logged the secrets.")
        return secret

    def _protect(self, side: _TlsDirection) -> _RecordProtection | _CbcProtection | None:
        """Return the protection of a direction with the secret for its present state; None: not yet."""
        name, digest, key_size = _SUITES[self._suite]
        if self.version == "TLSv1.3":
            if not side.secret:
                stage = "TRAFFIC_SECRET_0" if side.has_finished else "HANDSHAKE_TRAFFIC_SECRET"
                side.secret = self._secret(side, f"{side.label}_{stage}") or b""
                if not side.secret:
                    return None
            key = _expand(side.secret, b"key", key_size, digest)
            iv = _expand(side.secret, b"iv", 12, digest)
        else:
            if (master := self._secret(side, "CLIENT_RANDOM")) is None:
                return None
            is_cbc = name.endswith("SHA")
            iv_size, mac_size = (12 if "CHACHA" in name else 4), (_MAC_BYTES if is_cbc else 0)
            seed = b"key expansion" + self._server_random + self._client_random
            block = _pseudo_random(master, seed, 2 * (mac_size + key_size + iv_size), digest)
            at = 0 if side is self._client else 1
            mac_key, block = block[at * mac_size :][:mac_size], block[2 * mac_size :]
            key = block[at * key_size :][:key_size]
            if is_cbc:
                return _CbcProtection(key, mac_key, encrypts_first=self._encrypts_first)
            iv = block[2 * key_size + at * iv_size :][:iv_size]
        return _RecordProtection(name, key, iv, modern=self.version == "TLSv1.3")

    def _read_handshake(self, side: _TlsDirection, content: bytes) -> None:
        messages = side.handshake
        messages += content
        if len(messages) > HANDSHAKE_LIMIT_BYTES:
            raise TlsDecodeError("A handshake message is too long.")
        while len(messages) >= 4:
            end = 4 + int.from_bytes(messages[1:4], "big")
            if len(messages) < end:
                return
            kind, body = messages[0], bytes(messages[4:end])
            del messages[:end]
            try:
                self._read_message(side, kind, body)
            except (IndexError, struct.error) as error:
                raise TlsDecodeError("A handshake message is truncated.") from error

    def _read_message(self, side: _TlsDirection, kind: int, body: bytes) -> None:
        is_modern = self.version == "TLSv1.3"
        if kind == _CLIENT_HELLO and side is self._client:
            self._client_random = body[2:34]
        elif kind == _SERVER_HELLO and side is self._server:
            self._read_server_hello(body)
        elif kind == _CERTIFICATE and side is self._server:
            self._read_certificate(body)
        elif kind == _PACKED_CERTIFICATE and side is self._server:
            if int.from_bytes(body[:2], "big") == _BROTLI:
                packed = brotlicffi.Decompressor()
                try:
                    self._read_certificate(packed.process(body[8:], output_buffer_limit=CERTIFICATE_LIMIT_BYTES))
                except brotlicffi.error as error:
                    raise TlsDecodeError("A compressed certificate is not valid.") from error
        elif kind == _FINISHED and is_modern and not side.has_finished:
            side.has_finished = True
            side.secret, side.protection = b"", None
        elif kind == _KEY_UPDATE and is_modern:
            digest = _SUITES[self._suite][1]
            side.secret = _expand(side.secret, b"traffic upd", hashlib.new(digest).digest_size, digest)
            side.protection = None

    def _read_server_hello(self, body: bytes) -> None:
        if body[2:34] == _RETRY:
            return
        self._server_random = body[2:34]
        at = 35 + body[34]
        (self._suite,) = struct.unpack_from(">H", body, at)
        version, at = body[:2], at + 5
        while at + 4 <= len(body):
            extension, size = struct.unpack_from(">HH", body, at)
            self._encrypts_first = self._encrypts_first or extension == _ENCRYPT_THEN_MAC
            if extension == _VERSIONS:
                version = body[at + 4 : at + 6]
            at += 4 + size
        if self._suite not in _SUITES or version not in (b"\x03\x03", _TLS13):
            raise TlsDecodeError(f"The cipher suite 0x{self._suite:04x} is not decoded.")
        self.version = "TLSv1.3" if version == _TLS13 else "TLSv1.2"
        self.cipher = _SUITES[self._suite][0]
        if version == _TLS13:
            self._client.is_protected = self._server.is_protected = True

    def _read_certificate(self, body: bytes) -> None:
        is_modern = self.version == "TLSv1.3"
        chain: list[bytes] = []
        at = 3 + (1 + body[0] if is_modern else 0)
        while at + 3 <= len(body) and len(chain) < CHAIN_LIMIT:
            end = at + 3 + int.from_bytes(body[at : at + 3], "big")
            chain.append(body[at + 3 : end])
            at = end + (2 + int.from_bytes(body[end : end + 2], "big") if is_modern else 0)
        self.chain = tuple(chain)


def _expand(secret: bytes, label: bytes, size: int, digest: str) -> bytes:
    """Return HKDF-Expand-Label without context (RFC 8446, 7.1); at most one block."""
    label = b"tls13 " + label
    info = struct.pack(">HB", size, len(label)) + label + b"\0"
    return hmac.digest(secret, info + b"\x01", digest)[:size]


def _pseudo_random(secret: bytes, seed: bytes, size: int, digest: str) -> bytes:
    """Return the output of TLS 1.2's pseudo-random function (RFC 5246, 5)."""
    output, turn = b"", seed
    while len(output) < size:
        turn = hmac.digest(secret, turn, digest)
        output += hmac.digest(secret, turn + seed, digest)
    return output[:size]
