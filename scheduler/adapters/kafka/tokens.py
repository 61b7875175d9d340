"""Tokens for logins with OAUTHBEARER, from a provider that the settings name.

Decides when a provider is called, how long to wait for it, and which answers are valid tokens. It
is called on threads of this module, and all clients of a process share its answer: a provider that
raises, blocks or answers nonsense is an error in the log, and the driver keeps the last token while
that is valid. A message of a provider is never shown, because it may quote a secret. OIDC tokens
come from the driver itself and never pass through here.
"""

import functools
import logging
import pkgutil
import re
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from traceback import extract_tb
from typing import NamedTuple, cast

from hourhand.actors.model.values.errors import LogUnavailable, SettingsInvalid
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.optional_dependencies import required_by
from hourhand.scheduler.configuration.security import MSK_IAM, OIDC
from hourhand.scheduler.configuration.settings import KafkaSettings
from hourhand.scheduler.runtime import forking

logger = logging.getLogger("hourhand.kafka")

VALID_MS_MIN = 3_000
"""A token that expires sooner would be invalid before a connection is ready."""
_VALID_MS_MAX = 10 * 365 * 86_400_000
"""With a longer life, milliseconds were given as seconds."""
_KEPT = 0.75
"""Share of a token's life after which a new one is requested. The driver asks after four fifths of
the remaining life, so each client that asks finds a new token, or one that another client got a
moment ago."""
_REFRESH_WAIT_S = 3.0
"""The driver's thread that asks has other work; it asks again after ten seconds."""
_AGAIN_MS = 5_000
"""Pause after a failure; every client asks for itself."""
_GIVEN_UP_MS = 60_000
"""A provider that has not answered by then is called again on another thread, and then after twice
as long each time: a blocked thread can never be ended."""
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""RFC 6750, section 2.1."""
_EXTENSION_NAME, _EXTENSION_VALUE = re.compile(r"[A-Za-z]+"), re.compile(r"[\x21-\x7e \t\r\n]+")
"""RFC 7628, section 3.1."""


class Token(NamedTuple):
    """The answer of the driver's callback."""

    text: str
    expires_s: float
    """Unix time in seconds."""
    principal: str = ""
    extensions: Mapping[str, str] = {}


class TokenSource:
    """One provider's tokens, for all clients of this process; its methods may run on any thread."""

    def __init__(self, name: str, fetch: Callable[[], object], clock: Clock) -> None:
        self._name = name
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: Future[Token] | None = None
        self._asked_ms = 0.0
        self._given_up_ms = _GIVEN_UP_MS
        self._renewed_ms = 0.0

    def token(self, timeout_s: float) -> Token:
        """Return a valid token; wait at most ``timeout_s`` for a new one; raises LogUnavailable."""
        with self._lock:
            asked = self._current() or self._ask()
        try:
            return asked.result(timeout_s)
        except FutureTimeoutError:
            raise self._failure(f"did not answer within {timeout_s:g} s") from None
        except LogUnavailable as error:
            # Each waiting thread raises an exception of its own.
            raise LogUnavailable(*error.args) from None

    def refresh(self, _: str) -> Token:
        """Answer the driver, which calls this on a thread of its own before a token expires."""
        try:
            return self.token(_REFRESH_WAIT_S)
        except LogUnavailable as error:
            logger.error("%s; the last token is used until it expires", error)  # noqa: TRY400
            raise

    def _current(self) -> "Future[Token] | None":
        """Return the current or pending answer, or None if the provider has to be called."""
        if self._asked is None:
            return None
        waited_ms = self._clock.monotonic_ms() - self._asked_ms
        if not self._asked.done():
            if waited_ms < self._given_up_ms:
                return self._asked
            self._given_up_ms *= 2
            return None
        if self._asked.exception() is not None:
            return self._asked if waited_ms < _AGAIN_MS else None
        return self._asked if self._clock.now_ms() < self._renewed_ms else None

    def _ask(self) -> "Future[Token]":
        self._asked, self._asked_ms = Future(), self._clock.monotonic_ms()
        threading.Thread(
            target=self._answer, args=(self._asked,), name="hourhand-token", daemon=True
        ).start()
        return self._asked

    def _answer(self, asked: "Future[Token]") -> None:
        try:
            token = self._checked(self._fetch())
        except LogUnavailable as failure:
            asked.set_exception(failure)
        except BaseException as error:  # noqa: BLE001 - user code, on a thread of ours
            asked.set_exception(self._failure(f"raised {_class_and_place(error)}"))
        else:
            now_ms = self._clock.now_ms()
            with self._lock:
                if asked is self._asked:
                    self._renewed_ms = now_ms + _KEPT * (token.expires_s * 1000 - now_ms)
                    self._given_up_ms = _GIVEN_UP_MS
            asked.set_result(token)

    def _checked(self, answer: object) -> Token:
        wanted = "return (token, Unix time of its expiry in seconds[, principal[, extensions]])"
        if not (isinstance(answer, tuple) and 2 <= len(answer) <= len(Token._fields)):
            raise self._failure(f"returned a {type(answer).__name__}: {wanted}")
        filled: tuple[object, ...] = (*answer, "", {})
        text, expires_s, principal = filled[:3]
        extensions = answer[3] if len(answer) > 3 else {}
        if not (isinstance(text, str) and _TOKEN.fullmatch(text)):
            raise self._failure("returned a token with characters that RFC 6750 does not allow")
        if isinstance(expires_s, bool) or not isinstance(expires_s, int | float):
            raise self._failure(f"returned a {type(expires_s).__name__} as expiry: {wanted}")
        left_ms = expires_s * 1000 - self._clock.now_ms()
        if not VALID_MS_MIN <= left_ms <= _VALID_MS_MAX:
            raise self._failure(
                f"returned a token that is valid for {left_ms / 1000:g} s: the expiry is Unix time"
                f" in seconds, at least {VALID_MS_MIN / 1000:g} s ahead"
            )
        if not (isinstance(principal, str) and _are_extensions(extensions)):
            raise self._failure(
                f"returned a principal or extensions that RFC 7628 does not allow: {wanted}"
            )
        return Token(text, float(expires_s), principal, dict(extensions))

    def _failure(self, what: str) -> LogUnavailable:
        return LogUnavailable(
            f"no token for Kafka: kafka.oauth.provider {self._name!r} {what}. Call it by hand in"
            " this process's environment: does it reach its server, and does it have a login there?"
        )


