"""Signatures of WACZ files (wacz-auth 0.1.0), and the verification of a file with its signature.

An anonymous signature has the public key, and both as WebCrypto writes them: SubjectPublicKeyInfo, r and s in a row.
That of a domain is DER and has the chain of the domain's TLS certificate. A time stamp (RFC 3161) is of the base64
text of the signature. The specification has it for domains; js-wacz also adds it to anonymous signatures.
"""

import base64
import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import certifi
from asn1crypto import cms, tsp
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.x509 import verification
from rfc3161_client import (
    HashAlgorithm,
    TimestampRequestBuilder,
    TimeStampResponse,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)

from core.digests import sha256_digest
from core.errors import ConfigError, InputError, UnavailableError
from core.timestamps import parse_warc_date, warc_date
from net.tls_client import certificates_in
from warc.foreign_archives import ZIP_FAULTS, listed_resources

SPECIFICATION = "0.1.0"  # of wacz-auth: the `version` of a signature
STAMP_SPAN = timedelta(minutes=10)  # between `created` and the time stamp (wacz-auth, Verification, 7)
_DESCRIPTIONS = ("datapackage.json", "datapackage-digest.json")
_DESCRIPTION_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20
_COMMON = frozenset({"hash", "created", "signature"})
_ANONYMOUS = frozenset({"publicKey"})
_STAMP = frozenset({"timeSignature", "timestampCert"})
_DOMAIN = frozenset({"domain", "domainCert"}) | _STAMP
_OPTIONAL = frozenset({"software", "version", "crossSignedCert"})
_CHAIN_ERROR = re.compile(r'Verify error: ([^"]+)')  # within OpenSSL's stack of errors
_SHA256 = ec.ECDSA(hashes.SHA256())


@dataclass(frozen=True, slots=True)
class WaczSigner:
    """Key of the operator; with a certificate chain it signs for a domain."""

    key: ec.EllipticCurvePrivateKey
    software: str
    now: Callable[[], datetime]
    chain: Sequence[x509.Certificate] = ()  # the domain's certificate first
    send_query: Callable[[bytes], bytes] | None = None  # to a time-stamp authority; returns its response

    def sign(self, digest: str) -> dict[str, str]:
        """Return the ``signedData`` of a digest, ``sha256:…``; UnavailableError: no valid time stamp."""
        der = self.key.sign(digest.encode(), _SHA256)
        signed = {"hash": digest, "created": warc_date(self.now()), "software": self.software, "version": SPECIFICATION}
        if self.chain:
            signature, holder = der, {"domain": domain_of(self.chain[0]), "domainCert": _pem(self.chain)}
        else:
            size = (self.key.key_size + 7) // 8
            signature = b"".join(number.to_bytes(size, "big") for number in utils.decode_dss_signature(der))
            holder = {"publicKey": base64.b64encode(_public_bytes(self.key)).decode()}
        signed |= {"signature": base64.b64encode(signature).decode(), **holder}
        if self.send_query is not None:
            text = signed["signature"].encode()
            query = TimestampRequestBuilder().data(text).hash_algorithm(HashAlgorithm.SHA256).build()
            try:
                answer = self.send_query(query.as_bytes())
                response = _decode_stamp(answer)
                info, signers = response.tst_info, _stamp_chain(response)
                is_ours = info.message_imprint.message == hashlib.sha256(text).digest() and info.nonce == query.nonce
            except ValueError as error:
                raise UnavailableError(f"The time-stamp authority refused, or sent no time stamp: {error}.") from error
            if not is_ours or not signers:
                raise UnavailableError("The time-stamp authority sent a time stamp for other data, or no certificate.")
            signed |= {"timeSignature": base64.b64encode(answer).decode(), "timestampCert": _pem(signers)}
        return signed


def read_signing_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read an EC key, PEM without a password; raises ConfigError."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"The signing key {path} cannot be read: {error}. It must be PEM without a password."
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(
            f"{path} is not an EC key. Create one: openssl ecparam -name secp384r1 -genkey -noout -out {path.name}"
        )
    return key


def read_signing_chain(path: Path, key: ec.EllipticCurvePrivateKey, now: datetime) -> list[x509.Certificate]:
    """Read the certificate chain of the key's domain; ConfigError: of another key, not valid now, or no name."""
    chain = read_certificates(path)
    if _public_bytes(chain[0]) != _public_bytes(key):
        raise ConfigError(f"The first certificate of {path} is not that of the signing key.")
    if not is_valid_at(chain[0], now):
        span = f"{chain[0].not_valid_before_utc:%Y-%m-%d} to {chain[0].not_valid_after_utc:%Y-%m-%d}"
        raise ConfigError(f"The certificate {path} is valid from {span}, not now: renew it, or check the clock.")
    if not domain_of(chain[0]):
        raise ConfigError(f"The certificate {path} has no domain.")
    return chain


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Read PEM certificates; raises ConfigError."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} contains no PEM certificates: {error}.") from error


