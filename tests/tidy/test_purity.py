"""What may not be called where, each with what to call in its place.

The actors decide and never reach out; one file reads the wall clock; tests wait for what
happens, not for time to pass.
"""

import ast
import re
import sys
from collections.abc import Iterator

from tests.tidy.source import Source, report, sources

WALL_CLOCKS = {
    "time.time": "take a Clock and call now_ms()",
    "time.time_ns": "take a Clock and call now_ms()",
    "datetime.datetime.now": "take a Clock and call now_ms()",
    "datetime.datetime.utcnow": "take a Clock and call now_ms()",
    "datetime.datetime.today": "take a Clock and call now_ms()",
    "datetime.date.today": "take a Clock and call now_ms()",
}
OTHER_CLOCKS = {
    "time.monotonic": "take a Clock and call monotonic_ms()",
    "time.monotonic_ns": "take a Clock and call monotonic_ms()",
    "time.clock_gettime": "take a Clock and call monotonic_ms()",
    "time.perf_counter": "take a Clock and call monotonic_ms()",
}
SLEEPS = {
    "time.sleep": "wait on an event or a future with a timeout, or advance a virtual clock",
    "asyncio.sleep": "wait on an asyncio.Event, or advance a virtual clock",
}
NEW_EVENT = "nobody can set it: wait on an event that somebody sets, or on a Condition"
TOLD_THE_TIME = (
    "tests/unit/",
    "tests/box/",
    "tests/property/",
    "tests/promises/",
    "tests/simulation/",
)
"""Tests of these kinds bring their own time."""
EFFECTS = {
    "asyncio": "the node runs coroutines; go through hourhand.actors.ports.runner",
    "multiprocessing": "a tree lives in one process",
    "os": "effects come in through hourhand.actors.ports",
    "pathlib": "effects come in through hourhand.actors.ports",
    "random": "take the random numbers the system was seeded with: self._context.rng",
    "socket": "effects come in through hourhand.actors.ports",
    "subprocess": "effects come in through hourhand.actors.ports",
    "threading": "an actor owns its state; only hourhand.actors.kernel knows threads",
    "time": "take a Clock",
    "uuid": "identities come with the task",
}
ALLOWED_EFFECTS = {
    # Jitter needs numbers; a simulation hands in its own, users of the policy need not.
    ("actors/model/execution/backoff.py", "random"),
}
OUTSIDE_PACKAGES = {"msgspec", "pydantic", "pykka", "tenacity"}
"""All that actors/ imports besides the standard library."""


def test_actors_reach_no_effect_outside_the_kernel() -> None:
    """Time, chance, threads and files come in through ports, so everything can be simulated."""
    complaints = []
    for source in sources("actors"):
        if source.name.startswith("actors/kernel/"):
            continue
        complaints += [
            f"{source.name} imports {name}: {EFFECTS[name]}"
            for name in source.imports & EFFECTS.keys()
            if (source.name, name) not in ALLOWED_EFFECTS
        ]
        complaints += [
            f"{source.name}:{line} opens a file: {EFFECTS['os']}"
            for line, name in source.calls()
            if name == "open"
        ]
    report(complaints)


def test_actors_import_little_from_outside() -> None:
    """The standard library, and four packages that do no input or output."""
    complaints = []
    for source in sources("actors"):
        packages = {name.partition(".")[0] for name in source.imports}
        strange = packages - sys.stdlib_module_names - OUTSIDE_PACKAGES - {"hourhand"}
        complaints += [f"{source.name} imports {name}" for name in strange]
    report(complaints)


def test_actors_hide_no_cycle_behind_type_checking() -> None:
    """What two files share goes down to model or messages."""
    report(
        f"{source.name}:{inner.lineno}"
        for source in sources("actors")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    )


def test_one_file_reads_the_wall_clock() -> None:
    """Everything else is told the time, so tests and simulations can tell it another."""
    report(
        f"{source.name}:{line} calls {name}: {WALL_CLOCKS[name]}"
        for source in sources("actors", "hourhand", "scheduler")
        if source.name != "scheduler/adapters/clock.py"
        for line, name in source.calls()
        if name in WALL_CLOCKS
    )


def test_one_file_reads_any_clock() -> None:
    """A pause or a deadline that reads a clock of its own cannot be tested under another one."""
    report(
        f"{source.name}:{line} calls {name}: {OTHER_CLOCKS[name]}"
        for source in _timed_sources()
        if source.name != "scheduler/adapters/clock.py"
        for line, name in source.calls()
        if name in OTHER_CLOCKS
    )


def test_a_wait_can_end_before_its_time() -> None:
    """``Event().wait(x)`` is a sleep by another name; one module of the product has such a wait."""
    report(
        f"{source.name}:{node.lineno} waits on a new Event: {NEW_EVENT}"
        for source in _timed_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and (node.args or node.keywords)
        and re.fullmatch(r"(threading\.|asyncio\.)?Event\(\)\.wait", ast.unparse(node.func))
    )
    report(
        f"{source.name}:{line} sleeps: {SLEEPS[name]}"
        for source in sources("actors", "hourhand", "scheduler")
        for line, name in source.calls()
        if name == "time.sleep"
    )


def _timed_sources() -> Iterator[Source]:
    """The product, and the tests that bring their own time."""
    yield from sources("actors", "hourhand", "scheduler")
    yield from (each for each in sources("tests") if each.name.startswith(TOLD_THE_TIME))


def test_tests_do_not_sleep() -> None:
    """A sleep is too short on a busy machine and too long on every other."""
    report(
        f"{source.name}:{line} calls {name}: {SLEEPS[name]}"
        for source in sources("tests")
        if not source.name.startswith("tests/servers/")
        for line, name in source.calls()
        if name in SLEEPS
    )


def test_tests_use_fakes_not_mocks() -> None:
    """A mock agrees with everything; a fake keeps the port's contract."""
    report(
        f"{source.name}: write a fake; tests/conformance proves it"
        for source in sources()
        if any(name.startswith(("unittest.mock", "mock")) for name in source.imports)
    )
