"""A driver that answers when it is told to, for tests of what sends statements."""

from collections.abc import Callable, Sequence
from typing import Any

from hourhand.scheduler.adapters.cassandra.sender import Failure

FAILED = OSError("no answer")


class Response:
    """An answer that the test gives, as the driver's futures give theirs."""

    def __init__(self) -> None:
        self.succeed: Callable[[], None]
        self.fail: Callable[[Exception], None]

    def add_callbacks(
        self,
        callback: Callable[..., None],
        errback: Callable[..., None],
        callback_args: Sequence[object],
        callback_kwargs: dict[str, object],
        errback_args: Sequence[object],
        errback_kwargs: dict[str, object],
    ) -> None:
        """Take what is to be called."""
        self.succeed = lambda: callback(None, *callback_args, **callback_kwargs)
        self.fail = lambda error: errback(error, *errback_args, **errback_kwargs)


class FailedResponse(Response):
    """An answer that is there before anybody can ask for it: no host is up."""

    def add_callbacks(self, *arguments: Any) -> None:
        """Fail at once, in the thread that sends."""
        super().add_callbacks(*arguments)
        self.fail(FAILED)


class Driver:
    """A session that sends nothing."""

    def __init__(self, response: Callable[[], Response] = Response) -> None:
        self._response = response
        self.sent: list[object] = []
        self.responses: list[Response] = []

    def execute_async(self, statement: object) -> Response:
        """Note the statement."""
        response = self._response()
        self.responses.append(response)
        self.sent.append(statement)
        return response


class Ended:
    """What a call came to; ``times`` says how often it was told so."""

    def __init__(self) -> None:
        self.times = 0
        self.failures: Sequence[Failure] = ()

    def __call__(self, failures: Sequence[Failure]) -> None:
        self.times += 1
        self.failures = failures
