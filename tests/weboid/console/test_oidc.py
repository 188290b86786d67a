"""Sign-in at an identity provider: a whole one, and one that lies."""

import base64
import hmac
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import ConfigError, UnavailableError
from core.layout import Layout
from tests.support.console_server import serving
from tests.support.loopback import LoopbackServer
from weboid.app.collection_config import read_config
from weboid.console.oidc import IdentityProvider, ProviderRefusalError, ProviderSettings, read_provider
from weboid.console.server import create_app, open_stores

CALLBACK = "http://127.0.0.1:9/oidc/callback"


@cache
def signing_key(_signer: str = "provider") -> RSAKey:
    """Generate the key of the provider, or of another signer under the same key id."""
    return RSAKey.generate_key(2048, {"kid": "one"})


def test_a_whole_provider_signs_in() -> None:
    """Authlib's server, asked as a browser asks it; the groups of the person give the role."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from oidc_provider_mock import User, run_server_in_thread

        person = User(sub="ada", claims={"name": "Ada", "groups": ["staff", "editors"]})
        with run_server_in_thread(require_nonce=True, user_claims=[person]) as server:
            issuer = f"http://localhost:{server.server_port}"
            roles = {"editors": "curator", "staff": "reader"}
            provider = IdentityProvider(ProviderSettings(issuer, "weboid", "s", roles=roles), CALLBACK, SystemClock())
            address, cookie = provider.begin()
            answer = httpx.post(address, data={"sub": "ada"}, timeout=120)
            query = _query(answer.headers["location"])

            identity = provider.complete(query, cookie)

            assert identity == (f"{issuer} ada", "Ada", "curator")
            with pytest.raises(ProviderRefusalError, match="not started"):  # a second time
                provider.complete(query, cookie)


@dataclass
class HostileProvider:
    """A provider whose answers a test changes."""

    issuer: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=lambda: {"alg": "RS256", "kid": "one"})
    key: Any = field(default_factory=signing_key)
    body: bytes | None = None  # of the token's answer
    codes: list[str] = field(default_factory=list)  # that were sent to it

    def answer(self, path: str, form: dict[str, str]) -> bytes:
        """Return the response body for a path."""
        if path == "/keys":
            return json.dumps({"keys": [signing_key().as_dict(private=False)]}).encode()
        if path == "/token":
            self.codes.append(form["code"])
            return self.body if self.body is not None else json.dumps({"id_token": self.token()}).encode()
        known = {"authorization_endpoint": "/auth", "token_endpoint": "/token", "jwks_uri": "/keys"}
        endpoints = {key: self.issuer + value for key, value in known.items()}
        return json.dumps({"issuer": self.issuer, **endpoints, **self.metadata}).encode()

    def token(self) -> str:
        """Return the claims as a token, signed as its header says."""
        if self.header["alg"] == "none":
            signed = jwt.encode({"alg": "RS256"}, self.claims, signing_key())
            return f"eyJhbGciOiJub25lIn0.{signed.split('.')[1]}."
        if self.header["alg"] == "HS256":  # by hand: libraries refuse a public key as a secret
            parts = [base64.urlsafe_b64encode(json.dumps(each).encode()) for each in (self.header, self.claims)]
            text = b".".join(part.rstrip(b"=") for part in parts)
            digest = base64.urlsafe_b64encode(hmac.digest(self.key, text, "sha256")).rstrip(b"=")
            return (text + b"." + digest).decode()
        return jwt.encode(self.header, self.claims, self.key)


@pytest.fixture(scope="module")
def origin() -> Iterator[tuple[str, list[HostileProvider]]]:
    """Serve a provider; yield the origin and a list with the current provider."""
    current = [HostileProvider()]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            form = {key: each[0] for key, each in parse_qs(self.rfile.read(length).decode()).items()}
            body = current[0].answer(self.path, form)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Write no log."""

    with LoopbackServer(Handler) as server:
        yield server.origin, current


@pytest.fixture
def hostile(origin: tuple[str, list[HostileProvider]]) -> HostileProvider:
    """Install a provider that answers honestly until a test changes it, and return it."""
    origin[1][0] = HostileProvider(origin[0])
    return origin[1][0]