def read_public_key(path: Path) -> bytes:
    """Read the public key of a PEM public key or certificate, as DER; raises ConfigError."""
    try:
        data = path.read_bytes()
        is_certificate = b"BEGIN CERTIFICATE" in data
        return _public_bytes(
            x509.load_pem_x509_certificate(data) if is_certificate else serialization.load_pem_public_key(data)
        )
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} contains no PEM public key: {error}.") from error


def trusted_roots(also: Sequence[Path] = ()) -> list[x509.Certificate]:
    """Return the certificate authorities that Mozilla trusts and those of further PEM files; raises ConfigError."""
    roots = certificates_in(certifi.where(), strict=True)
    return roots + [each for path in also for each in read_certificates(path)]


def domain_of(certificate: x509.Certificate) -> str:
    """Return the name that a certificate is for, the common name first; empty: none, or wildcards only."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ""
    domains = [each for each in names.get_values_for_type(x509.DNSName) if "*" not in each]
    common = [str(each.value) for each in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
    return next((each for each in (*common, *domains) if each in domains), "")


def is_valid_at(certificate: x509.Certificate, moment: datetime) -> bool:
    """Return True within the certificate's validity."""
    return certificate.not_valid_before_utc <= moment <= certificate.not_valid_after_utc


def _pem(chain: Sequence[x509.Certificate]) -> str:
    return "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in chain)


def _public_bytes(holder: Any) -> bytes:
    """Return the public key of a key or a certificate as SubjectPublicKeyInfo."""
    key = holder.public_key() if hasattr(holder, "public_key") else holder
    return bytes(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))


def _decode_stamp(data: bytes) -> TimeStampResponse:
    """Decode the response of a time-stamp authority; raises ValueError.

    OpenSSL does not sort its certificates, which are not signed, as DER demands (X.690, 11.6).
    """
    try:
        response = tsp.TimeStampResp.load(data)
        content = response["time_stamp_token"]["content"]
        content["certificates"] = cms.CertificateSet(sorted(content["certificates"], key=lambda each: each.dump()))
        return decode_timestamp_response(response.dump())
    except (KeyError, TypeError) as error:
        raise ValueError(f"no time stamp: {error}") from error


def _stamp_chain(response: TimeStampResponse) -> list[x509.Certificate]:
    """Return the certificates in a time stamp, that of the signer first and each before its issuer."""
    left = [x509.load_der_x509_certificate(each) for each in response.signed_data.certificates]
    (signer,) = response.signed_data.signer_infos
    chain = [each for each in left if (each.issuer, each.serial_number) == (signer.issuer, signer.serial_number)]
    while chain and (issuer := next((each for each in left if each.subject == chain[-1].issuer), None)):
        if issuer in chain:
            break
        chain.append(issuer)
    return chain


@dataclass(frozen=True, slots=True)
class EvidenceCheck:
    """Check of a file's evidence; without a verdict it is a note."""

    name: str
    text: str
    passed: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        verdict = "note" if self.passed is None else "ok" if self.passed else "failed"
        return {"check": self.name, "verdict": verdict, "text": self.text}


