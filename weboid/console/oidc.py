"""Sign-in at an OpenID Connect provider: authorization code flow with PKCE, state, nonce and `iss` (RFC 9207).

Everything the provider sends is checked before it is used: its metadata names the configured issuer, its addresses
have TLS, answers are bounded in size and time, redirects are not followed, and an ID token is accepted with an
asymmetric signature of the provider's own keys only.
"""

import base64
import hmac
import json
import secrets
import ssl
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import httpx

from core.clock import Clock
from core.errors import ConfigError, InputError, UnavailableError
from playback.web.i18n import noop
from weboid.app.collection_config import CollectionConfig, is_secure_address
from weboid.console.accounts import ConsoleRole, secret_digest

ATTEMPT_AGE = timedelta(minutes=10)
ATTEMPTS_LIMIT = 1_000  # sign-ins in progress; the oldest are forgotten
METADATA_AGE = timedelta(hours=1)
KEYS_INTERVAL = timedelta(minutes=1)  # at least, between two fetches of the keys for tokens of unknown ones
RESPONSE_BYTES, RESPONSE_S = 256 << 10, 10.0
CLOCK_LEEWAY_S = 60
# Asymmetric only: with "none" or HS256 anyone who knows the client's id or a public key could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
_ROLES: Final = list(ConsoleRole)


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Table ``[oidc]`` of ``weboid.toml``."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)  # empty: a public client
    scopes: str = "openid profile email"
    role_claim: str = "groups"
    roles: Mapping[str, str] = field(default_factory=dict)  # value of the claim -> role
    default_role: str = ""  # of users with none of these values; empty: they are refused


class ProviderRefusalError(InputError):
    """The provider refused the sign-in, or its answer is not valid."""


