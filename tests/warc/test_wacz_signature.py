"""Signatures of WACZ files: what is signed verifies, and each change, wrong key, date or authority is found."""

import base64
import hashlib
import json
import shutil
import subprocess
import warnings
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from core.errors import ConfigError, InputError, UnavailableError
from tests.support.signing_authorities import SigningAuthority, write_key
from warc.foreign_archives import open_archives
from warc.wacz_signature import (
    WaczSigner,
    WaczVerifier,
    read_certificates,
    read_public_key,
    read_signing_chain,
    read_signing_key,
)
from warc.wacz_writer import WaczWriter

NOW = datetime.now(UTC).replace(microsecond=0)
DOMAIN = "archive.example"
RECORDS = b"WARC records" * 1000


def present_time() -> datetime:
    """Return the time now: OpenSSL stamps with it, however long ago this file was imported."""
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> SigningAuthority:
    """Return an authority that verifiers trust."""
    return SigningAuthority(tmp_path_factory.mktemp("pki") / "trusted", NOW)


@pytest.fixture(scope="module")
def domain_signer(authority: SigningAuthority) -> WaczSigner:
    """Return a signer for a domain, with time stamps."""
    key_file, chain_file = authority.issue(DOMAIN)
    key = read_signing_key(key_file)
    return WaczSigner(key, "tests", present_time, read_signing_chain(chain_file, key, NOW), authority.stamp)


@pytest.fixture(scope="module")
def signed(domain_signer: WaczSigner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file signed for the domain."""
    return written(tmp_path_factory.mktemp("wacz") / "signed.wacz", domain_signer)


def written(path: Path, signer: WaczSigner | None) -> Path:
    """Write a file with a WARC and a list of pages."""
    with WaczWriter(path, NOW) as writer:
        writer.add("archive/one.warc.gz", [RECORDS], len(RECORDS))
        writer.add_pages([{"id": "1", "url": "https://a.example/"}], has_text=False)
        writer.finish({"title": "Test"}, None if signer is None else signer.sign)
    return path


def verdicts(path: Path, *authorities: SigningAuthority, key: bytes | None = None) -> dict[str, str]:
    """Return the verdict of each check: ok, failed or note."""
    roots = [each for authority in authorities for each in read_certificates(authority.root)]
    checks = WaczVerifier(roots, expected_key=key).verify(path)
    return {each.name: each.to_dict()["verdict"] for each in checks}


def rewritten(path: Path, out: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """Return a copy of the file whose entries were changed."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return out


def with_signature(entries: dict[str, bytes], **values: str) -> None:
    """Set fields of ``signedData``; an empty text removes one."""
    digest = json.loads(entries["datapackage-digest.json"])
    digest["signedData"] |= values
    digest["signedData"] = {name: value for name, value in digest["signedData"].items() if value}
    entries["datapackage-digest.json"] = json.dumps(digest).encode()


def resealed(entries: dict[str, bytes]) -> None:
    """Correct all digests after a change, as an attacker without the key can."""
    package = json.loads(entries["datapackage.json"])
    for each in package["resources"]:
        data = entries[each["path"]]
        each |= {"hash": f"sha256:{hashlib.sha256(data).hexdigest()}", "bytes": len(data)}
    entries["datapackage.json"] = json.dumps(package).encode()
    digest = json.loads(entries["datapackage-digest.json"])
    digest["hash"] = f"sha256:{hashlib.sha256(entries['datapackage.json']).hexdigest()}"
    entries["datapackage-digest.json"] = json.dumps(digest).encode()


def signed_data(path: Path) -> dict[str, str]:
    """Return the ``signedData`` of a file."""
    with zipfile.ZipFile(path) as archive:
        signed: dict[str, str] = json.loads(archive.read("datapackage-digest.json"))["signedData"]
    return signed


def test_a_signature_for_a_domain_verifies(signed: Path, authority: SigningAuthority) -> None:
    """With exactly the fields of the specification."""
    assert verdicts(signed, authority) == dict.fromkeys(
        ("entries", "package", "signature", "time stamp", "domain"), "ok"
    )
    fields = {"hash", "created", "software", "version", "signature", "domain", "domainCert"}
    assert set(signed_data(signed)) == fields | {"timeSignature", "timestampCert"}


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1()], ids=["P-256", "P-384"])
def test_an_anonymous_signature_is_as_webcrypto_makes_it(curve: ec.EllipticCurve, tmp_path: Path) -> None:
    """Key as SubjectPublicKeyInfo, r and s in a row; OpenSSL verifies it."""
    write_key(tmp_path / "key.pem", ec.generate_private_key(curve))
    signer = WaczSigner(read_signing_key(tmp_path / "key.pem"), "tests", present_time)
    fields = signed_data(written(tmp_path / "out.wacz", signer))

    raw = base64.b64decode(fields["signature"])
    half = len(raw) // 2
    numbers = (int.from_bytes(raw[:half], "big"), int.from_bytes(raw[half:], "big"))
    (tmp_path / "signature").write_bytes(utils.encode_dss_signature(*numbers))
    (tmp_path / "key.der").write_bytes(base64.b64decode(fields["publicKey"]))
    (tmp_path / "data").write_text(fields["hash"])
    words = ["openssl", "dgst", "-sha256", "-keyform", "DER", "-verify", "key.der", "-signature", "signature", "data"]
    assert b"Verified OK" in subprocess.run(words, cwd=tmp_path, check=True, capture_output=True).stdout
    assert set(fields) == {"hash", "created", "software", "version", "signature", "publicKey"}
    assert verdicts(tmp_path / "out.wacz") == {"entries": "ok", "package": "ok", "signature": "ok", "key": "note"}


