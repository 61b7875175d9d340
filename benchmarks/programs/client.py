"""A client that schedules a load when it is told to go, and says how long that took.

Kinds: ``bulk`` (``schedule_tasks``), ``made`` (the same with tasks made beforehand), ``futures``
(``schedule_task``, a future each), ``paced`` (the same, each when it is due), ``stream`` (in bulk,
at the load's pace, due at once), and ``produce``, the driver alone with values made beforehand: the
limit of the others.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from confluent_kafka import Producer

from benchmarks.loads import Load
from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import wall_s
from hourhand import SchedulerClient, Settings
from hourhand.actors.model.task.codec import encode_task

_ACKNOWLEDGED_S = 120.0
_APPENDS_PER_POLL = 200
_CHUNK = 5_000


def main() -> None:
    """Get ready, wait for the word, schedule everything, and say when that was."""
    spec = told()
    settings = Settings(**spec["settings"])
    load = Load(**spec["load"])
    kinds: dict[str, Callable[[Settings, Load], None]] = {
        "bulk": _bulk,
        "made": _made,
        "futures": _futures,
        "paced": _paced,
        "stream": _stream,
        "produce": _produce,
    }
    kinds[spec["kind"]](settings, load)


def _begun(load: Load) -> tuple[Load, float] | None:
    tell("ready")
    if not wait_for_command("go"):
        return None
    began_s = wall_s()
    due_s = load.due_s or began_s + told()["ahead_s"]
    return replace(load, due_s=due_s), began_s


def _bulk(settings: Settings, load: Load) -> None:
    with SchedulerClient(settings) as client:
        client.schedule_tasks(())
        if (begun := _begun(load)) is not None:
            load, began_s = begun
            client.schedule_tasks(load.tasks()).raise_if_rejected()
            _done(load, began_s)


def _made(settings: Settings, load: Load) -> None:
    with SchedulerClient(settings) as client:
        client.schedule_tasks(())
        load = replace(load, due_s=load.due_s or wall_s())
        tasks = list(load.tasks())
        if (begun := _begun(load)) is not None:
            load, began_s = begun
            client.schedule_tasks(tasks).raise_if_rejected()
            _done(load, began_s)


def _futures(settings: Settings, load: Load) -> None:
    with SchedulerClient(settings) as client:
        if (begun := _begun(load)) is not None:
            load, began_s = begun
            futures = [client.schedule_task(task) for task in load.tasks()]
            for future in futures:
                future.result(timeout=_ACKNOWLEDGED_S)
            _done(load, began_s)


def _paced(settings: Settings, load: Load) -> None:
    with SchedulerClient(settings) as client:
        client.schedule_tasks(())
        if (begun := _begun(load)) is not None:
            load, began_s = begun
            futures = []
            for task in load.tasks():
                time.sleep(max(0.0, task.scheduled_time.timestamp() - wall_s()))
                futures.append(client.schedule_task(task))
            for future in futures:
                future.result(timeout=_ACKNOWLEDGED_S)
            _done(load, began_s)


def _stream(settings: Settings, load: Load) -> None:
    with SchedulerClient(settings) as client:
        client.schedule_tasks(())
        if (begun := _begun(load)) is not None:
            _, began_s = begun
            for some in load.chunks(_CHUNK):
                now = replace(load, due_s=wall_s(), first=some.start, count=len(some))
                client.schedule_tasks(now.tasks()).raise_if_rejected()
            _done(load, began_s)


def _produce(settings: Settings, load: Load) -> None:
    producer = Producer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "partitioner": "murmur2_random",
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "lz4",
            "batch.size": 262_144,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.list_topics(settings.topic.name, timeout=10)
    dated = load if load.due_s else replace(load, due_s=wall_s())
    values = [(task.ordering_id.encode(), encode_task(task)) for task in dated.tasks()]
    if (begun := _begun(dated)) is None:
        return
    _, began_s = begun
    acknowledged = 0

    def delivered(error: Any, _: Any) -> None:
        nonlocal acknowledged
        if error is not None:
            raise RuntimeError(str(error))
        acknowledged += 1

    for number, (key, value) in enumerate(values):
        producer.produce(settings.topic.name, value, key, on_delivery=delivered)
        if not number % _APPENDS_PER_POLL:
            producer.poll(0)
    producer.flush(_ACKNOWLEDGED_S)
    if acknowledged != load.count:
        raise RuntimeError(f"{acknowledged} of {load.count} records were acknowledged")
    _done(dated, began_s)


def _done(load: Load, began_s: float) -> None:
    tell("done", began_s=began_s, ended_s=wall_s(), due_s=load.due_s)


if __name__ == "__main__":
    main()
