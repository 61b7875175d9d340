"""Certificates made for one test run, in the forms that librdkafka, Python and Java read."""

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509 import load_pem_x509_certificate

SERVER = "127.0.0.1"
"""The only name on the servers' certificates: ``localhost`` is the same machine, not named."""
CLIENT = "hourhand"
"""The common name on the client's certificate, and who logs in."""
SECRET = "pl4nted-s3cret"
"""Every password of a client: it must never be seen again once it is set."""
STORE_PASSWORD = "of the key stores"  # Java demands one.


class Authority:
    """A certificate authority, the servers' and a client's identity, as files in ``folder``."""

    def __init__(self, folder: Path, key_password: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        ca = trustme.CA()
        self.ca_file = folder / "ca.pem"
        ca.cert_pem.write_to_path(self.ca_file)
        server, client = (
            ca.issue_cert(SERVER),
            ca.issue_cert(f"{CLIENT}.client", common_name=CLIENT),
        )
        self.server_pem = folder / "server.pem"
        self.server_pem.write_bytes(_key(server) + _chain(server))
        server_key = load_pem_private_key(server.private_key_pem.bytes(), None)
        assert isinstance(server_key, EllipticCurvePrivateKey)
        self.server_p12 = folder / "server.p12"
        self.server_p12.write_bytes(
            serialize_key_and_certificates(
                b"server",
                server_key,
                load_pem_x509_certificate(server.cert_chain_pems[0].bytes()),
                None,
                BestAvailableEncryption(STORE_PASSWORD.encode()),
            )
        )
        self.trust_p12 = folder / "trust.p12"
        trusted = PKCS12Certificate(load_pem_x509_certificate(ca.cert_pem.bytes()), b"ca")
        self.trust_p12.write_bytes(
            serialize_java_truststore([trusted], BestAvailableEncryption(STORE_PASSWORD.encode()))
        )
        self.certificate_file = folder / "client.pem"
        self.certificate_file.write_bytes(_chain(client))
        self.key_file = folder / "client-key.pem"
        self.key_file.write_bytes(_key(client, BestAvailableEncryption(key_password.encode())))


def _chain(identity: trustme.LeafCert) -> bytes:
    return b"".join(each.bytes() for each in identity.cert_chain_pems)


def _key(identity: trustme.LeafCert, encryption: KeySerializationEncryption | None = None) -> bytes:
    """Return the private key in PKCS 8, the one form that Java reads."""
    key = load_pem_private_key(identity.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
