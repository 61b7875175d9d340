"""``hourhand relay``: run a relay node; list, show, cancel and move waiting messages.

With storage in Kafka alone, a listing reads every partition from its marker to its end and changes
nothing.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import heapq
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import InvalidInput, SettingsInvalid
from hourhand.actors.model.values.instant import format_instant, from_millis
from hourhand.scheduler import wiring
from hourhand.scheduler.admin.acting import Action, TasksActedOn
from hourhand.scheduler.admin.answers import Answer
from hourhand.scheduler.admin.relayed import ShownMessage
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.cli import task_input
from hourhand.scheduler.cli.bucket_running import BucketRelay
from hourhand.scheduler.cli.failing import leave_at_once, say
from hourhand.scheduler.cli.listings import print_facts, print_listing
from hourhand.scheduler.cli.log_lines import log_to_stderr
from hourhand.scheduler.cli.node_commands import observed, say_where
from hourhand.scheduler.cli.operating import (
    ActOptions,
    NamedAct,
    operator_service,
    operator_session,
)
from hourhand.scheduler.cli.relay_running import RelayRunning
from hourhand.scheduler.cli.session import (
    CommandOptions,
    Commands,
    LogLevelOption,
    MetricsPortOption,
    ResultOptions,
    command_session,
)
from hourhand.scheduler.cli.task_commands import WaitOption
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.executors.loading import load_executors
from hourhand.scheduler.kafka_only.envelope import Envelope, NoEnvelope, read_envelope
from hourhand.scheduler.kafka_only.marker import Marker, decode_marker
from hourhand.scheduler.tasks.inspector import TaskView

app = Commands(invoke_without_command=True, help="Pass Kafka messages on at their deadline.")


class Storage(StrEnum):
    """The storage of waiting messages."""

    ENGINE = "engine"
    KAFKA = "kafka"

    @property
    def overrides(self) -> list[str]:
        """The settings that this storage needs."""
        return ["log=kafka", "store=kafka"] if self is Storage.KAFKA else []


StorageOption = Annotated[
    Storage,
    typer.Option(
        metavar="STORAGE",
        help="Storage of waiting messages: engine (its store), or kafka (no store).",
    ),
]


@app.callback()
def relay(
    context: typer.Context,
    *,
    executor: Annotated[
        list[str] | None,
        typer.Option(metavar="[KIND=]MODULE:NAME", help="Runs your own tasks on the same topic."),
    ] = None,
    storage: StorageOption = Storage.ENGINE,
    create_topics: Annotated[
        bool,
        typer.Option("--create-topics", help="Create in-topic and out-topic if they are missing."),
    ] = False,
    metrics_port: MetricsPortOption = None,
    log_level: LogLevelOption = "info",
    common: CommandOptions,
) -> None:
    """Run a relay node until stopped.

    A message of relay.in_topic with the headers chronosMessageId and chronosDeadline (RFC 3339
    with a zone) appears on relay.out_topic at its deadline, byte for byte, without them.

    \b
    Examples:
      hourhand relay --create-topics --set relay.in_topic=orders-in --set relay.out_topic=orders
      hourhand relay --storage kafka --create-topics
      hourhand relay pending
    """
    if context.invoked_subcommand is not None:
        return
    chosen = [*storage.overrides, *observed(metrics_port)]
    with command_session(common, chosen) as settings:
        log_to_stderr(log_level, settings)
        if settings.store == "kafka":
            run_bucket_relay(settings, executor, create_topics=create_topics)
        else:
            _run_relay(settings, executor, create_topics=create_topics)
        say("the relay has stopped")


def _run_relay(settings: Settings, paths: list[str] | None, *, create_topics: bool) -> None:
    """Run a node that keeps messages in the engine's store, until it is stopped."""
    users = load_executors(paths or ())
    if create_topics:
        for made in wiring.create_relay_topics(settings):
            say(f"made topic {made}")
    running = RelayRunning(settings, executor=users.executor, executors=users.executors)
    try:
        with running.scheduler.stopped_by_signals():
            running.start()
            say_where(running.scheduler)
            say("the relay runs; Ctrl-C stops it")
            running.wait()
    except KeyboardInterrupt:
        leave_at_once()


@app.command()
def pending(
    *,
    limit: Annotated[
        int,
        typer.Option(min=1, max=100_000, metavar="N", help="Most messages to list."),
    ] = 100,
    end: Annotated[
        str,
        typer.Option(
            "--to", metavar="TIME", help="Only messages due before this time: RFC 3339, +7d."
        ),
    ] = "+31d",
    after: Annotated[
        str | None, typer.Option(metavar="KEY", help="Cursor from the previous page.")
    ] = None,
    storage: StorageOption = Storage.ENGINE,
    common: ResultOptions,
) -> None:
    """List messages that wait, earliest first.

    Those of the relay, and those of send_later.

    \b
    Examples:
      hourhand relay pending --limit 20 --output json
      hourhand relay pending --storage kafka
    """
    with command_session(common, storage.overrides) as settings:
        following = None
        found: Sequence[Answer | Mapping[str, object]]
        if settings.store == "kafka":
            found = waiting_in_buckets(settings, limit)
        else:
            found, following = _waiting(settings, limit, end, after)
        answer = {"messages": found, "nextAfter": following}
        more = "" if following is None else f"--after {following}"
        print_listing(common, answer, found, ("due", "state", "topic", "id", "key"), following=more)
        if not (more or common.wants_json or settings.store == "kafka"):
            say(f"messages due after {end} are not listed: --to widens the time")