def test_an_anonymous_signature_may_have_a_time_stamp(authority: SigningAuthority, tmp_path: Path) -> None:
    """As js-wacz writes it."""
    signer = WaczSigner(ec.generate_private_key(ec.SECP384R1()), "tests", present_time, send_query=authority.stamp)

    assert verdicts(written(tmp_path / "out.wacz", signer), authority)["time stamp"] == "ok"


def test_a_file_without_signature_is_not_signed(tmp_path: Path, authority: SigningAuthority) -> None:
    """A note, but a failure where a key is expected: a signature may have been removed."""
    path = written(tmp_path / "out.wacz", None)

    assert verdicts(path) == {"entries": "ok", "package": "ok", "signature": "note"}
    assert verdicts(path, key=b"any")["signature"] == "failed"


def test_a_changed_record_is_found(signed: Path, authority: SigningAuthority, tmp_path: Path) -> None:
    """Its entry no longer has the digest; the signature itself still holds."""
    path = rewritten(
        signed, tmp_path / "x.wacz", lambda entries: entries.update({"archive/one.warc.gz": RECORDS[:-1] + b"!"})
    )

    outcomes = verdicts(path, authority)
    assert (outcomes["entries"], outcomes["signature"]) == ("failed", "ok")


def test_a_changed_record_with_new_digests_is_found(signed: Path, authority: SigningAuthority, tmp_path: Path) -> None:
    """Then the signature is of another package."""

    def change(entries: dict[str, bytes]) -> None:
        entries["archive/one.warc.gz"] = b"other records"
        resealed(entries)

    outcomes = verdicts(rewritten(signed, tmp_path / "x.wacz", change), authority)
    assert (outcomes["entries"], outcomes["package"], outcomes["signature"]) == ("ok", "ok", "failed")


def test_a_changed_data_package_is_found(signed: Path, authority: SigningAuthority, tmp_path: Path) -> None:
    """Title, URL or date of it."""

    def change(entries: dict[str, bytes]) -> None:
        entries["datapackage.json"] = entries["datapackage.json"].replace(b"Test", b"Fake")

    outcomes = verdicts(rewritten(signed, tmp_path / "x.wacz", change), authority)
    assert (outcomes["entries"], outcomes["package"], outcomes["signature"]) == ("ok", "failed", "failed")


@pytest.mark.parametrize("name", ["archive/two.warc.gz", "pages/pages.jsonl"])
def test_an_entry_that_is_added_or_twice_there_is_found(
    signed: Path, authority: SigningAuthority, tmp_path: Path, name: str
) -> None:
    """Programs differ in which of two entries of a name they read."""
    path = Path(shutil.copy(signed, tmp_path / "x.wacz"))
    with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings(action="ignore"):
        archive.writestr(name, b"more")

    assert verdicts(path, authority)["entries"] == "failed"


