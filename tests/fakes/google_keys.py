"""Keys, certificates and signed tokens as Google has them; made once, for trials only."""

from __future__ import annotations

import base64
import datetime
import functools
import hmac
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

ADDON, CLASSIC, ACCOUNT = "google-oidc", "chat@system", "service-account"
"""The names of the keys: Google's for ID tokens, Chat's own, and our service account's."""

AUDIENCE = "https://bot.example.test/chat/events"
PROJECT = "100000000001"
ACCOUNT_EMAIL = "mercury@fixture.iam.gserviceaccount.com"


@functools.cache
def private_key(name: str) -> rsa.RSAPrivateKey:
    """The RSA key of that name, the same one as long as the process lives."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


@functools.cache
def certificate(name: str) -> str:
    """The self-signed certificate of that key, as PEM."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private_key(name).public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(2060, 1, 1, tzinfo=datetime.UTC))
        .sign(private_key(name), hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


def token(header: Mapping[str, Any], claims: Mapping[str, Any], signed_with: str) -> str:
    """A token with exactly that header and those claims.

    Args:
        header: as it will stand there, true or not.
        claims: likewise.
        signed_with: a key's name, `unsigned`, or `hmac` for HS256 keyed with the certificate.
    """
    signed = f"{_packed(dict(header))}.{_packed(dict(claims))}"
    if signed_with == "unsigned":
        signature = b""
    elif signed_with.startswith("hmac"):
        signature = hmac.digest(certificate(ADDON).encode(), signed.encode(), "sha256")
    else:
        key = private_key(signed_with)
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{_base64(signature)}"


class Signer:
    """Makes the tokens of events.

    Args:
        audience: the endpoint URL of the bot under trial.
        project_number: its project's.
        now: seconds since the epoch.
        kid: the key id that the certificates are served under.
    """

    def __init__(
        self,
        audience: str = AUDIENCE,
        project_number: str = PROJECT,
        now: Callable[[], float] = time.time,
        kid: str = "k1",
    ) -> None:
        self._audience = audience
        self._project_number = project_number
        self._now = now
        self._kid = kid

    def addon(self, **claims: Any) -> str:
        """A token of an add-on event; `claims` replace its own, None leaves one out."""
        project = self._project_number
        own = {
            "iss": "https://accounts.google.com",
            "aud": self._audience,
            "sub": "123456789012345678901",
            "azp": "123456789012345678901",
            "email": f"service-{project}@gcp-sa-gsuiteaddons.iam.gserviceaccount.com",
            "email_verified": True,
        }
        return self._token(ADDON, own | claims)

    def classic(self, **claims: Any) -> str:
        """A token of a classic event; `claims` replace its own, None leaves one out."""
        own = {"iss": "chat@system.gserviceaccount.com", "aud": self._project_number}
        return self._token(CLASSIC, own | claims)

    def _token(self, key: str, claims: Mapping[str, Any]) -> str:
        now = int(self._now())
        told = {"iat": now - 10, "exp": now + 3_590} | dict(claims)
        told = {name: value for name, value in told.items() if value is not None}
        return token({"alg": "RS256", "kid": self._kid, "typ": "JWT"}, told, key)


def write_key_file(path: Path, token_uri: str) -> Path:
    """Writes a service account's key file whose tokens come from `token_uri`."""
    pem = private_key(ACCOUNT).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    told = {
        "type": "service_account",
        "project_id": "fixture",
        "private_key_id": "account-1",
        "private_key": pem.decode(),
        "client_email": ACCOUNT_EMAIL,
        "client_id": "100000000000000000001",
        "token_uri": token_uri,
    }
    path.write_text(json.dumps(told), encoding="utf-8")
    return path


def _packed(value: Mapping[str, Any]) -> str:
    return _base64(json.dumps(value).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
