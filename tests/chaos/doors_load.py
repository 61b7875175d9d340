"""The steady load of the doors: messages to the relay's in-topic, timers asked for over HTTP.

The topic of outcomes is a door without a load of its own: it is read.

It offers at a fixed rate what has a fixed time, and writes down what was acknowledged and what
arrived.  Nothing of the engine is used: a Kafka producer and consumer, and plain HTTP.
"""

import http.client
import http.server
import json
import random
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from confluent_kafka import Message, Producer

from tests.chaos.doors_history import Arrived, DoorsHistory, Pop, Sent, Timer
from tests.chaos.outcomes_reader import OutcomesReader
from tests.chaos.records import now_us, wall_us
from tests.chaos.topic_reader import TopicReader
from tests.judge.history import Fault

MESSAGES_PER_S = 20
TIMERS_PER_S = 4
INTERVAL_S, POPS = 2, 5
"""So that there are as many pops a second as messages."""
_KEYS = 40
_DELETED_SHARE = 0.1
_LEAD_MS = (4_000, 12_000)
_TICK_S = 0.05
_HTTP_TIMEOUT_S = 5.0
_TRIES = 30
_ANSWERS_S = 60.0


class DoorsLoad:
    """Offers from ``start`` to ``stop``, and takes what arrives until ``close``."""

    def __init__(
        self,
        bootstrap_servers: str,
        topics: tuple[str, str],
        ports: Mapping[int, int],
        outcomes: OutcomesReader,
        seed: int,
    ) -> None:
        """``topics`` are in-topic and out-topic; ``ports`` those of the timer services, by node."""
        self._in_topic, out_topic = topics
        self._ports = list(ports.items())
        self._outcomes = outcomes
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        self._sent: dict[int, Sent] = {}
        self._arrived: list[Arrived] = []
        self._timers: dict[int, Timer] = {}
        self._pops: list[Pop] = []
        self._seen: set[int] = set()
        self._ended, self._closed = threading.Event(), threading.Event()
        self._sink = _sink(self._take_pop)
        self._uri = f"http://127.0.0.1:{self._sink.server_port}/pop"
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5}
        )
        self._out_topic = TopicReader(bootstrap_servers, out_topic, self._take_message)
        self._pool = ThreadPoolExecutor(8, "chaos-timers")
        self._threads = [
            threading.Thread(target=each, daemon=True, name="chaos-doors")
            for each in (self._offer, self._sink.serve_forever)
        ]

    def start(self) -> None:
        """Begin to offer."""
        self._outcomes.start()
        self._out_topic.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Offer no more, and wait, bounded, for every answer; repeatable."""
        self._ended.set()
        if self._threads[0].is_alive():
            self._threads[0].join()
        self._pool.shutdown()
        self._producer.flush(_ANSWERS_S)

    def wait_for_all(self, faults: Sequence[Fault], run: set[str], timeout_s: float) -> bool:
        """Wait until all that was accepted has arrived, and the tasks that have run are told.

        Timers of a clock that was wrong are left out.
        """
        until_us = now_us() + round(timeout_s * 1e6)
        while now_us() < until_us:
            if self._is_complete(faults) and self._outcomes.are_told(run):
                return True
            self._closed.wait(1.0)
        return False

    def close(self) -> None:
        """Take no more."""
        self.stop()
        self._closed.set()
        if self._threads[-1].is_alive():
            # One that never served would wait for ever for its own end.
            self._sink.shutdown()
        for thread in self._threads[1:]:
            if thread.is_alive():
                thread.join()
        self._sink.server_close()
        self._out_topic.close()
        self._outcomes.close()

    def history(self) -> DoorsHistory:
        """Return everything that was written down."""
        with self._lock:
            return DoorsHistory(
                sent=list(self._sent.values()),
                arrived=list(self._arrived),
                timers=list(self._timers.values()),
                pops=list(self._pops),
            )

    def _is_complete(self, faults: Sequence[Fault]) -> bool:
        with self._lock:
            pops = {(pop.number, pop.sequence) for pop in self._pops}
            timers = [t for t in self._timers.values() if t.accepted and t.deleted_us is None]
            timely = [t for t in timers if t.clock_of(faults) is None]
            wanted = {(t.number, n) for t in timely for n in range(1, t.pops + 1)}
            return self._sent.keys() <= self._seen and wanted <= pops

    # Offering.

    def _offer(self) -> None:
        began_us, messages, timers = now_us(), 0, 0
        while not self._ended.wait(_TICK_S):
            passed_us = now_us() - began_us
            while messages < passed_us * MESSAGES_PER_S // 1_000_000:
                messages += 1
                self._send(messages)
            while timers < passed_us * TIMERS_PER_S // 1_000_000:
                timers += 1
                self._pool.submit(self._make_timer, timers, self._rng.random())
            self._producer.poll(0)

    def _send(self, number: int) -> None:
        key = f"k{number % _KEYS}"
        # Whole seconds, so that some of a key fall due together.
        due_ms = (wall_us() // 1_000 + self._rng.randint(*_LEAD_MS)) // 1_000 * 1_000
        deadline = datetime.fromtimestamp(due_ms / 1000, UTC).isoformat()
        headers: list[tuple[str, str | bytes | None]] = [
            ("chronosMessageId", f"m{number}"),
            ("chronosDeadline", deadline),
        ]

        def delivered(error: object, message: Message) -> None:
            if error is None:
                partition, offset = int(message.partition() or 0), int(message.offset() or 0)
                sent = Sent(number, key, due_ms, wall_us() // 1_000, partition, offset)
                with self._lock:
                    self._sent[number] = sent

        value = json.dumps({"n": number, "key": key})
        self._producer.produce(
            self._in_topic, key=key, value=value, headers=headers, on_delivery=delivered
        )

    def _make_timer(self, number: int, lot: float) -> None:
        asked_ms = wall_us() // 1_000
        timer = Timer(number, INTERVAL_S * 1_000, POPS, asked_ms, accepted=False)
        timing = {"interval": INTERVAL_S, "repeat-for": INTERVAL_S * POPS}
        body = {"timing": timing, "callback": {"http": {"uri": self._uri, "opaque": str(number)}}}
        answer = self._ask("POST", "/timers", json.dumps(body))
        if answer is not None:
            node, location = answer
            timer = replace(timer, accepted=True, node=node, answered_us=now_us())
        with self._lock:
            self._timers[number] = timer
        if answer is not None and lot < _DELETED_SHARE:
            self._ended.wait(1.5 * INTERVAL_S)
            if self._ask("DELETE", location, "") is not None:
                with self._lock:
                    self._timers[number] = replace(self._timers[number], deleted_us=now_us())
            else:
                # It may be deleted or not: nothing is known of its pops.
                with self._lock:
                    self._timers[number] = replace(self._timers[number], accepted=False)

    def _ask(self, method: str, path: str, body: str) -> tuple[int, str] | None:
        """Ask any of the services until one answers: its node, and the location it tells.

        None where none answered for long.

        What was asked and not answered may be done anyway, so it is asked no further.
        """
        for attempt in range(_TRIES):
            node, port = self._ports[(attempt + self._rng.randrange(8)) % len(self._ports)]
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_HTTP_TIMEOUT_S)
            try:
                connection.connect()
            except OSError:
                # Nobody is there, so nothing was asked.
                self._ended.wait(1.0)
                continue
            try:
                connection.request(method, path, body)
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                return None
            finally:
                connection.close()
            return (node, answer.headers["Location"]) if answer.status == HTTPStatus.OK else None
        return None

    # Taking what arrives.

    def _take_pop(self, body: str, headers: Mapping[str, Any]) -> None:
        pop = Pop(int(body), int(headers["X-Sequence-Number"]), wall_us() // 1_000, now_us())
        with self._lock:
            self._pops.append(pop)

    def _take_message(self, message: Message) -> None:
        value = json.loads(message.value() or b"{}")
        arrived = Arrived(
            number=value["n"],
            key=value["key"],
            partition=int(message.partition() or 0),
            offset=int(message.offset() or 0),
            produced_wall_ms=message.timestamp()[1],
            at_us=now_us(),
        )
        with self._lock:
            self._arrived.append(arrived)
            self._seen.add(arrived.number)


class _Sink(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong, but not that a node which was killed let go of its connections."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _sink(take: Callable[[str, Mapping[str, Any]], None]) -> _Sink:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Write a pop down, then answer."""
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            take(body, dict(self.headers))
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's
            """Say nothing."""

    return _Sink(("127.0.0.1", 0), Handler)
