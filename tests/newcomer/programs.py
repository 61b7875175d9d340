"""Small programs that somebody writes in the first hours, and what each of them prints.

Decides what a reader may expect to see; the programs run with the wheel and nothing else.
"""

from typing import NamedTuple


class Program(NamedTuple):
    """One file, run in a folder of its own; it must end with exit code 0."""

    name: str
    source: str
    prints: tuple[str, ...]
    """Parts of what it prints and logs, each of which must be there."""
    never: tuple[str, ...] = ()
    """Parts that must not be there."""


START = """
import asyncio, gc, json, logging, os, sys, threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hourhand import *
from tenacity import wait_none

SETTINGS = Settings(embedded={"folder": "data"})
ONCE = RetryPolicy(attempts_max=1, wait=wait_none())


def say(*words):
    # In one piece: executors print from several threads.
    sys.stdout.write(" ".join(map(str, words)) + "\\n")


def task(key, kind=None, when=None, **data):
    when = datetime.now(UTC) if when is None else when
    return Task(ordering_id=key, scheduled_time=when, uniqueness_key="x", data=data, kind=kind)


def finish(client, *tasks):
    for each in tasks:
        info = client.wait_task(each.key, timeout=60)
        print(each.ordering_id, "is", info.state.value)

"""

ANY_NAME = """
# Each of these was once a method of the library, which a user's method replaced.
NAMES = ["on_receive", "on_start", "on_stop", "stop", "bind_role", "_bind_context", "spawn"]


def called(self, *arguments, **named):
    say("called by the library")
    raise RuntimeError("called by the library")


def run(self, task):
    say("ran beside", task.ordering_id)


EXECUTORS = {
    name.strip("_"): type("Named", (TaskExecutor,), {"execute": run, "retry": ONCE, name: called})
    for name in NAMES
}
with Scheduler(SETTINGS, executors=EXECUTORS) as node:
    tasks = [task(name, name.strip("_")) for name in NAMES]
    for each in tasks:
        node.schedule_task(each).result(timeout=60)
    finish(node, *tasks)
print("stopped")
"""

FAILURES = """
logging.basicConfig(level="WARNING", format="%(levelname)s %(message)s", stream=sys.stdout)


class Base(TaskExecutor):
    retry = ONCE


class Raises(Base):
    def execute(self, task):
        {}["missing"]


class NoDatabase(Base):
    def __init__(self):
        raise RuntimeError("db down")

    def execute(self, task):
        pass


class Exits(Base):
    def execute(self, task):
        sys.exit("gone away")


class Interrupts(Base):
    async def execute(self, task):
        raise KeyboardInterrupt("pressed")


class SoonAgain(Base):
    def execute(self, task):
        return Retry(after=5)


class Slow(Base):
    timeout = timedelta(milliseconds=50)

    async def execute(self, task):
        await asyncio.sleep(60)


KINDS = {one.__name__: one for one in (Raises, NoDatabase, Exits, Interrupts, SoonAgain, Slow)}
with Scheduler(SETTINGS, executors=KINDS) as node:
    tasks = [task(kind, kind) for kind in KINDS]
    for each in tasks:
        node.schedule_task(each).result(timeout=60)
    # Without an executor its own policy is unknown, so the default one tries this again.
    finish(node, *(each for each in tasks if each.kind != "NoDatabase"))
"""

REGISTRY = """
@dataclass
class Invoice:
    id: int


app = Hourhand()


@app.task("invoice", retry=ONCE)
def send(invoice: Invoice) -> None:
    say("sending", invoice)


@app.task("label", retry=ONCE)
async def stick(data: dict) -> None:
    say("sticking", data)


with Scheduler(SETTINGS, executors=app) as node:
    sent = send.schedule(Invoice(id=42), ordering_id="a", after=timedelta(0)).result(timeout=60)
    stick.schedule({"to": "b"}, ordering_id="b", after=timedelta(0)).result(timeout=60)
    print(node.wait_task(sent.key, timeout=60).state.value)
    unfit = node.schedule_task(task("c", "invoice", id="many")).result(timeout=60)
    print(node.wait_task(unfit.key, timeout=60).state.value, "without", "id")
    try:
        send.schedule({"id": "many"}, ordering_id="a", after=timedelta(0)).result(timeout=60)
    except HourhandError as error:
        print(error.code, error)
"""

MAPPING = """
class SendMail(TaskExecutor):
    def execute(self, task):
        say("mail to", task.data["to"])


class Charge(TaskExecutor):
    async def execute(self, task):
        say("charge", task.data["cents"])


with Scheduler(SETTINGS, executors={"mail": SendMail, "charge": Charge}) as node:
    tasks = task("a", "mail", to="ann"), task("b", "charge", cents=5)
    for each in tasks:
        node.schedule_task(each).result(timeout=60)
    finish(node, *tasks)
"""

FORK = """
LATER = datetime.now(UTC) + timedelta(hours=1)
client = SchedulerClient(SETTINGS)
client.schedule_task(task("parent", when=LATER)).result(timeout=60)
if os.fork() == 0:
    try:
        client.schedule_task(task("child", when=LATER)).result(timeout=60)
    except HourhandError as error:
        print("child:", error.code, error)
    try:
        SchedulerClient(SETTINGS)
    except HourhandError as error:
        print("its own:", error.code, error, flush=True)
    os._exit(0)
os.wait()
client.schedule_task(task("parent again", when=LATER)).result(timeout=60)
print("parent goes on")
client.close()
"""

