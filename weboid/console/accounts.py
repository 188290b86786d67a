"""Accounts of the console in `db/console.sqlite`: users, sessions, API tokens, sign-in links, audit log.

Secrets of sessions, tokens and links are 256 random bits, of which the file has the SHA-256; passwords are hashed by
Argon2id. The file is for its owner alone. An account that is changed or removed loses its sessions at once.
"""

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from core.clock import Clock
from core.errors import InputError, TransientError
from core.json_values import FactsOf
from core.urls import mask_passwords
from playback.web.i18n import noop
from warc.local_storage import enable_wal

SESSION_AGE = timedelta(days=14)
SESSION_IDLE = timedelta(hours=12)
LINK_AGE = timedelta(minutes=30)
COOKIE = "weboid_console"  # of the session
PASSWORD_LENGTH = 10  # NIST SP 800-63B asks for 8 at least
FAILURES, PEER_FAILURES = 5, 20  # failed sign-ins of a name from one address, and of an address, before it has to wait
FAILURE_WINDOW = timedelta(hours=1)
FIRST_WAIT_S, LONGEST_WAIT_S = 2, 900  # doubled with each further failure
VERIFIED_AT_ONCE = 2  # passwords; each takes 64 MiB and some 50 ms
TOKENS_LIMIT = 100  # of an account
KEY_AGE = timedelta(days=1)  # of an idempotency key
AUDIT_LENGTH = 4_000  # characters of each JSON value of a line of the audit log
BUSY_TIMEOUT_S = 30.0  # wait for the lock of the file
_NAME_LENGTH = 100
_Answer = TypeVar("_Answer", bound=Mapping[str, Any])
_SCHEMA = """
CREATE TABLE IF NOT EXISTS users (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, password TEXT NOT NULL, subject TEXT UNIQUE, added INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (
    digest BLOB PRIMARY KEY, name TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
    began INTEGER NOT NULL, used INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS tokens (
    id INTEGER PRIMARY KEY, digest BLOB UNIQUE NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, role TEXT NOT NULL,
    scopes TEXT NOT NULL, added INTEGER NOT NULL, expires INTEGER, used INTEGER);
CREATE TABLE IF NOT EXISTS links (digest BLOB PRIMARY KEY, name TEXT NOT NULL, expires INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS failures (who TEXT NOT NULL, moment INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS failures_of ON failures (who, moment);
CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY, moment INTEGER NOT NULL, actor TEXT NOT NULL, operation TEXT NOT NULL,
    fields TEXT NOT NULL, outcome TEXT NOT NULL, before TEXT NOT NULL DEFAULT '', after TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS answers (
    digest BLOB PRIMARY KEY, request BLOB NOT NULL, answer TEXT NOT NULL, moment INTEGER NOT NULL);
"""


class ConsoleRole(StrEnum):
    """Roles of accounts; each may do what those before it may."""

    READER = "reader"
    REVIEWER = "reviewer"
    CURATOR = "curator"
    OPERATOR = "operator"
    ADMIN = "admin"


_ROLES = list(ConsoleRole)


class SignInError(InputError):
    """The sign-in was refused; the message does not say whether the account exists."""