class WaczVerifier:
    """Verification of WACZ files; nothing in a file is trusted because the file says so."""

    def __init__(self, roots: Sequence[x509.Certificate], *, expected_key: bytes | None = None) -> None:
        """`expected_key`: DER of the public key that files must be signed with; None: any."""
        self._roots = list(roots)
        self._expected_key = expected_key

    def verify(self, path: Path, on_bytes: Callable[[int], None] = lambda _count: None) -> list[EvidenceCheck]:
        """Return the checks of a file in the order of the specification; InputError: it is not a ZIP file."""
        try:
            with zipfile.ZipFile(path) as archive:
                return list(self._checks(archive, on_bytes))
        except (OSError, *ZIP_FAULTS) as error:
            raise InputError(f"{path} cannot be read as a WACZ file: {error}.") from error

    def _checks(self, archive: zipfile.ZipFile, on_bytes: Callable[[int], None]) -> Iterator[EvidenceCheck]:
        documents: list[tuple[bytes, Mapping[str, Any]]] = []
        for name in _DESCRIPTIONS:
            data, document, problem = b"", None, ""
            try:
                with archive.open(name) as entry:
                    data = entry.read(_DESCRIPTION_BYTES + 1)
                if len(data) > _DESCRIPTION_BYTES:
                    problem = "has more than 64 MB"
                elif not isinstance(document := json.loads(data), dict):
                    problem = "is JSON, but not an object"
            except KeyError:
                problem = "is missing" if name == _DESCRIPTIONS[0] else ""
            except (ValueError, RecursionError) as error:
                problem = f"is not valid JSON: {error}"
            except ZIP_FAULTS as error:
                problem = f"is damaged: {error}"
            if problem:
                yield EvidenceCheck("package", f"{name} {problem.rstrip('.')}.", passed=False)
                return
            documents.append((data, document or {}))
        (package_data, package), (_, digest) = documents
        yield self._entries(archive, package, on_bytes)
        if not digest:
            yield self._unsigned(f"There is no {_DESCRIPTIONS[1]}.")
            return
        actual = sha256_digest(package_data)
        is_equal = digest.get("hash") == actual
        text = f"datapackage.json {'has the digest of' if is_equal else 'was changed: it is not that of'}"
        yield EvidenceCheck("package", f"{text} datapackage-digest.json.", passed=is_equal)
        if (signed := digest.get("signedData")) is None:
            yield self._unsigned("The file is not signed.")
        elif problem := form_problem(signed):
            yield EvidenceCheck("signature", problem, passed=False)
        else:
            yield from self._signature(signed, actual)

    def _unsigned(self, text: str) -> EvidenceCheck:
        return EvidenceCheck("signature", text, passed=None if self._expected_key is None else False)

    def _entries(
        self, archive: zipfile.ZipFile, package: Mapping[str, Any], on_bytes: Callable[[int], None]
    ) -> EvidenceCheck:
        """Compare each entry of the file with its digest and size in the data package."""
        rows = listed_resources(package)
        listed = {str(each.get("path")): each for each in rows}
        names = [each.filename for each in archive.infolist() if not each.is_dir()]
        faults = [f"{name} is not listed" for name in names if name not in listed and name not in _DESCRIPTIONS]
        faults += [f"{name} is missing" for name in listed if name not in names]
        if len(set(names)) != len(names) or len(listed) != len(rows):
            faults.append("a name occurs twice")
        for name in sorted(listed.keys() & set(names)):
            kind, _, wanted = str(listed[name].get("hash")).partition(":")
            if kind not in {"sha256", "sha384", "sha512"}:
                faults.append(f"{name} has no SHA-2 digest")
                continue
            digest, left = hashlib.new(kind), listed[name].get("bytes")
            size = 0
            try:
                with archive.open(name) as entry:
                    # No further than it may be long: a small entry may be decompressed to terabytes.
                    while (piece := entry.read(_CHUNK_BYTES)) and (not isinstance(left, int) or size <= left):
                        digest.update(piece)
                        size += len(piece)
                        on_bytes(len(piece))
            except ZIP_FAULTS as error:
                faults.append(f"{name} cannot be read: {error}")
                continue
            if digest.hexdigest() != wanted or left not in (None, size):
                faults.append(f"{name} was changed: its digest differs")
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        text = f"{'; '.join(faults[:5])}{more}." if faults else f"{len(listed):,} entries match their digests."
        return EvidenceCheck("entries", text, passed=not faults)

    def _signature(self, signed: Mapping[str, str], actual: str) -> Iterator[EvidenceCheck]:
        """Yield the checks of a signature of the right form; `actual` is the digest of datapackage.json."""
        certificates: dict[str, list[x509.Certificate]] = {}
        try:
            for name in ("domainCert", "timestampCert", "crossSignedCert"):
                if signed.get(name):
                    certificates[name] = x509.load_pem_x509_certificates(signed[name].encode())
            domain_chain = certificates.get("domainCert", [])
            key: Any = (
                domain_chain[0].public_key()
                if domain_chain
                else serialization.load_der_public_key(base64.b64decode(signed["publicKey"], validate=True))
            )
            signature = base64.b64decode(signed["signature"], validate=True)
            created = parse_warc_date(signed["created"])
        except (ValueError, InputError, UnsupportedAlgorithm) as error:
            yield EvidenceCheck("signature", f"A key, certificate, date or text cannot be read: {error}.", passed=False)
            return
        is_signed = signed["hash"] == actual and is_signature(key, signature, actual.encode())
        fingerprint = hashlib.sha256(_public_bytes(key)).hexdigest()
        text = f"Signed by the key with SHA-256 {fingerprint}." if is_signed else "It does not match this file and key."
        yield EvidenceCheck("signature", text, passed=is_signed)
        if self._expected_key is not None:
            is_expected = _public_bytes(key) == self._expected_key
            yield EvidenceCheck(
                "key", f"It is {'the expected' if is_expected else 'a different'} key.", passed=is_expected
            )
        elif not domain_chain:
            yield EvidenceCheck("key", "Anyone can make such a key: compare it with the signer's (--key FILE).")
        moment = created
        if "timeSignature" in signed:
            stamped, problem = self._time_stamp(signed, certificates["timestampCert"])
            if not problem and stamped is not None and abs(stamped - created) > STAMP_SPAN:
                problem = f"It is of {warc_date(stamped)}, more than 10 minutes from {signed['created']}."
            moment = created if stamped is None or problem else stamped
            yield EvidenceCheck("time stamp", problem or f"Signed at {warc_date(moment)}.", passed=not problem)
        if domain_chain:
            domain = signed["domain"]
            problem = chain_problem(domain_chain, self._roots, domain, moment)
            crossed = certificates.get("crossSignedCert")
            if crossed and _public_bytes(crossed[0]) != _public_bytes(key):
                problem = "The cross-signed certificate is for another key."
            elif crossed and problem and not chain_problem(crossed, self._roots, domain, moment):
                problem = ""
            yield EvidenceCheck("domain", problem or f"The key is certified for {domain}.", passed=not problem)

    def _time_stamp(self, signed: Mapping[str, str], chain: Sequence[x509.Certificate]) -> tuple[datetime | None, str]:
        """Return the moment of a valid time stamp of the signature; else the problem."""
        try:
            response = _decode_stamp(base64.b64decode(signed["timeSignature"], validate=True))
            if not set(_stamp_chain(response)[:1]) & set(chain):
                return None, "timestampCert is not the certificate that signed it."
            # No intermediate certificates of the file: the library trusts all that it is given. Those in the
            # time stamp itself serve as intermediates.
            VerifierBuilder(roots=self._roots).build().verify_message(response, signed["signature"].encode())
        except (ValueError, VerificationError) as error:
            if reason := _CHAIN_ERROR.search(str(error)):
                return None, f"No trusted authority certifies its signer: {reason[1]}. --trust FILE adds authorities."
            return None, f"It is not valid: {error}."
        return response.tst_info.gen_time, ""


