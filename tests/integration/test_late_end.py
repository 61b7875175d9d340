"""The end of a transaction that reaches the broker late, when a later one is under way."""

import random
import struct
from collections import Counter
from collections.abc import Iterator

import pytest

from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.kafka_only.marker import Marker, decode_marker, encode_marker
from hourhand.scheduler.kafka_only.ports import Outgoing, PartitionTransactions, Refused
from hourhand.scheduler.wiring import create_bucket_topics, open_buckets
from tests.integration.bucket_world import bucket_settings, read_committed
from tests.servers.kafka import KafkaServer
from tests.servers.proxy import END_TXN, PRODUCE, HoldingProxy, Request

pytestmark = pytest.mark.integration

_EPOCH_BUMPS_FROM = 5
"""The version of EndTxn from which on each transaction has an epoch of its own (KIP-890)."""


class OwnerOfOne:
    """Takes steps as an owner does: one that failed is begun again, and done unless it was."""

    def __init__(self, settings: Settings, transactions: PartitionTransactions) -> None:
        self._out_topic = settings.relay.out_topic
        self._transactions = transactions
        self._done = 0
        self.begun = 0
        self.failures: list[str] = []
        self._begin()

    def pass_on(self, number: int) -> None:
        """Pass on message ``number``, the next one."""
        while self._done <= number:
            message = Outgoing(self._out_topic, None, b"k", b"%d" % number)
            marker = encode_marker(Marker(number + 1))
            try:
                self._transactions.commit((message,), number + 1, marker)
            except LogUnavailable as error:
                self.failures.append(str(error))
                self._begin()
            else:
                self._done = number + 1

    def abort(self) -> None:
        """Have a transaction aborted: one of its records is refused."""
        large = Outgoing(self._out_topic, None, b"k", random.Random(7).randbytes(2_000_000))
        try:
            self._transactions.commit((large,), self._done, encode_marker(Marker(self._done)))
        except LogUnavailable as error:
            self.failures.append(str(error))
            self._begin()
        except Refused:
            pass

    def _begin(self) -> None:
        marker = self._transactions.begin()
        self._done = 0 if marker is None else decode_marker(marker).next_offset
        self.begun += 1


@pytest.fixture
def proxy(kafka_server: KafkaServer) -> Iterator[HoldingProxy]:
    """What stands between the owner and the broker."""
    with HoldingProxy(kafka_server.bootstrap_servers) as proxy:
        yield proxy


@pytest.mark.parametrize("how", ["commit", "abort"])
def test_an_end_that_arrives_late_ends_no_later_transaction(
    kafka_server: KafkaServer, proxy: HoldingProxy, how: str
) -> None:
    """Its connection was lost, the driver sent it again: nothing is lost or doubled by the first.

    It arrives between two records of a later transaction, which a broker that knows only the
    producer's epoch would split.
    """
    settings = bucket_settings(kafka_server)
    create_bucket_topics(settings)
    wiring.create_relay_topics(settings)
    through = settings.kafka.model_copy(update={"bootstrap_servers": proxy.bootstrap_servers})
    storage = open_buckets(settings.model_copy(update={"kafka": through}), SystemClock())
    log = storage.pending_log()
    transactions = log.transactions(1)
    owner = OwnerOfOne(settings, transactions)
    try:
        owner.pass_on(0)
        proxy.hold_next(lambda request: request.api == END_TXN)
        if how == "commit":
            owner.pass_on(1)
        else:
            owner.abort()
        assert proxy.held.wait(30)
        (late,) = proxy.late

        def arrive(request: Request) -> None:
            is_marker = request.concerns(settings.buckets.marker_topic)
            if late.answer is None and request.api == PRODUCE and is_marker:
                late.arrive()

        proxy.before_each(arrive)
        for number in range(1, 5):
            owner.pass_on(number)
    finally:
        transactions.close()
        log.close()

    seen = Counter(each.value for each in read_committed(settings, settings.relay.out_topic))
    assert seen == {b"%d" % number: 1 for number in range(5)}
    assert late.answer is not None
    (code,) = struct.unpack_from(">h", late.answer, 4)
    assert code != 0, "the broker refuses it by its epoch"
    assert late.request.version < _EPOCH_BUMPS_FROM, "a newer driver makes this unneeded"
    assert owner.begun == 2, owner.failures