class SignInDelayError(SignInError):
    """The sign-in was refused without checking the password, because of failed ones before."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(noop("Too many failed attempts: try again in a few minutes."))
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class SignedInUser:
    """Account behind a request."""

    name: str
    role: ConsoleRole
    csrf: str = ""  # token of the session's forms; empty for an API token
    scopes: tuple[str, ...] = ()  # operations that an API token may call; none: all of its role
    session: str = ""
    token: int = 0  # number of the API token

    def may(self, role: str) -> bool:
        """Return True when the user has the role or a higher one."""
        return _ROLES.index(self.role) >= _ROLES.index(ConsoleRole(role))


@dataclass(frozen=True, slots=True)
class AccountRow:
    """Stored account."""

    name: str
    role: ConsoleRole
    is_external: bool  # signs in at an identity provider
    added: datetime


TokenFacts = Annotated[dict[str, Any], FactsOf(
    "TokenFacts", id=int, name=str, owner=str, role=ConsoleRole, scopes=list[str], added=datetime,
    expires=datetime | None, used=datetime | None,
)]  # fmt: skip
LogEntry = Annotated[dict[str, Any], FactsOf(
    "LogEntry", id=int, moment=datetime, actor=str, operation=str, fields=str, outcome=str, before=str, after=str,
)]  # fmt: skip


class ConsoleDatabase:
    """Connection to the console's SQLite file, with tables of its own. Thread-safe."""

    def __init__(self, path: Path, clock: Clock, schema: str) -> None:
        """Open the file, and create it when it is missing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        # Never close a file that SQLite has open in this process: that ends its locks (https://sqlite.org/howtocorrupt.html,
        # 2.2), and another process removes the write-ahead log under it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._clock = clock
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        self._connection.row_factory = sqlite3.Row
        enable_wal(self._connection, path)
        self._connection.executescript(f"PRAGMA foreign_keys=ON; {schema}")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _rows(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a transaction of its own; TransientError: the file is locked, or the disk is full."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError):
                    raise TransientError(f"The console's accounts cannot be used now: {error}. Try again.") from error
                raise

    @property
    def _now(self) -> int:
        return int(self._clock.now().timestamp())


class AccountStore(ConsoleDatabase):
    """Accounts of a collection's console."""

    def __init__(self, path: Path, clock: Clock, *, audit_days: int = 0) -> None:
        """Open the file. `audit_days` is how long changes are logged; 0: forever."""
        super().__init__(path, clock, _SCHEMA)
        self._audit_days = audit_days
        self._answering = [threading.Lock() for _ in range(256)]  # by the first byte of a key's digest
        self._verifying = threading.Semaphore(VERIFIED_AT_ONCE)
        if "before" not in {each["name"] for each in self._connection.execute("PRAGMA table_info(audit)")}:
            for column in ("before", "after"):  # missing in files of earlier versions
                self._connection.execute(f"ALTER TABLE audit ADD COLUMN {column} TEXT NOT NULL DEFAULT ''")

    def users(self, name: str = "") -> list[AccountRow]:
        """Return the accounts by name, or the one that is named."""
        with self._rows() as rows:
            users = rows.execute("SELECT * FROM users WHERE ? IN ('', name) ORDER BY name", (name,)).fetchall()
        return [
            AccountRow(
                row["name"],
                ConsoleRole(row["role"]),
                row["subject"] is not None,
                datetime.fromtimestamp(row["added"], UTC),
            )
            for row in users
        ]

    def set_user(self, name: str, role: ConsoleRole, *, password: str | None = None, kept_session: str = "") -> None:
        """Add an account, or change its role and password; its sessions end but for one. Raises InputError."""
        name = name.strip()
        if not 0 < len(name) <= _NAME_LENGTH or not name.isprintable() or ":" in name:
            raise InputError(
                noop("An account's name has 1 to %(count)s printable characters, and no colon."), count=_NAME_LENGTH
            )
        if password is not None and len(password) < PASSWORD_LENGTH:
            raise InputError(
                noop("The password is too short: use at least %(count)s characters."), count=PASSWORD_LENGTH
            )
        hashed = "" if password is None else _hasher().hash(password)
        with self._rows() as rows:
            before = rows.execute("SELECT * FROM users WHERE name = ?", (name,)).fetchone()
            if before is not None and before["role"] == ConsoleRole.ADMIN != role:
                _keep_admin(rows, name)
            rows.execute(
                "INSERT INTO users VALUES (?, ?, ?, NULL, ?) ON CONFLICT (name) DO UPDATE SET role = excluded.role, "
                "password = CASE excluded.password WHEN '' THEN password ELSE excluded.password END",
                (name, role, hashed, self._now),
            )
            rows.execute("DELETE FROM sessions WHERE name = ? AND digest != ?", (name, secret_digest(kept_session)))

    def change_password(self, user: SignedInUser, current: str, password: str) -> None:
        """Set the password of a session's own account; its other sessions end. Raises InputError.

        Wrong present passwords make the next attempt wait. An account that signed in by a link may have none.
        """
        with self._rows() as rows:
            row = rows.execute("SELECT * FROM users WHERE name = ? AND ? != ''", (user.name, user.session)).fetchone()
        if row is None or row["subject"] is not None:
            raise InputError(
                noop("Only accounts that sign in with a password or a link have one, and only they change it.")
            )
        if row["password"]:
            self.sign_in(user.name, current, peer=f"session of {user.name}")
        self.set_user(user.name, ConsoleRole(row["role"]), password=password, kept_session=user.session)

    def remove_user(self, name: str) -> None:
        """Remove an account with all that it has. Raises InputError if it is unknown, or the last administrator."""
        with self._rows() as rows:
            _keep_admin(rows, name)
            if not rows.execute("DELETE FROM users WHERE name = ?", (name,)).rowcount:
                raise InputError(noop("There is no account %(name)s."), name=repr(name[:_NAME_LENGTH]))
            for query in ("DELETE FROM tokens WHERE owner = ?", "DELETE FROM links WHERE name = ?"):
                rows.execute(query, (name,))

    def sign_in(self, name: str, password: str, *, peer: str) -> str:
        """Return the secret of a new session. Raises SignInError.

        Failures of a name from an address, or of an address with any names, make the next attempt from there wait,
        each time longer. Other addresses do not wait, so failures from one lock no account out elsewhere.
        """
        from argon2.exceptions import Argon2Error, InvalidHashError

        with self._verifying:  # to its end: attempts at the same time see the failures of each other
            with self._rows() as rows:
                since = self._now - int(FAILURE_WINDOW.total_seconds())
                rows.execute("DELETE FROM failures WHERE moment < ?", (since,))
                for who, free in ((f"{peer} {name}", FAILURES), (peer, PEER_FAILURES)):
                    query = "SELECT count(*), max(moment) FROM failures WHERE who = ?"
                    count, last = rows.execute(query, (who,)).fetchone()
                    over = min(FIRST_WAIT_S << min(count - free, 20), LONGEST_WAIT_S) if count >= free else 0
                    if over and last + over > self._now:
                        raise SignInDelayError(last + over - self._now)
                row = rows.execute("SELECT * FROM users WHERE name = ? AND password != ''", (name,)).fetchone()
            try:
                # Equally slow for an unknown name, so that timing does not reveal its existence.
                _hasher().verify(row["password"] if row is not None else _UNKNOWN, password)
            except (Argon2Error, InvalidHashError):
                row = None
            with self._rows() as rows:
                if row is not None:
                    rows.execute("DELETE FROM failures WHERE who = ?", (f"{peer} {name}",))
                    return self._begin(rows, name)
                failed = ((who, self._now) for who in (f"{peer} {name}", peer))
                rows.executemany("INSERT INTO failures VALUES (?, ?)", failed)
        raise SignInError(noop("Name or password is wrong."))

    def sign_in_subject(self, subject: str, name: str, role: ConsoleRole) -> str:
        """Return a session of the account with that subject of an identity provider, which gets `role`."""
        with self._rows() as rows:
            row = rows.execute("SELECT name FROM users WHERE subject = ?", (subject,)).fetchone()
            if row is None:
                holder = rows.execute("SELECT 1 FROM users WHERE name = ?", (name,)).fetchone()
                name = (
                    f"{name[:80]} {hashlib.sha256(subject.encode()).hexdigest()[:8]}" if holder else name[:_NAME_LENGTH]
                )
                rows.execute("INSERT INTO users VALUES (?, ?, '', ?, ?)", (name, role, subject, self._now))
            else:
                rows.execute("UPDATE users SET role = ? WHERE subject = ?", (role, subject))
            return self._begin(rows, row["name"] if row is not None else name)

    def _begin(self, rows: sqlite3.Connection, name: str) -> str:
        secret = secrets.token_urlsafe(32)
        rows.execute("DELETE FROM sessions WHERE used < ?", (self._now - int(SESSION_IDLE.total_seconds()),))
        rows.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", (secret_digest(secret), name, self._now, self._now))
        return secret

    def session(self, secret: str, *, is_used: bool = True) -> SignedInUser | None:
        """Return the user of a session, and note its use; None when it is unknown or over."""
        now = self._now
        with self._rows() as rows:
            row = rows.execute(
                "SELECT * FROM sessions JOIN users USING (name) WHERE digest = ?", (secret_digest(secret),)
            ).fetchone()
            if row is None:
                return None
            if self._is_over(row):
                rows.execute("DELETE FROM sessions WHERE digest = ?", (secret_digest(secret),))
                return None
            if is_used and now - row["used"] >= 60:
                rows.execute("UPDATE sessions SET used = ? WHERE digest = ?", (now, secret_digest(secret)))
        csrf = hmac.digest(secret.encode(), b"csrf", "sha256").hex()
        return SignedInUser(row["name"], ConsoleRole(row["role"]), csrf, session=secret)

    def sign_out(self, secret: str) -> None:
        """End a session."""
        with self._rows() as rows:
            rows.execute("DELETE FROM sessions WHERE digest = ?", (secret_digest(secret),))

    def make_link(self, name: str) -> str:
        """Return the secret of a link that signs the account in, once, within half an hour; make an admin if needed."""
        secret = secrets.token_urlsafe(32)
        with self._rows() as rows:
            rows.execute("INSERT INTO users VALUES (?, 'admin', '', NULL, ?) ON CONFLICT DO NOTHING", (name, self._now))
            rows.execute("DELETE FROM links WHERE expires < ?", (self._now,))
            expires = self._now + int(LINK_AGE.total_seconds())
            rows.execute("INSERT INTO links VALUES (?, ?, ?)", (secret_digest(secret), name, expires))
        return secret

    def use_link(self, secret: str) -> str:
        """Return the secret of the link's new session. Raises SignInError if the link was used or is over."""
        with self._rows() as rows:
            row = rows.execute(
                "DELETE FROM links WHERE digest = ? RETURNING name, expires", (secret_digest(secret),)
            ).fetchone()
            if row is not None and row["expires"] >= self._now:
                return self._begin(rows, row["name"])
        raise SignInError(
            noop("This link was used, or has expired. `weboid console user NAME --link` makes another one.")
        )

    def add_token(
        self,
        name: str,
        owner: SignedInUser,
        role: ConsoleRole,
        *,
        scopes: tuple[str, ...] = (),
        age: timedelta | None = None,
    ) -> str:
        """Return a new API token, which is not shown again. Raises InputError: the role is too high, or too many."""
        if not owner.may(role):
            raise InputError(
                noop("A token cannot have a higher role than its owner, who is %(role)s."), role=owner.role
            )
        secret = f"weboid_{secrets.token_urlsafe(32)}"
        expires = None if age is None else self._now + int(age.total_seconds())
        with self._rows() as rows:
            rows.execute("DELETE FROM tokens WHERE expires < ?", (self._now,))
            count = rows.execute("SELECT count(*) FROM tokens WHERE owner = ?", (owner.name,)).fetchone()[0]
            if count >= TOKENS_LIMIT:
                raise InputError(noop("You have %(count)s tokens: remove one first."), count=count)
            rows.execute(
                "INSERT INTO tokens (digest, name, owner, role, scopes, added, expires) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (secret_digest(secret), name[:_NAME_LENGTH], owner.name, role, " ".join(scopes), self._now, expires),
            )
        return secret

    def tokens(self, owner: str = "") -> list[TokenFacts]:
        """Return the API tokens, of all accounts or of one, without their secrets, the newest first."""
        columns = "id, name, owner, role, scopes, added, expires, used"
        with self._rows() as rows:
            tokens = rows.execute(f"SELECT {columns} FROM tokens WHERE ? IN ('', owner) ORDER BY id DESC", (owner,))  # noqa: S608
            return [
                {**_with_moments(each, "added", "expires", "used"), "scopes": each["scopes"].split()} for each in tokens
            ]

    def remove_token(self, number: int, *, owner: str = "") -> None:
        """Remove a token, of that owner if one is named. Raises InputError if it is unknown."""
        with self._rows() as rows:
            if not rows.execute("DELETE FROM tokens WHERE id = ? AND ? IN ('', owner)", (number, owner)).rowcount:
                raise InputError(noop("There is no token %(number)s."), number=number)

    def token(self, secret: str) -> SignedInUser | None:
        """Return the user of an API token: with the lower of its role and its owner's; None when it is unknown or has expired."""
        now = self._now
        with self._rows() as rows:
            row = rows.execute(
                "SELECT tokens.*, users.role AS of_owner FROM tokens JOIN users ON users.name = owner WHERE digest = ?",
                (secret_digest(secret),),
            ).fetchone()
            if row is None or (row["expires"] is not None and row["expires"] < now):
                return None
            if row["used"] is None or now - row["used"] >= 60:
                rows.execute("UPDATE tokens SET used = ? WHERE id = ?", (now, row["id"]))
        role = min(ConsoleRole(row["role"]), ConsoleRole(row["of_owner"]), key=_ROLES.index)
        return SignedInUser(f"{row['owner']}:{row['name']}", role, scopes=tuple(row["scopes"].split()), token=row["id"])

    def is_valid(self, user: SignedInUser) -> bool:
        """Return True while the session or token of the user holds; this does not count as its use."""
        with self._rows() as rows:
            if user.session:
                query = "SELECT began, used FROM sessions WHERE digest = ?"
                row = rows.execute(query, (secret_digest(user.session),)).fetchone()
                return row is not None and not self._is_over(row)
            query = "SELECT 1 FROM tokens WHERE id = ? AND coalesce(expires, ?) >= ?"
            return rows.execute(query, (user.token, self._now, self._now)).fetchone() is not None

    def _is_over(self, session: sqlite3.Row) -> bool:
        age, idle = self._now - session["began"], self._now - session["used"]
        return bool(age > SESSION_AGE.total_seconds() or idle > SESSION_IDLE.total_seconds())

    def log(
        self,
        actor: str,
        operation: str,
        fields: Mapping[str, Any],
        outcome: str,
        *,
        before: Any = None,
        after: Any = None,
    ) -> None:
        """Add a line to the audit log; `before` and `after` are what of the state has changed. Old lines are removed."""
        texts = ["" if not each else bounded_json(each, AUDIT_LENGTH) for each in (before, after)]
        text = bounded_json(fields, AUDIT_LENGTH)
        with self._rows() as rows:
            if self._audit_days:
                rows.execute(
                    "DELETE FROM audit WHERE id < (SELECT id FROM audit WHERE moment >= ? ORDER BY id LIMIT 1)",
                    (self._now - 86_400 * self._audit_days,),
                )
            rows.execute(
                "INSERT INTO audit (moment, actor, operation, fields, outcome, before, after)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (self._now, actor, operation, text, mask_passwords(outcome)[:500], *texts),
            )

    def log_entries(self, *, before: int | None = None, limit: int = 50) -> list[LogEntry]:
        """Return lines of the audit log before the number `before`, the newest first."""
        with self._rows() as rows:
            query = "SELECT * FROM audit WHERE ? IS NULL OR id < ? ORDER BY id DESC LIMIT ?"
            return [_with_moments(each, "moment") for each in rows.execute(query, (before, before, limit))]

    def answer_once(self, key: str, request: str, perform: Callable[[], _Answer]) -> _Answer:
        """Return the stored answer of a key, or perform and store it. Raises InputError: a key of another request."""
        # The digest of the request has the key: a request may have a password, which is easily guessed.
        digests = secret_digest(key), secret_digest(f"{key} {request}")
        # A repetition that comes while the first is carried out waits for its answer.
        with self._answering[digests[0][0]]:
            with self._rows() as rows:
                rows.execute("DELETE FROM answers WHERE moment < ?", (self._now - int(KEY_AGE.total_seconds()),))
                row = rows.execute("SELECT * FROM answers WHERE digest = ?", digests[:1]).fetchone()
            if row is None:
                answer = perform()
                public = {name: value for name, value in answer.items() if name != "token"}  # no secret is stored
                with self._rows() as rows:
                    stored = (*digests, json.dumps(public, default=str), self._now)
                    rows.execute("INSERT INTO answers VALUES (?, ?, ?, ?)", stored)
                return answer
        if row["request"] != digests[1]:
            raise InputError("This Idempotency-Key was used for another request: use a new one.")
        known: _Answer = json.loads(row["answer"])
        return known


