"""Encrypted login files: a JSON object, whose ``sealed`` is the session, AES-256-GCM, with the rest as associated data.

The key is derived from a passphrase (scrypt, RFC 7914, at 32 MiB) or a key file (HKDF, RFC 5869), with a salt per file,
so that one key never seals two sessions.
"""

import base64
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from core.captures import check_login_name
from core.config.settings import LoginSettings
from core.errors import BadUrlError, ConfigError, InputError
from core.json_values import FactsOf, json_facts, read_json
from core.timestamps import warc_date
from render.sign_in import Login, SiteLogins, SiteSession, check_hosts
from warc.local_storage import replace_file

LOGIN_VERSION = 1
FILE_LIMIT_BYTES = 64_000_000
PASSPHRASE_LEAST = 8
KEY_BYTES = 32
_SALT_BYTES, _NONCE_BYTES = 16, 12
_SCRYPT = {"n": 1 << 15, "r": 8, "p": 1}
_PURPOSE = b"weboid login 1"
_UNVERIFIED = "unverified_tls"
_HEAD = ("version", "name", "hosts", "made_at", "expires_at", "cookies", "key", "salt", "nonce")


@dataclass(frozen=True, slots=True)
class LoginKey:
    """Secret that opens a login."""

    kind: str  # ``passphrase`` or ``file``
    secret: bytes = field(repr=False)

    def derived(self, salt: bytes) -> bytes:
        """Return the key for the file with that salt."""
        if self.kind == "file":
            kdf: HKDF | Scrypt = HKDF(SHA256(), KEY_BYTES, salt, _PURPOSE)
        else:
            kdf = Scrypt(salt, KEY_BYTES, **_SCRYPT)
        return kdf.derive(self.secret)


def passphrase_key(text: str) -> LoginKey:
    """Make the key of a passphrase. Raises InputError if it is too short."""
    if len(text) < PASSPHRASE_LEAST:
        raise InputError(f"A passphrase needs at least {PASSPHRASE_LEAST} characters.")
    return LoginKey("passphrase", text.encode())


def read_key_file(path: Path) -> LoginKey:
    """Read a key, 32 bytes in hexadecimal; ConfigError if there is none, or others than the owner can read the file."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise ConfigError(f"{path} can be read by others: chmod 600 it, and create the logins again.")
            text = file.read(1_000)
        secret = bytes.fromhex(text.decode("ascii").strip())
    except OSError as error:
        raise ConfigError(f"The key file {path} cannot be read: {error.strerror}.") from error
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise ConfigError(f"{path} contains no key of 64 hexadecimal digits.")
    return LoginKey("file", secret)


def make_key_file(path: Path) -> LoginKey:
    """Create a key in a new file with mode 0600. Raises ConfigError if it cannot be written, or exists."""
    secret = os.urandom(KEY_BYTES)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(secret.hex().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ConfigError(f"The key file {path} cannot be created: {error.strerror}.") from error
    return LoginKey("file", secret)


def seal_login(login: Login, key: LoginKey) -> bytes:
    """Encrypt a login; return its file's bytes."""
    salt, nonce = os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
    head = {
        "version": LOGIN_VERSION,
        "name": login.name,
        "hosts": list(login.hosts),
        "made_at": warc_date(login.made_at),
        "expires_at": None if login.expires_at is None else warc_date(login.expires_at),
        "cookies": len(login.session.cookies),
        "key": key.kind,
        "salt": _encode_base64(salt),
        "nonce": _encode_base64(nonce),
    }
    if login.unverified_tls:
        head[_UNVERIFIED] = True
    session = {
        "cookies": list(login.session.cookies),
        "storage": {origin: dict(items) for origin, items in login.session.storage.items()},
    }
    plain = json.dumps(session, ensure_ascii=False).encode("utf-8", "surrogatepass")
    sealed = AESGCM(key.derived(salt)).encrypt(nonce, plain, json.dumps(head, sort_keys=True).encode())
    return json.dumps({**head, "sealed": _encode_base64(sealed)}, indent=1).encode() + b"\n"


def read_login_head(data: bytes) -> Login:
    """Parse the unencrypted part of a login. Raises InputError for no login file or another version."""
    return _parsed(data)[0]