def test_an_entry_that_is_missing_is_found(signed: Path, authority: SigningAuthority, tmp_path: Path) -> None:
    """All that the package lists must be there."""
    path = rewritten(signed, tmp_path / "x.wacz", lambda entries: entries.pop("archive/one.warc.gz"))

    assert verdicts(path, authority)["entries"] == "failed"


def test_a_signature_of_another_key_is_found(signed: Path, authority: SigningAuthority, tmp_path: Path) -> None:
    """And an expected key is compared with that of the file."""
    other = ec.generate_private_key(ec.SECP256R1())
    der = other.sign(signed_data(signed)["hash"].encode(), ec.ECDSA(hashes.SHA256()))
    text = base64.b64encode(der).decode()
    path = rewritten(signed, tmp_path / "x.wacz", lambda entries: with_signature(entries, signature=text))
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "other.pub").write_bytes(other.public_key().public_bytes(*form))
    (tmp_path / "own.pem").write_text(signed_data(signed)["domainCert"])

    outcomes = verdicts(path, authority)
    assert (outcomes["signature"], outcomes["time stamp"]) == ("failed", "failed")
    assert verdicts(signed, authority, key=read_public_key(tmp_path / "other.pub"))["key"] == "failed"
    assert verdicts(signed, authority, key=read_public_key(tmp_path / "own.pem"))["key"] == "ok"


def test_a_certificate_that_had_expired_is_found(authority: SigningAuthority, tmp_path: Path) -> None:
    """The moment of the time stamp counts; a signer refuses such a certificate at once."""
    key_file, chain_file = authority.issue("old.example", days=(-60, -30))
    key = read_signing_key(key_file)
    with pytest.raises(ConfigError, match=f"valid from .* to {NOW - timedelta(days=30):%Y-%m-%d}, not now"):
        read_signing_chain(chain_file, key, NOW)
    signer = WaczSigner(key, "tests", present_time, read_certificates(chain_file), authority.stamp)

    outcomes = verdicts(written(tmp_path / "out.wacz", signer), authority)

    assert (outcomes["signature"], outcomes["time stamp"], outcomes["domain"]) == ("ok", "ok", "failed")


def test_a_certificate_of_another_domain_is_found(signed: Path, authority: SigningAuthority, tmp_path: Path) -> None:
    """`domain` must be its name."""
    path = rewritten(signed, tmp_path / "x.wacz", lambda entries: with_signature(entries, domain="bank.example"))

    assert verdicts(path, authority)["domain"] == "failed"


def test_authorities_of_the_file_are_not_trusted(signed: Path, tmp_path: Path, authority: SigningAuthority) -> None:
    """Neither the root in domainCert, nor that in timestampCert and in the time stamp itself."""
    other = SigningAuthority(tmp_path / "other", NOW)

    checks = {each.name: each for each in WaczVerifier(read_certificates(other.root)).verify(signed)}

    assert {name for name, each in checks.items() if not each.passed} == {"time stamp", "domain"}
    assert all(checks[name].text.endswith(" --trust FILE adds authorities.") for name in ("time stamp", "domain"))


def test_a_time_stamp_of_other_data_is_found(
    signed: Path, domain_signer: WaczSigner, authority: SigningAuthority, tmp_path: Path
) -> None:
    """That of another file, by the same authority."""
    other = signed_data(written(tmp_path / "other.wacz", domain_signer))
    path = rewritten(
        signed, tmp_path / "x.wacz", lambda entries: with_signature(entries, timeSignature=other["timeSignature"])
    )

    assert verdicts(path, authority)["time stamp"] == "failed"


def test_a_time_stamp_of_another_day_is_found(
    domain_signer: WaczSigner, authority: SigningAuthority, tmp_path: Path
) -> None:
    """It must be of within ten minutes of `created`."""
    late = WaczSigner(
        domain_signer.key, "tests", lambda: present_time() - timedelta(minutes=11), domain_signer.chain, authority.stamp
    )

    assert verdicts(written(tmp_path / "out.wacz", late), authority)["time stamp"] == "failed"


@pytest.mark.parametrize("field", ["hash", "created", "signature", "domain", "timeSignature", "timestampCert"])
def test_a_signature_without_a_field_is_found(
    signed: Path, authority: SigningAuthority, tmp_path: Path, field: str
) -> None:
    """The specification has two forms, and no others."""
    path = rewritten(signed, tmp_path / "x.wacz", lambda entries: with_signature(entries, **{field: ""}))

    assert verdicts(path, authority)["signature"] == "failed"