def token_callback(kafka: KafkaSettings) -> dict[str, Callable[[str], Token]]:
    """Return the driver's property that gets tokens, empty if no provider is named.

    A token exists when this returns: a driver without one waits ten seconds for it and does not
    report the cause. Raises SettingsInvalid if the provider cannot be found, and LogUnavailable if
    it gives no token within ``kafka.connect_timeout_ms``.
    """
    oauth = kafka.oauth
    if oauth.provider is None or oauth.provider == OIDC:
        return {}
    source = _source(oauth.provider, oauth.region)
    source.token(kafka.connect_timeout_ms / 1000)
    return {"oauth_cb": source.refresh}


@functools.lru_cache(maxsize=16)
def _source(provider: str, region: str | None) -> TokenSource:
    """Return the source that all clients of this process share."""
    fetch = _msk_iam(region or "") if provider == MSK_IAM else _own(provider)
    return TokenSource(provider, fetch, SystemClock())


# Its threads, and a lock that one of them may have held, belong to the parent.
forking.in_child(_source.cache_clear)


def _msk_iam(region: str) -> Callable[[], object]:
    with required_by(f"the setting kafka.oauth.provider = {MSK_IAM!r}"):
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    def signed() -> object:
        token, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
        return token, expires_ms / 1000

    return signed


def _own(path: str) -> Callable[[], object]:
    # As for executors, the working folder is searched first.
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = pkgutil.resolve_name(path)
    except BaseException as error:  # noqa: BLE001 - the user's module is run
        raise SettingsInvalid(
            f"kafka.oauth.provider {path!r} cannot be imported: {_class_and_place(error)}; name"
            " module:function, in the working folder or installed"
        ) from None
    if not callable(found):
        raise SettingsInvalid(
            f"kafka.oauth.provider {path!r} is a {type(found).__name__}: name a function without"
            " arguments that returns (token, Unix time of its expiry in seconds)"
        )
    return cast("Callable[[], object]", found)


def _are_extensions(extensions: object) -> bool:
    return isinstance(extensions, Mapping) and all(
        isinstance(name, str)
        and isinstance(value, str)
        and name != "auth"
        and _EXTENSION_NAME.fullmatch(name)
        and _EXTENSION_VALUE.fullmatch(value)
        for name, value in extensions.items()
    )


def _class_and_place(error: BaseException) -> str:
    """Return an error's class and the line that raised it, without its message."""
    frames = extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