def _keep_admin(rows: sqlite3.Connection, name: str) -> None:
    """Raise InputError if no administrator would be left without that account."""
    role = rows.execute("SELECT role FROM users WHERE name = ?", (name,)).fetchone()
    others = rows.execute("SELECT count(*) FROM users WHERE role = 'admin' AND name != ?", (name,)).fetchone()[0]
    if role is not None and role[0] == ConsoleRole.ADMIN and not others:
        raise InputError(noop("%(name)s is the last administrator: make another one first."), name=name)


def bounded_json(value: Any, length: int) -> str:
    """Return the value as JSON of at most `length` characters: long texts and lists in it are shortened.

    >>> bounded_json({"urls": ["https://a.example/", "https://b.example/"]}, 32)
    '{"urls": ["http…", "http…"]}'
    """

    def shortened(each: Any, most: int) -> Any:
        if isinstance(each, str):
            each = mask_passwords(each)
            return each if len(each) <= most else f"{each[:most]}…"
        if isinstance(each, Mapping):
            return {shortened(str(key), most): shortened(item, most) for key, item in list(each.items())[:most]}
        if isinstance(each, list | tuple):
            return [shortened(item, most) for item in each[:most]] + ["…"] * (len(each) > most)
        return each

    for most in (length, *(length >> step for step in range(1, length.bit_length()))):
        text = json.dumps(shortened(value, most), ensure_ascii=False, default=str)
        if len(text) <= length:
            return text
    return '"…"'


def secret_digest(secret: str) -> bytes:
    """Return the SHA-256 of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def _hasher() -> Any:
    from argon2 import PasswordHasher

    return PasswordHasher()  # Argon2id with the parameters of RFC 9106's second choice


# A hash with the same parameters and an unknown password.
_UNKNOWN = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$5PG0vp6EI8K5hW9L1y6S8f0NHCpxI4m7o2c9a2VqH0o"


def _with_moments(row: sqlite3.Row, *names: str) -> dict[str, Any]:
    """Return the row with these Unix seconds as moments."""
    return {**dict(row), **{name: row[name] and datetime.fromtimestamp(row[name], UTC) for name in names}}
