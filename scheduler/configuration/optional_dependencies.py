"""Optional packages: the extra that installs each, and the feature that needs it.

Decides only the error for a missing one. It imports none of them: an embedded installation works
without all.
"""

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires
from typing import Concatenate, ParamSpec, TypeVar

from hourhand.actors.model.values.errors import DependencyMissing
from hourhand.scheduler.configuration.settings import Settings

EXTRA_OF = {
    "aiohttp": "http",
    "aws_msk_iam_sasl_signer": "msk",
    "cassandra": "cassandra",
    "confluent_kafka": "kafka",
    "cryptography": "crypto",
    "deltalake": "delta",
    "duckdb": "sql",
    "fastapi": "http",
    "fsspec": "claims",
    "httptools": "http",
    "httpx2": "mcp",
    "mcp": "mcp",
    "mcp_types": "mcp",
    "opentelemetry": "otel",
    "pandas": "spark",
    "plotly": "spark",
    "psycopg": "postgres",
    "pyarrow": "spark",
    "py4j": "spark",
    "pyspark": "spark",
    "starlette": "http",
    "uvicorn": "http",
    "watchfiles": "dev",
    "yarl": "http",
}
"""By import name; ``starlette`` comes with fastapi, ``yarl`` with aiohttp, ``httpx2`` and
``mcp_types`` with mcp."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


@contextmanager
def required_by(who: str) -> Iterator[None]:
    """Raise DependencyMissing, which names ``who``, if an import inside finds an extra missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise _explained(error, who) from None


def opens_drivers(
    function: Callable[Concatenate[Settings, _P], _T],
) -> Callable[Concatenate[Settings, _P], _T]:
    """Make a function that picks an adapter name the setting that needs a missing driver."""

    @functools.wraps(function)
    def opening(settings: Settings, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(settings, *args, **kwargs)
        except ModuleNotFoundError as error:
            raise _explained(error, _asking_setting(settings, error.name or "")) from None

    return opening


def _asking_setting(settings: Settings, module: str) -> str:
    if module.startswith("opentelemetry"):
        return "the setting observe.traces"
    if module.startswith("cassandra"):
        return f"the setting store = {settings.store!r}"
    if settings.log == "kafka":
        return "the setting log = 'kafka'"
    if settings.outcomes.topic is not None:
        return f"the setting outcomes.topic = {settings.outcomes.topic!r}"
    if settings.events.topic is not None:
        return f"the setting events.topic = {settings.events.topic!r}"
    return "a message for a Kafka topic"


def _explained(error: ModuleNotFoundError, who: str) -> Exception:
    """Return the error to raise: a missing module that no extra installs is our own fault."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRA_OF:
        return error
    extra = EXTRA_OF[package]
    return DependencyMissing(
        f"{who} needs {package}, which is not installed: pip install"
        f" {_requirements(extra, package)} (the extra {extra!r} of hourhand)"
    )


def _requirements(extra: str, package: str) -> str:
    """Return the requirements of an extra, as arguments for pip with any index."""
    try:
        declared = requires("hourhand") or ()
    except PackageNotFoundError:
        declared = ()
    of_extra = re.compile(rf"extra == ['\"]{extra}['\"]")
    found = [each.partition(";")[0].strip() for each in declared if of_extra.search(each)]
    return " ".join(f"'{each}'" for each in found) or package.replace("_", "-")
