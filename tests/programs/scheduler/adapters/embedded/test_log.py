"""A node that a client of another process wakes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hourhand.actors.ports.log import Polled
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.embedded.log import EmbeddedLog
from tests.unit.scheduler.adapters.embedded.files import WAIT_S
from tests.unit.scheduler.adapters.embedded.test_log import started

CLIENT = """
import sys
from pathlib import Path
from hourhand.scheduler.adapters.embedded.writer import EmbeddedWriter
from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings
writer = EmbeddedWriter(Settings(embedded=EmbeddedSettings(folder=Path(sys.argv[1]))))
for line in sys.stdin:
    print(writer.append(1, b"k", line.strip().encode()).result(60).offset, flush=True)
writer.close()
"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """A node's log, subscribed, started."""
    log = started(tmp_path)
    yield log
    log.close()


def test_a_client_of_another_process_wakes_the_node(tmp_path: Path, log: EmbeddedLog) -> None:
    """Its records arrive while it lives, soon after it has its acknowledgement."""
    clock = SystemClock()
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with client:
        assert client.stdin is not None
        assert client.stdout is not None
        for number in range(5):
            client.stdin.write(f"record {number}\n")
            client.stdin.flush()
            polled = Polled()
            deadline_ms = clock.monotonic_ms() + WAIT_S * 1000
            while not polled.records and clock.monotonic_ms() < deadline_ms:
                polled = log.poll(10, 60_000)
            assert [each.value for each in polled.records] == [b"record %d" % number]
            assert int(client.stdout.readline()) == number
        client.stdin.close()
        assert client.wait(WAIT_S) == 0
