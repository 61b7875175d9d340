"""What an embedded client loads, in an interpreter of its own."""

import subprocess
import sys
from pathlib import Path


def test_neither_the_package_nor_an_embedded_client_loads_a_driver(tmp_path: Path) -> None:
    """Whoever has no Kafka need not have its driver work."""
    program = (
        "import sys; from hourhand import Settings, SchedulerClient;"
        " SchedulerClient(Settings()).close();"
        " print([name for name in ('confluent_kafka', 'cassandra', 'typer', 'prometheus_client')"
        " if name in sys.modules])"
    )
    root = Path(__file__).parents[3]

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )

    assert done.stdout == "[]\n"