@pytest.mark.parametrize(
    "values",
    [{"note": "mine"}, {"domainCert": "no PEM"}, {"signature": "%"}, {"created": "now"}, {"timeSignature": "AAAA"}],
)
def test_a_malformed_signature_is_found(
    signed: Path, authority: SigningAuthority, tmp_path: Path, values: dict[str, str]
) -> None:
    """Whatever is in a field."""
    path = rewritten(signed, tmp_path / "x.wacz", lambda entries: with_signature(entries, **values))

    assert "failed" in verdicts(path, authority).values()


@pytest.mark.parametrize("answer", [b"", b"<html>", None])
def test_an_authority_that_gives_no_time_stamp_ends_the_signing(
    signed: Path, domain_signer: WaczSigner, answer: bytes | None
) -> None:
    """Whatever it sends; also a time stamp of another query."""
    old = base64.b64decode(signed_data(signed)["timeSignature"]) if answer is None else answer
    signer = WaczSigner(domain_signer.key, "tests", present_time, domain_signer.chain, lambda _query: old)

    with pytest.raises(UnavailableError, match="time-stamp authority"):
        signer.sign("sha256:00")


def test_keys_that_cannot_sign_are_refused(tmp_path: Path, authority: SigningAuthority) -> None:
    """No key, an RSA key, a certificate of another key."""
    (tmp_path / "none.pem").write_text("none")
    subprocess.run(["openssl", "genrsa", "-out", tmp_path / "rsa.pem", "2048"], check=True, capture_output=True)
    write_key(tmp_path / "ec.pem", ec.generate_private_key(ec.SECP256R1()))
    for name in ("none.pem", "rsa.pem", "absent.pem"):
        with pytest.raises(ConfigError):
            read_signing_key(tmp_path / name)
    with pytest.raises(ConfigError, match="not that of"):
        read_signing_chain(authority.issue("x.example")[1], read_signing_key(tmp_path / "ec.pem"), NOW)


@pytest.mark.parametrize(
    ("data", "text"),
    [(None, "is missing"), (b"{", "not valid JSON"), (b"[]", "not an object"), (b"{}" * 99, "damaged")],
)
def test_what_is_wrong_with_a_data_package_is_named(tmp_path: Path, data: bytes | None, text: str) -> None:
    """The last is compressed, and changed afterwards."""
    path = tmp_path / "x.wacz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"")
        if data is not None:
            archive.writestr("datapackage.json", data)
    if text == "damaged":
        start = path.read_bytes().index(b"datapackage.json") + len("datapackage.json")
        path.write_bytes(path.read_bytes()[:start] + b"\xff" + path.read_bytes()[start + 1 :])

    (check,) = WaczVerifier([]).verify(path)

    assert (check.name, check.passed) == ("package", False)
    assert text in check.text


@pytest.mark.parametrize(("at", "byte"), [(6, 200), (47, 0x28)], ids=["version", "name"])
def test_a_directory_that_cannot_be_read_is_named(tmp_path: Path, at: int, byte: int) -> None:
    """Of a ZIP version that nobody knows, or with a name that is not the UTF-8 that it claims to be."""
    with zipfile.ZipFile(tmp_path / "x.wacz", "w") as archive:
        archive.writestr("ü", b"")
    data = bytearray((tmp_path / "x.wacz").read_bytes())
    data[data.index(b"PK\x01\x02") + at] = byte
    (tmp_path / "x.wacz").write_bytes(data)

    for read in (verdicts, lambda path: next(open_archives(path, tmp_path, lambda _count: None))):
        with pytest.raises(InputError, match="cannot be read"):
            read(tmp_path / "x.wacz")


def test_a_file_that_is_no_zip_is_named(tmp_path: Path) -> None:
    """And one that holds no data package fails."""
    (tmp_path / "x.wacz").write_bytes(b"no zip")
    with pytest.raises(InputError, match="WACZ"):
        verdicts(tmp_path / "x.wacz")
    with zipfile.ZipFile(tmp_path / "y.wacz", "w") as archive:
        archive.writestr("a", b"")
    assert verdicts(tmp_path / "y.wacz") == {"package": "failed"}
