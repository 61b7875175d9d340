"""``hourhand`` with Kafka alone as the storage: what is refused before any broker is asked."""

import pytest

from tests import command_line

KAFKA = ("--set", "log=kafka", "--set", "store=kafka")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("relay", "--storage", "kafka", "--executor", "a:B"), "leave it out"),
        (("run", "--executor", "tests.chaos.executor:AsyncExecutor", *KAFKA), "no tasks"),
        (("relay", "--set", "store=kafka"), "set log to 'kafka' too"),
        (
            (
                "relay",
                "--storage",
                "kafka",
                "--set",
                "kafka.bootstrap_servers=127.0.0.1:1",
                "--set",
                "kafka.connect_timeout_ms=200",
            ),
            "127.0.0.1:1",
        ),
    ],
)
def test_what_cannot_be_is_told_in_one_line(arguments: tuple[str, ...], told: str) -> None:
    """And the exit code says that the installation, or who asks, is to change something."""
    result = command_line.run(*arguments)

    assert result.exit_code == 3, result.output
    assert told in result.output.replace("\n", " ")
