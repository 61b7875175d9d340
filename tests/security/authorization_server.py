"""An authorization server of OAuth 2: gives a client that has a secret tokens that it signed."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

from hourhand.scheduler.adapters.clock import SystemClock
from tests.security.authority import CLIENT, SECRET

AUDIENCE = "kafka"
_KEY_ID = "of-this-run"


class AuthorizationServer:
    """Its answers; ``issued`` counts the tokens, and ``lifetime_s`` is that of the next."""

    def __init__(self, lifetime_s: float) -> None:
        self.lifetime_s = lifetime_s
        self.issued = 0
        self.url = ""
        self._key = generate_private_key(65_537, 2_048)

    def token(self, subject: str = CLIENT) -> tuple[str, float]:
        """Return a token and the Unix time of its expiry, whole seconds as the claim has them."""
        self.issued += 1
        now_s = SystemClock().now_ms() // 1000
        expires_s = now_s + int(self.lifetime_s)
        claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": subject,
            "iat": now_s,
            "exp": expires_s,
            "jti": str(self.issued),
        }
        head = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        signed = b".".join(_base64(json.dumps(each).encode()) for each in (head, claims))
        signature = self._key.sign(signed, PKCS1v15(), SHA256())
        return (signed + b"." + _base64(signature)).decode(), float(expires_s)

    def keys(self) -> dict[str, Any]:
        """Return the set of public keys, as RFC 7517 has it."""
        numbers = self._key.public_key().public_numbers()
        modulus, exponent = (
            _base64(number.to_bytes((number.bit_length() + 7) // 8, "big")).decode()
            for number in (numbers.n, numbers.e)
        )
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID}
        return {"keys": [{**key, "n": modulus, "e": exponent}]}

    def granted(self, authorization: str, body: str) -> dict[str, Any] | None:
        """Return the answer to a request for a token, None where the client is not known."""
        known = _base64_padded(f"{CLIENT}:{SECRET}".encode())
        if authorization != f"Basic {known}" or "client_credentials" not in parse_qs(body).get(
            "grant_type", []
        ):
            return None
        token, expires_s = self.token()
        left_s = int(expires_s - SystemClock().now_ms() / 1000)
        return {"access_token": token, "token_type": "Bearer", "expires_in": left_s}


@contextmanager
def authorization_server(lifetime_s: float = 3_600) -> Iterator[AuthorizationServer]:
    """Serve on a free port of loopback."""
    serving = AuthorizationServer(lifetime_s)

    class Door(BaseHTTPRequestHandler):
        """Two addresses."""

        def do_GET(self) -> None:
            """Answer with the keys."""
            self._answer(200, serving.keys())

        def do_POST(self) -> None:
            """Answer with a token."""
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            granted = serving.granted(self.headers.get("Authorization", ""), body)
            self._answer(200 if granted else 401, granted or {"error": "invalid_client"})

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    serving.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield serving
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _base64(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _base64_padded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