@app.command()
def show(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the message.")],
    *,
    common: ResultOptions,
) -> None:
    """Show a message that waits.

    \b
    Example:
      hourhand relay show order-42
    """
    with operator_session(common) as service:
        found = service.relayed.find(message_id)
        if found is None:
            raise InvalidInput(f"no message waits under {message_id!r} in this installation")
        value = service.relayed.shown(found, data=service.settings.admin.show_data)
        print_facts(common, value)


def _add_act(action: Action, text: str) -> None:
    """Add a command that acts on the messages of some ids."""

    @app.command(action.value, help=text)
    def act_on_messages(
        message_ids: Annotated[
            list[str], typer.Argument(metavar="ID", help="Ids of the messages.")
        ],
        *,
        wait: WaitOption = 5,
        common: ActOptions,
    ) -> None:
        with operator_session(common) as service:
            doing = _named(service, action, message_ids, None, wait)
            doing.run(service, common)


_add_act(Action.CANCEL, "Cancel messages that wait.")
_add_act(Action.RUN_NOW, "Pass messages on now.")


@app.command()
def reschedule(
    message_ids: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of the messages.")],
    *,
    to: Annotated[
        str | None, typer.Option(metavar="TIME", help="The new time, in RFC 3339 with a zone.")
    ] = None,
    delay: Annotated[
        str | None, typer.Option("--in", metavar="DURATION", help="The new time, from now.")
    ] = None,
    wait: WaitOption = 5,
    common: ActOptions,
) -> None:
    """Move messages that wait to another time.

    \b
    Example:
      hourhand relay reschedule order-42 order-43 --in 2h
    """
    with operator_session(common) as service:
        now_ms = service.clock.now_ms()
        target = from_millis(task_input.due_ms(to, delay, now_ms, "--to and --in"))
        doing = _named(service, Action.RESCHEDULE, message_ids, target, wait)
        doing.run(service, common)


def _waiting(
    settings: Settings, limit: int, end: str, after: str | None
) -> tuple[list[ShownMessage], str | None]:
    """Return the first messages, and the cursor of the next page."""
    found: list[TaskView] = []
    with operator_service(settings) as service:
        to_ms = task_input.parse_moment_ms(end, service.clock.now_ms())
        place = None if after is None else TaskKey.parse(after)
        while True:
            listing = service.relayed.page(place, limit - len(found), to_ms)
            found += listing.tasks
            place = listing.next_after
            if place is None or len(found) == limit:
                break
    return [ShownMessage.of(view) for view in found], None if place is None else str(place)


def _named(
    service: AdminService,
    action: Action,
    message_ids: list[str],
    to: datetime | None,
    wait_s: float,
) -> NamedAct:
    found = service.relayed.known(message_ids)
    keys = [view.key for view in found.values()]
    return NamedAct(
        f"relay {action.value}",
        "messages",
        [str(key) for key in keys],
        [each for each in dict.fromkeys(message_ids) if each not in found],
        lambda: TasksActedOn.of(
            service.actions.act(action, keys, to, wait_s), f"relay {action.value}"
        ),
        waited=wait_s > 0,
    )


def run_bucket_relay(
    settings: Settings, executor: list[str] | None, *, create_topics: bool
) -> None:
    """Run a node until it is stopped."""
    if executor:
        raise SettingsInvalid("--executor runs tasks, and store 'kafka' keeps none: leave it out")
    if create_topics:
        for made in [*wiring.create_bucket_topics(settings), *wiring.create_relay_topics(settings)]:
            say(f"made topic {made}")
    node = BucketRelay(settings)
    with node.stopped_by_signals():
        node.start()
        if node.observation.port is not None:
            say(f"metrics and health on port {node.observation.port}")
        say(
            "the relay runs on Kafka alone: ids are not compared, nothing can be cancelled or moved"
        )
        say("Ctrl-C stops it")
        node.wait()


def waiting_in_buckets(settings: Settings, limit: int) -> list[dict[str, Any]]:
    """Return the messages that wait, earliest first, as ``relay pending`` shows them."""
    return [
        {
            "due": format_instant(each.envelope.due_ms),
            "topic": each.envelope.topic,
            "id": each.envelope.message_id,
            "key": f"{settings.buckets.topic}[{each.partition}]@{each.offset}",
        }
        for each in list_waiting(settings, limit)
    ]


class WaitingMessage(msgspec.Struct, frozen=True):
    """A message that was not passed on yet, and its place in the pending topic."""

    envelope: Envelope
    partition: int
    offset: int


def list_waiting(settings: Settings, limit: int) -> list[WaitingMessage]:
    """Return the first messages by the time they are due; TopicMissing, LogUnavailable."""
    return heapq.nsmallest(
        limit, _waiting_in_kafka(settings), key=lambda each: each.envelope.due_ms
    )


def _waiting_in_kafka(settings: Settings) -> Iterator[WaitingMessage]:
    with (
        closing(wiring.open_topic_reader(settings, settings.buckets.topic)) as reader,
        wiring.open_marks(settings) as last_marker,
    ):
        bounds = reader.bounds()
        for partition, (first, end) in bounds.items():
            stored = last_marker(partition)
            marker = Marker(first) if stored is None else decode_marker(stored)
            for records in reader.read(partition, max(first, marker.next_offset), end):
                for record in records:
                    if marker.is_done(record.offset):
                        continue
                    try:
                        envelope, _ = read_envelope(record)
                    except NoEnvelope:
                        continue
                    yield WaitingMessage(envelope, partition, record.offset)