def read_provider(config: CollectionConfig) -> ProviderSettings | None:
    """Return the provider of the configuration; None without one. Raises ConfigError with file and line."""
    values = config.provider()
    path = values.pop("secret_file", "")
    if path:
        try:
            values["client_secret"] = Path(config.path.parent, path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{config.place('oidc', 'secret_file')}: {path} cannot be read: {error}.") from error
    return ProviderSettings(**values) if values else None


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """Sign-in in progress."""

    binding: bytes  # SHA-256 of the browser's cookie
    nonce: str
    verifier: str
    began: datetime


class IdentityProvider:
    """Client of an OpenID Connect provider. Thread-safe."""

    def __init__(self, settings: ProviderSettings, redirect_uri: str, clock: Clock) -> None:
        """Remember the provider; nothing is fetched before the first sign-in."""
        self._settings = settings
        self._redirect_uri = redirect_uri
        self._clock = clock
        self._lock = threading.Lock()
        self._attempts: OrderedDict[str, SignInAttempt] = OrderedDict()
        self._metadata: tuple[datetime, dict[str, Any]] | None = None
        self._keys: tuple[datetime, dict[str, Any]] | None = None

    def begin(self) -> tuple[str, str]:
        """Return the address that the browser is sent to, and its cookie. Raises UnavailableError."""
        endpoint = self._discover()["authorization_endpoint"]
        state, nonce, verifier, cookie = (secrets.token_urlsafe(32) for _ in range(4))
        now = self._clock.now()
        with self._lock:
            self._attempts[state] = SignInAttempt(secret_digest(cookie), nonce, verifier, now)
            while len(self._attempts) > ATTEMPTS_LIMIT:
                self._attempts.popitem(last=False)
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": self._settings.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(secret_digest(verifier)).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", cookie

    def complete(self, query: Mapping[str, str], cookie: str) -> tuple[str, str, ConsoleRole]:
        """Return unique subject, name and role of who signed in. Raises ProviderRefusalError, UnavailableError.

        `query` is that of the callback. A `sub` is unique together with its issuer.
        """
        with self._lock:
            attempt = self._attempts.pop(query.get("state", ""), None)
        is_ours = attempt is not None and hmac.compare_digest(attempt.binding, secret_digest(cookie))
        if attempt is None or not is_ours or self._clock.now() - attempt.began > ATTEMPT_AGE:
            raise ProviderRefusalError(
                noop("This sign-in was not started in this browser, or has expired. Sign in again.")
            )
        metadata = self._discover()
        issuer = query.get("iss")  # RFC 9207: the answer of another provider is refused before its code is sent
        is_required = metadata.get("authorization_response_iss_parameter_supported") is True
        if (issuer is None and is_required) or (issuer is not None and issuer != self._settings.issuer):
            raise ProviderRefusalError(noop("The answer comes from another identity provider. Sign in again."))
        if "error" in query or not query.get("code"):
            reason = "".join(each for each in query.get("error", "no code")[:100] if each.isprintable())
            raise ProviderRefusalError(f"The identity provider refused the sign-in ({reason}).")
        form = {
            "grant_type": "authorization_code",
            "code": query["code"],
            "redirect_uri": self._redirect_uri,
            "client_id": self._settings.client_id,
            "code_verifier": attempt.verifier,
        }
        auth: tuple[str, str] | None = None
        if self._settings.client_secret:
            methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
            if "client_secret_basic" in methods:
                quoted = (
                    urlencode({"": each})[1:] for each in (self._settings.client_id, self._settings.client_secret)
                )
                auth = (next(quoted), next(quoted))  # RFC 6749 2.3.1
            else:
                form["client_secret"] = self._settings.client_secret
        answer = self._fetch(metadata["token_endpoint"], form=form, auth=auth)
        claims = self._claims(answer.get("id_token"), metadata, attempt.nonce)
        subject = claims["sub"]
        if not subject or len(subject) > 255 or not subject.isascii():
            raise ProviderRefusalError(noop("The identity provider's token has no valid subject."))
        values = claims.get(self._settings.role_claim, ())
        held = values if isinstance(values, list) else [values]
        granted = [ConsoleRole(role) for value, role in self._settings.roles.items() if value in held]
        role = max(granted, key=_ROLES.index, default=self._settings.default_role)
        if not role:
            raise ProviderRefusalError(noop("Your account has no role in this archive. Ask an administrator for one."))
        names = (claims.get(key) for key in ("preferred_username", "name", "email", "sub"))
        name = next(each for each in names if isinstance(each, str) and each.strip())
        shown = "".join(each for each in name if each.isprintable() and each != ":").strip()[:100] or "user"
        return f"{self._settings.issuer} {subject}", shown, ConsoleRole(role)

    def _claims(self, token: Any, metadata: Mapping[str, Any], nonce: str) -> dict[str, Any]:
        """Return the claims of a valid ID token (OpenID Connect Core 3.1.3.7)."""
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError
        from joserfc.jwk import KeySet

        if not isinstance(token, str):
            raise ProviderRefusalError(noop("The identity provider sent no ID token."))
        client = self._settings.client_id
        offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        algorithms = [each for each in ALGORITHMS if each in offered]
        try:
            try:
                claims = jwt.decode(token, KeySet.import_key_set(self._key_set(metadata)), algorithms).claims
            except InvalidKeyIdError:  # the provider may have changed its keys
                keys = self._key_set(metadata, is_unknown=True)
                claims = jwt.decode(token, KeySet.import_key_set(keys), algorithms).claims
            registry = jwt.JWTClaimsRegistry(
                now=lambda: int(self._clock.now().timestamp()),
                leeway=CLOCK_LEEWAY_S,
                iss={"essential": True, "value": self._settings.issuer},
                aud={"essential": True, "value": client},
                exp={"essential": True},
                iat={"essential": True},
                sub={"essential": True},
                nonce={"essential": True, "value": nonce},
            )
            registry.validate(claims)
        except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ProviderRefusalError(f"The identity provider's token is not valid ({error}).") from error
        if claims.get("azp", client) != client or claims["aud"] not in (client, [client]):
            raise ProviderRefusalError(noop("The identity provider's token is for another program."))
        return dict(claims)

    def _discover(self) -> dict[str, Any]:
        with self._lock:
            known, now = self._metadata, self._clock.now()
        if known is not None and now - known[0] < METADATA_AGE:
            return known[1]
        document = self._fetch(f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self._settings.issuer:
            raise UnavailableError("The identity provider names another issuer than [oidc] in weboid.toml.")
        for key in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not is_secure_address(document.get(key)):
                raise UnavailableError(f"The identity provider's {key} is not an https address.")
        for key in ("id_token_signing_alg_values_supported", "token_endpoint_auth_methods_supported"):
            if not isinstance(document.get(key, []), list):
                raise UnavailableError(f"The identity provider's {key} is not a list.")
        with self._lock:
            self._metadata = now, document
        return document

    def _key_set(self, metadata: Mapping[str, Any], *, is_unknown: bool = False) -> Any:
        """Return the provider's keys, fetched again for an unknown one, at most once in `KEYS_INTERVAL`."""
        with self._lock:
            known, now = self._keys, self._clock.now()
        if known is not None and now - known[0] < (KEYS_INTERVAL if is_unknown else METADATA_AGE):
            return known[1]
        keys = self._fetch(metadata["jwks_uri"])
        with self._lock:
            self._keys = now, keys
        return keys

    def _fetch(
        self, address: str, *, form: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the JSON object at an address, asked by POST with a form."""
        host = urlsplit(address).hostname
        deadline = self._clock.monotonic() + RESPONSE_S
        body, status = bytearray(), 0
        method = "GET" if form is None else "POST"
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        try:
            with (
                httpx.Client(verify=_tls(), timeout=RESPONSE_S, trust_env=False, follow_redirects=False) as client,
                client.stream(method, address, data=form, auth=auth, headers=headers) as answer,
            ):
                for part in answer.iter_raw():
                    body += part
                    if len(body) > RESPONSE_BYTES or self._clock.monotonic() > deadline:
                        raise UnavailableError(f"The answer of {host} is too large or too slow.")
                status = answer.status_code
            value = json.loads(body) if status == 200 else None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise UnavailableError(f"The identity provider {host} cannot be reached: {error}.") from error
        except (ValueError, RecursionError):
            value = None
        if form is not None and status in (400, 401):
            raise ProviderRefusalError(noop("The identity provider did not accept the sign-in. Sign in again."))
        if not isinstance(value, dict):
            raise UnavailableError(f"The identity provider {host} answered with HTTP {status}, without a JSON object.")
        return value


@cache
def _tls() -> ssl.SSLContext:
    """Return the settings of TLS, whose certificates take a tenth of a second to load."""
    return httpx.create_ssl_context(trust_env=False)