def sign_in(hostile: HostileProvider, *, query: dict[str, str] | None = None, **claims: Any) -> str:
    """Sign in and return the name; a refusal raises."""
    settings = ProviderSettings(hostile.issuer, "weboid", default_role="reader")
    provider = IdentityProvider(settings, CALLBACK, SystemClock())
    address, cookie = provider.begin()
    fields = _query(address)
    now = int(time.time())
    honest = {"iss": hostile.issuer, "aud": "weboid", "sub": "1", "iat": now, "exp": now + 60, "nonce": fields["nonce"]}
    merged = {**honest, "name": "Eve", **claims}
    hostile.claims = {key: value for key, value in merged.items() if value is not None}
    return provider.complete({"state": fields["state"], "code": "c", **(query or {})}, cookie)[1]


def test_an_honest_answer_is_accepted(hostile: HostileProvider) -> None:
    """So that the refusals below are for their own reasons; names lose what is not printable."""
    assert sign_in(hostile, name="Eve\x00:\n") == "Eve"


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "other"},
        {"nonce": None},
        {"aud": "another"},
        {"aud": ["weboid", "another"]},
        {"aud": None},
        {"azp": "another"},
        {"iss": "https://other.example"},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"iat": 9_000_000_000},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "x" * 256},
        {"aud": ["weboid", {"a": 1}]},
    ],
    ids=str,
)
def test_wrong_claims_are_refused(hostile: HostileProvider, claims: dict[str, Any]) -> None:
    """Every claim that OpenID Connect Core 3.1.3.7 has checked."""
    with pytest.raises(ProviderRefusalError):
        sign_in(hostile, **claims)


def test_a_signature_of_another_kind_is_refused(hostile: HostileProvider) -> None:
    """None at all, one of another key, and one by the public key as a shared secret."""
    offered = {"id_token_signing_alg_values_supported": ["none", "HS256", "RS256"]}
    for header, key in (
        ({"alg": "none"}, signing_key()),
        ({"alg": "RS256", "kid": "one"}, signing_key("another")),
        ({"alg": "HS256", "kid": "one"}, signing_key().as_pem(private=False)),
    ):
        hostile.header, hostile.key, hostile.metadata = header, key, offered
        with pytest.raises(ProviderRefusalError):
            sign_in(hostile)


def test_the_answer_of_another_provider_is_refused_before_its_code_is_sent(hostile: HostileProvider) -> None:
    """The mix-up attack of RFC 9207: by a wrong `iss`, and by none where one is promised."""
    with pytest.raises(ProviderRefusalError, match="another identity provider"):
        sign_in(hostile, query={"iss": "https://other.example"})
    hostile.metadata = {"authorization_response_iss_parameter_supported": True}
    with pytest.raises(ProviderRefusalError, match="another identity provider"):
        sign_in(hostile)

    assert hostile.codes == []


def test_an_answer_for_another_browser_is_refused(hostile: HostileProvider) -> None:
    """A link with another person's code and state does not sign in as that person."""
    settings = ProviderSettings(hostile.issuer, "weboid", default_role="reader")
    provider = IdentityProvider(settings, CALLBACK, SystemClock())
    state = _query(provider.begin()[0])["state"]

    with pytest.raises(ProviderRefusalError, match="not started in this browser"):
        provider.complete({"state": state, "code": "c"}, "another cookie")


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://other.example"},
        {"token_endpoint": "http://other.example/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": 7},
        {"id_token_signing_alg_values_supported": 7},
        {"token_endpoint_auth_methods_supported": "client_secret_basic"},
        {"padding": "x" * 300_000},
    ],
    ids=lambda each: next(iter(each)),
)
def test_wrong_metadata_is_refused(hostile: HostileProvider, metadata: dict[str, Any]) -> None:
    """Another issuer, addresses without TLS, and more than a provider has to say."""
    hostile.metadata = metadata

    with pytest.raises(UnavailableError):
        sign_in(hostile)


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"id_token": "a.b.c"}', b'{"id_token": 7}', b"[" * 100_000])
def test_garbage_instead_of_a_token_is_an_error_of_ours(hostile: HostileProvider, body: bytes) -> None:
    """Never a traceback."""
    hostile.body = body

    with pytest.raises((ProviderRefusalError, UnavailableError)):
        sign_in(hostile)


