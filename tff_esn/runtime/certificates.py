"""Mutual TLS of workers: a private certificate authority, and certificates for each host.

A host's folder holds all that it needs: the authority's `ca.pem`, `certificate.pem` and `key.pem`. A worker has a
server certificate for its name and asks for a client certificate, so that a worker's key gives no access to another
worker.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tff_esn.errors import ConfigError, DataError

COORDINATOR = "coordinator"
_AUTHORITY, _CERTIFICATE, _KEY, _AUTHORITY_KEY = "ca.pem", "certificate.pem", "key.pem", "ca-key.pem"


class Certificates:
    """A host's folder.

    Args:
        folder: One of those that `create_certificates` makes.
    """

    def __init__(self, folder: Path) -> None:
        self._authority, self._certificate, self._key = (folder / name for name in (_AUTHORITY, _CERTIFICATE, _KEY))
        for path in (self._authority, self._certificate, self._key):
            if not path.is_file():
                raise DataError(path, "no such file", "a folder that `tff-esn worker init` made for this host")

    def server_context(self) -> ssl.SSLContext:
        """TLS of a worker, which requires a client certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_alpn_protocols(["h2"])
        try:
            context.load_verify_locations(self._authority)
            context.load_cert_chain(self._certificate, self._key)
        except ssl.SSLError as error:
            raise DataError(self._certificate.parent, str(error), "certificates of `tff-esn worker init`") from None
        return context

    def channel_credentials(self) -> Any:
        """TLS of the coordinator."""
        import grpc  # type: ignore[import-untyped]

        parts = (path.read_bytes() for path in (self._authority, self._key, self._certificate))
        return grpc.ssl_channel_credentials(*parts)


def create_certificates(folder: Path, workers: Sequence[Sequence[str]], days: int = 825) -> list[Path]:
    """Makes the authority, unless the folder has one, and the folders of the coordinator and of the workers.

    Args:
        folder: Folder to write to. Its `ca-key.pem` signs further certificates and must not leave it.
        workers: Host names and addresses of each worker; the first is the name of its folder.
        days: Validity of the certificates in days.

    Returns:
        The folders that were made; one that exists is left as it is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority, authority_key = _authority(folder, days)
    made = []
    for names, usage in [
        ((COORDINATOR,), ExtendedKeyUsageOID.CLIENT_AUTH),
        *((names, ExtendedKeyUsageOID.SERVER_AUTH) for names in workers),
    ]:
        own = folder / names[0]
        if own.name != names[0] or not names[0].strip("."):
            raise ConfigError(f"name of a worker {names[0]!r}; expected a host name or an address")
        if own.exists():
            continue
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        certificate = (
            _builder(names[0], key, authority.subject, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(alternatives, critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
            .sign(authority_key, hashes.SHA256())
        )
        own.mkdir(mode=0o700)
        _write_key(own / _KEY, key)
        (own / _AUTHORITY).write_bytes(authority.public_bytes(serialization.Encoding.PEM))
        (own / _CERTIFICATE).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        made.append(own)
    return made


def _authority(folder: Path, days: int) -> tuple[x509.Certificate, Any]:
    path, key_path = folder / _AUTHORITY, folder / _AUTHORITY_KEY
    if path.exists() or key_path.exists():
        try:
            key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
            return x509.load_pem_x509_certificate(path.read_bytes()), key
        except (OSError, ValueError) as error:
            raise DataError(folder, str(error), f"{_AUTHORITY} and {_AUTHORITY_KEY} of one authority") from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tff-esn fleet")])
    certificate = (
        _builder("tff-esn fleet", key, name, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                False,
                False,
                False,
                False,
                False,
                key_cert_sign=True,
                crl_sign=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )
    _write_key(key_path, key)
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def _builder(name: str, key: ec.EllipticCurvePrivateKey, issuer: x509.Name, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # Clocks differ.
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text)