REFUSED = """
with SchedulerClient(SETTINGS) as client:
    client.schedule_task(task("a", when=datetime(2020, 1, 1, tzinfo=UTC)))
print("end")
"""

COROUTINES = """
from hourhand.testing import VirtualScheduler, execute_task


class Waits(TaskExecutor):
    async def execute(self, task):
        await asyncio.sleep(0.001)


async def main():
    print("alone:", type(execute_task(Waits(), task("a"))).__name__)
    virtual = VirtualScheduler(Waits)
    virtual.schedule_task(task("a", when=virtual.now))
    virtual.advance(days=1)
    virtual.assert_executed(ordering_id="a")
    print("in virtual time")
    with SchedulerClient(SETTINGS) as client:
        print("kept in", (await client.schedule_task(task("a"))).partition)
        try:
            await client.schedule_task(task("a", when=datetime(2020, 1, 1, tzinfo=UTC)))
        except HourhandError as error:
            print(error.code)


asyncio.run(main())
"""

KIT_SAYS_WHY = """
from hourhand.testing import VirtualScheduler


class Fails(TaskExecutor):
    retry = ONCE

    def execute(self, task):
        raise ValueError("no such customer")


virtual = VirtualScheduler(Fails)
virtual.schedule_task(task("a", when=virtual.now + timedelta(days=1)))
virtual.schedule_task(task("past", when=virtual.now - timedelta(days=1)))
virtual.advance(days=2)
for ordering_id in ("a", "past"):
    try:
        virtual.assert_executed(ordering_id=ordering_id)
    except AssertionError as error:
        print(error)
"""

READING = """
class Works(TaskExecutor):
    def execute(self, task):
        pass


with Scheduler(SETTINGS, executor=Works) as node:
    waits = task("later", when=datetime.now(UTC) + timedelta(hours=1), n=1)
    due = task("now")
    for each in (waits, due):
        node.schedule_task(each).result(timeout=60)
    finish(node, due)
    print("again:", node.find_task(due.key).state.value)
    print("never sent:", node.find_task(task("nobody").key).state.value)
    while node.find_task(waits.key).state.value == "unknown":
        pass
    print("listed:", [each.key.ordering_id for each in node.list_tasks()])
    receipt = node.cancel_task(("later", "x")).result(timeout=60)
    print("cancelled:", node.wait_outcome(receipt, timeout=60).outcome)
"""

COLLECTOR = """
before = gc.get_threshold()
with SchedulerClient(SETTINGS) as client:
    client.schedule_tasks([task("a")])
    print("a client leaves it:", gc.get_threshold() == before)


class Works(TaskExecutor):
    def execute(self, task):
        pass


with Scheduler(SETTINGS, executor=Works):
    pass
print("a node puts it back:", gc.get_threshold() == before)
"""

_ANY_NAME = ("on_receive", "on_start", "on_stop", "stop", "bind_role", "_bind_context", "spawn")
PROGRAMS = (
    Program(
        "methods of any name",
        ANY_NAME,
        (*(f"ran beside {name}\n" for name in _ANY_NAME), "stop is success", "stopped"),
        ("called by the library", "TreeRebuilt"),
    ),
    Program(
        "failures are logged",
        FAILURES,
        (
            '{}["missing"]',
            "KeyError: 'missing'",
            "in __init__",
            "RuntimeError: db down",
            "SystemExit: gone away",
            "KeyboardInterrupt: pressed",
            "Retry(after=5): a timedelta is needed, as timedelta(seconds=5)",
            "TimeoutError",
            *(f"{kind} is failure" for kind in ("Raises", "Exits", "Interrupts", "SoonAgain")),
        ),
        ("TreeRebuilt",),
    ),
    Program(
        "kinds by registry",
        REGISTRY,
        (
            "sending Invoice(id=42)",
            "sticking {'to': 'b'}",
            "success\n",
            "failure without id",
            "payload-invalid",
        ),
    ),
    Program(
        "kinds by mapping",
        MAPPING,
        ("mail to ann", "charge 5", "a is success", "b is success"),
    ),
    Program(
        "fork",
        FORK,
        (
            "child: used-after-fork",
            "open one client in each process, after the fork",
            "its own: ",
            "parent goes on",
        ),
    ),
    Program("nobody asks", REFUSED, ("task-in-the-past", "schedule it for now instead", "end")),
    Program(
        "coroutines",
        COROUTINES,
        ("alone: ", "in virtual time", "kept in ", "task-in-the-past"),
    ),
    Program(
        "the test kit says why",
        KIT_SAYS_WHY,
        ("ValueError: no such customer", 'raise ValueError("no such customer")', "TaskInThePast"),
    ),
    Program(
        "reading tasks",
        READING,
        ("again: success", "never sent: unknown", "listed: ['now', 'later']", "cancelled: applied"),
    ),
    Program(
        "the collector",
        COLLECTOR,
        ("a client leaves it: True", "a node puts it back: True"),
    ),
)
