"""``python examples/payment_capture.py``: take a reserved payment at its deadline, over the relay.

The shop knows Kafka and nothing of Hourhand: with each reservation it puts a message on the
relay's in-topic, under the payment's id and with a deadline.  At that time the message appears on
the out-topic, where a consumer takes the payment.  An order that is called off cancels it.

Needs ``hourhand[kafka]`` and a broker: HOURHAND_KAFKA__BOOTSTRAP_SERVERS names it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from hourhand import Settings

_WAIT_S = 60.0
_QUIET_S = 1.0
"""Seconds in which the program looks for a payment that must not be taken."""


class Reservations:
    """The shop's side: what is reserved is to be taken at a deadline, unless told otherwise."""

    def __init__(self, settings: Settings) -> None:
        self._topic = settings.relay.in_topic
        # Without idempotence a retry may overtake, and a cancel come before what it cancels.
        self._producer = Producer(
            {
                "bootstrap.servers": settings.kafka.bootstrap_servers,
                "enable.idempotence": True,
            }
        )

    def reserve(self, payment: str, cents: int, deadline: datetime) -> None:
        """Ask for a message about this payment at the deadline."""
        value = json.dumps({"payment": payment, "cents": cents}).encode()
        self._put(payment, value, chronosDeadline=deadline.isoformat())

    def postpone(self, payment: str, deadline: datetime) -> None:
        """Move what waits to another deadline."""
        self._put(payment, None, hourhandAction="reschedule", chronosDeadline=deadline.isoformat())

    def call_off(self, payment: str) -> None:
        """Cancel what waits."""
        self._put(payment, None, hourhandAction="cancel")

    def flush(self) -> None:
        """Wait until the broker has all of it; raises where it does not."""
        if left := self._producer.flush(_WAIT_S):
            raise RuntimeError(f"the broker did not take {left} messages within {_WAIT_S:.0f} s")

    def _put(self, payment: str, value: bytes | None, **headers: str) -> None:
        # One key, so one partition: a cancel follows what it cancels.
        self._producer.produce(
            self._topic, value, payment.encode(), headers={"chronosMessageId": payment, **headers}
        )


class Captures:
    """The side that takes payments when their message appears."""

    def __init__(self, settings: Settings) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": settings.kafka.bootstrap_servers,
                "group.id": f"{settings.relay.out_topic}-capture",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([settings.relay.out_topic])

    def take(self, wait_s: float) -> str | None:
        """Take the next payment and return its id; None where none is due for so long."""
        message = self._consumer.poll(wait_s)
        if message is None:
            return None
        if (error := message.error()) is not None:
            raise RuntimeError(error.str())
        payment = json.loads(message.value() or b"{}")
        # A crash before the commit takes a payment again: the bank's API knows it by its id.
        print(f"taking {payment['cents']} cents of {payment['payment']}")
        self._consumer.commit(message=message, asynchronous=False)
        return str(payment["payment"])

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


@contextmanager
def relay(settings: Settings) -> Iterator[None]:
    """Run ``hourhand relay`` beside this program; in production it is a service of its own."""
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
    names = (settings.relay.in_topic, settings.relay.out_topic)
    for made in admin.create_topics([NewTopic(name, 4) for name in names]).values():
        # They may be there already.
        made.exception(_WAIT_S)
    subprocess.run([sys.executable, "-m", "hourhand", "migrate"], check=True)
    node = subprocess.Popen([sys.executable, "-m", "hourhand", "relay", "--log-level", "warning"])
    try:
        yield
    finally:
        node.terminate()
        node.wait()


def main() -> None:
    """Reserve four payments; one is late, two are taken at their deadlines, and one never."""
    os.environ.setdefault("HOURHAND_LOG", "kafka")
    settings = Settings()
    with relay(settings):
        shop, bank = Reservations(settings), Captures(settings)
        shop.reserve("late", 1_200, datetime.now(UTC) - timedelta(seconds=1))
        shop.flush()
        taken = [bank.take(_WAIT_S)]
        soon = datetime.now(UTC) + timedelta(seconds=1.5)
        for payment, cents in (("usual", 2_500), ("postponed", 9_900), ("called-off", 700)):
            shop.reserve(payment, cents, soon)
        shop.postpone("postponed", soon + timedelta(seconds=0.5))
        shop.call_off("called-off")
        shop.flush()
        taken += [bank.take(_WAIT_S), bank.take(_WAIT_S)]
        taken += [bank.take(_QUIET_S)]
        bank.close()
    print("called-off", "was taken" if "called-off" in taken else "was not taken")
    sys.exit(0 if sorted(map(str, taken)) == ["None", "late", "postponed", "usual"] else 1)


if __name__ == "__main__":
    main()
