"""A call that fails once, as if the node had died before or after it."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from hourhand.actors.model.values.errors import StoreUnavailable


def fail_once(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, before: int, *, takes_effect: bool
) -> list[str]:
    """Have one call of a method fail, the one that has so many ``before`` it.

    With ``takes_effect`` what it asks for is done all the same. Returns the calls, as they come.
    """
    real: Callable[..., Future[Any]] = getattr(owner, name)
    calls: list[str] = []

    def fails_once(own: object, *asked: object) -> Future[Any]:
        calls.append(name)
        if len(calls) != before + 1:
            return real(own, *asked)
        if takes_effect:
            real(own, *asked)
        failed = Future[Any]()
        failed.set_exception(StoreUnavailable("the node died here"))
        return failed

    monkeypatch.setattr(owner, name, fails_once)
    return calls
