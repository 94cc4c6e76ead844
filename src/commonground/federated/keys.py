"""Certificates and node keys for a federation on one machine, and for tests. Real ones come from who runs the network."""

import datetime
import ipaddress
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAYS = 7
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Certificates:
    """What a SuperLink shows (``certificate``, ``key``), and what nodes check it by (``authority``)."""

    authority: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path) -> Certificates:
    """An authority of our own and a certificate for this machine's own address (loopback), valid for a week."""
    authority_key, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority = _certificate("commonground authority", authority_key, authority_key, authority=True)
    address_name = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(_LOOPBACK))])
    certificate = _certificate(_LOOPBACK, key, authority_key, authority=False, names=address_name)
    made = Certificates(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    made.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    write_secret(made.key, _private(key, serialization.PrivateFormat.PKCS8))
    return made


def make_node_key(folder: Path, name: str) -> Path:
    """A node's private key; the public one, which the server has to know, lies beside it with the ending .pub."""
    key = ec.generate_private_key(ec.SECP384R1())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public)
    write_secret(folder / name, _private(key, serialization.PrivateFormat.OpenSSH))
    return folder / name


def _private(key: ec.EllipticCurvePrivateKey, kind: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())


def write_secret(path: Path, content: bytes) -> Path:
    """A new file that only its owner may read, from the first byte on. What lay there before is replaced, not written into."""
    draft, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # 0600, whatever the umask
    with os.fdopen(draft, "wb") as file:
        file.write(content)
    os.replace(name, path)
    return path


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signed_by: ec.EllipticCurvePrivateKey,
    authority: bool,
    names: x509.SubjectAlternativeName | None = None,
) -> x509.Certificate:
    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named("commonground authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(signed_by, hashes.SHA256())