def unseal_login(data: bytes, key: LoginKey) -> Login:
    """Decrypt a login. Raises InputError if it is not a login, was changed, or the key does not fit."""
    login, head, sealed = _parsed(data)
    if login.key != key.kind:
        needed = "a passphrase" if login.key == "passphrase" else "a key file ([login] key_file)"
        raise InputError(f"The login {login.name} was made with {needed}.")
    try:
        salt, nonce = _decode_base64(head["salt"]), _decode_base64(head["nonce"])
        plain = AESGCM(key.derived(salt)).decrypt(nonce, sealed, json.dumps(head, sort_keys=True).encode())
    except (InvalidTag, ValueError, TypeError) as error:
        kind = "passphrase" if key.kind == "passphrase" else "key file"
        raise InputError(
            f"The login {login.name} cannot be decrypted: the {kind} differs, or the file was changed. Use the {kind} "
            f"that it was made with, or run weboid login again."
        ) from error
    try:
        session = json.loads(plain.decode("utf-8", "surrogatepass"))
        restored = SiteSession(tuple(session["cookies"]), session["storage"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"The login {login.name} contains no session: {error!r}.") from error
    return replace(login, session=restored)


def write_login(folder: Path, login: Login, key: LoginKey) -> Path:
    """Write or replace the login's file, for its owner only; return its path. May raise InputError."""
    path = login_path(folder, login.name)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        replace_file(path, seal_login(login, key), mode=0o600)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from error
    return path


def read_login(folder: Path, name: str) -> bytes:
    """Read the bytes of the login's file. Raises InputError if there is none, or it is far too large."""
    path = login_path(folder, name)
    try:
        with path.open("rb") as file:
            data = file.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"There is no login {name!r} in {folder}: create it with weboid login URL --name {name}, or see weboid "
            f"login ls."
        ) from error
    if len(data) > FILE_LIMIT_BYTES:
        raise InputError(f"{path} is too large for a login.")
    return data


LoginFacts = Annotated[dict[str, Any], FactsOf(
    "LoginFacts", Login, "name hosts cookies made_at expires_at unverified_tls",
)]  # fmt: skip


def login_facts(login: Login) -> LoginFacts:
    """Return what may be shown of a login as JSON values: no cookie, no stored item."""
    return json_facts(login, "name hosts cookies made_at expires_at unverified_tls")


def login_path(folder: Path, name: str) -> Path:
    """Return the path of the login of that name. Raises InputError if the name is not valid."""
    return folder / f"{check_login_name(name)}.login"


def _parsed(data: bytes) -> tuple[Login, dict[str, Any], bytes]:
    """Return (login, head, sealed bytes)."""
    try:
        document = json.loads(data)
        if document["version"] != LOGIN_VERSION:
            raise InputError(f"A login of version {document['version']!r}: run weboid login again.")
        head = {key: document[key] for key in _HEAD}
        if _UNVERIFIED in document:  # the header is authenticated with the rest
            head[_UNVERIFIED] = document[_UNVERIFIED]
        login = read_json(Login, head, name="login file")
        check_login_name(login.name)
        check_hosts(login.hosts)
        return login, head, _decode_base64(document["sealed"])
    except (ValueError, KeyError, TypeError, AttributeError, BadUrlError) as error:
        raise InputError(f"This is not a login file: {error!r}.") from error


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def open_logins(
    folder: Path, settings: LoginSettings, *, now: datetime, ask: Callable[[], LoginKey], warn: Callable[[str], None]
) -> SiteLogins:
    """Open the logins that the settings name, without expired cookies, for which `warn` gets a sentence.

    `ask` returns the passphrase, called at most once, and only when a login needs it. Raises InputError (a login is not
    there, or does not open), ConfigError (there is no key file, or others can read it).
    """
    keys: dict[str, LoginKey] = {}
    opened = []
    for name in settings.names:
        data = read_login(folder, name)
        kind = read_login_head(data).key
        if kind not in keys:
            if kind == "file" and not settings.key_file:
                raise ConfigError(f"The login {name} was made with a key file: set it as [login] key_file.")
            keys[kind] = read_key_file(Path(settings.key_file)) if kind == "file" else ask()
        login = unseal_login(data, keys[kind])
        if login.name != name:
            raise InputError(f"The file of the login {name} contains the login {login.name}: rename it.")
        session = login.session.alive(now.timestamp())
        expired, left = len(login.session.cookies) - len(session.cookies), len(session.cookies)
        if expired:
            advice = "" if left else f": create it again with weboid login URL --name {login.name}"
            warn(f"{expired} cookies of the login {login.name} have expired, {left} are left{advice}.")
        opened.append(replace(login, session=session))
    return SiteLogins(opened)
