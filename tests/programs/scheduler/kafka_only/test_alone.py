"""Storage with Kafka alone needs Kafka's driver and no other."""

import subprocess
import sys

_PROGRAM = """
import sys
import hourhand.scheduler.kafka_only.kafka.pending
import hourhand.scheduler.cli.bucket_running
import hourhand.scheduler.cli.relay_commands
import hourhand.scheduler.client.client
from hourhand import SchedulerClient, Settings
foreign = [m for m in sys.modules if m.split(".")[0] in ("cassandra", "sqlite3")]
foreign += [m for m in sys.modules if m.startswith(("hourhand.scheduler.adapters.cassandra",
            "hourhand.scheduler.adapters.embedded"))]
sys.exit(", ".join(foreign) or 0)
"""


def test_no_other_driver_is_imported() -> None:
    """Neither Cassandra's nor SQLite, nor the adapters that would."""
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False
    )

    assert not ended.returncode, ended.stderr