def form_problem(signed: Any) -> str:
    """Return why ``signedData`` has neither form of the specification; empty when it has one."""
    if not isinstance(signed, dict) or not all(isinstance(each, str) for each in signed.values()):
        return "signedData must be an object of strings."
    keys = {name for name, value in signed.items() if value}
    form = _ANONYMOUS if "publicKey" in keys else _DOMAIN
    if missing := (_COMMON | form | (_STAMP if keys & _STAMP else frozenset())) - keys:
        return f"signedData has no {', '.join(sorted(missing))}."
    if unknown := keys - _COMMON - form - _STAMP - _OPTIONAL:
        return f"signedData must not have {', '.join(sorted(unknown))[:200]}."
    return ""


def is_signature(key: Any, signature: bytes, data: bytes) -> bool:
    """Return True for an ECDSA signature with SHA-256, in DER or as r and s in a row."""
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    half = (key.key_size + 7) // 8
    forms = [signature]
    if len(signature) == 2 * half:
        numbers = (int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big"))
        forms.append(utils.encode_dss_signature(*numbers))
    for each in forms:
        with suppress(InvalidSignature):
            key.verify(each, data, _SHA256)
            return True
    return False


def chain_problem(
    chain: Sequence[x509.Certificate], roots: Sequence[x509.Certificate], domain: str, moment: datetime
) -> str:
    """Return why the chain does not certify the domain at that moment; empty when it does."""
    if not is_valid_at(chain[0], moment):
        leaf = chain[0]
        span = f"{leaf.not_valid_before_utc:%Y-%m-%d} to {leaf.not_valid_after_utc:%Y-%m-%d}"
        return f"The certificate was not valid on {warc_date(moment)}, only from {span}."
    try:
        policy = verification.PolicyBuilder().store(verification.Store(list(roots))).time(moment.replace(tzinfo=None))
        policy.build_server_verifier(x509.DNSName(domain)).verify(chain[0], list(chain[1:]))
    except (ValueError, verification.VerificationError) as error:
        return f"No trusted authority certifies the key for {domain[:100]}: {error}. --trust FILE adds authorities."
    return ""