@pytest.mark.parametrize("groups", [["others", 7, None], {"editors": 1}, 7, None, "editor"], ids=str)
def test_nobody_without_a_role_comes_in(hostile: HostileProvider, groups: Any) -> None:
    """Whatever the claim is, unless `default_role` is set."""
    settings = ProviderSettings(hostile.issuer, "weboid", roles={"editors": "curator"})
    provider = IdentityProvider(settings, CALLBACK, SystemClock())
    address, cookie = provider.begin()
    fields, now = _query(address), int(time.time())
    about = {"iss": hostile.issuer, "aud": "weboid", "sub": "1", "iat": now, "exp": now + 60, "nonce": fields["nonce"]}
    hostile.claims = {**about, "groups": ["others", 7, None], "name": "Eve"}

    with pytest.raises(ProviderRefusalError, match="no role"):
        provider.complete({"state": fields["state"], "code": "c"}, cookie)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('issuer = "http://id.example"\nclient_id = "a"\ndefault_role = "reader"', "https address"),
        ('issuer = "https://id.example"\ndefault_role = "reader"', "needs client_id"),
        ('issuer = "https://id.example"\nclient_id = "a"', "assigns no role"),
        ('issuer = "https://id.example"\nclient_id = "a"\nroles = { x = "root" }', "line 4.*'root' is not one of"),
        ('isuer = "https://id.example"', "line 2.*isuer is not known"),
        (
            'issuer = "https://id.example"\nclient_id = "a"\nsecret_file = "x"\ndefault_role = "reader"',
            "cannot be read",
        ),
    ],
)
def test_faults_of_the_configuration_name_their_line(tmp_path: Path, text: str, fault: str) -> None:
    """As those of other tables."""
    (tmp_path / "weboid.toml").write_text(f"[oidc]\n{text}\n")

    with pytest.raises(ConfigError, match=fault):
        read_provider(read_config(tmp_path))


def test_the_console_signs_in_by_it(tmp_path: Path, hostile: HostileProvider) -> None:
    """From the button to a session; its role is read again at the next sign-in, and a refusal shows why."""
    layout = Layout(tmp_path)
    layout.frontier_db.parent.mkdir()
    settings = ProviderSettings(hostile.issuer, "weboid", roles={"a": "admin", "b": "reader"})
    with (
        open_stores(layout, Settings(), clock=SystemClock()) as stores,
        serving(lambda origin: create_app(stores, origin=origin, oidc=settings)) as origin,
    ):

        def enter(*groups: str) -> tuple[int, str]:
            with httpx.Client(base_url=origin, verify=False, timeout=120) as client:
                assert 'href="/oidc/begin"' in client.get("/sign-in").text
                fields, now = _query(client.get("/oidc/begin").headers["location"]), int(time.time())
                about = {"aud": fields["client_id"], "nonce": fields["nonce"], "iat": now, "exp": now + 60}
                hostile.claims = {**about, "iss": hostile.issuer, "sub": "1", "name": "Eve", "groups": groups}
                answer = client.get("/oidc/callback", params={"state": fields["state"], "code": "c"})
                return answer.status_code, client.get("/console").text if answer.status_code == 200 else answer.text

        admin, reader, nobody = enter("a", "b"), enter("b"), enter()

        assert (admin[0], reader[0], nobody[0]) == (200, 200, 401)
        assert "Administrator" in admin[1]
        assert "Reader</small>" in reader[1]
        assert "no role in this archive" in nobody[1]
        assert [(each.name, each.role) for each in stores.accounts.users()] == [("Eve", "reader")]


def _query(address: str) -> dict[str, str]:
    return {key: each[0] for key, each in parse_qs(urlsplit(address).query).items()}
