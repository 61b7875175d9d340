"""docs/security.md: its examples are settings that hold, its tables the rights that are tested."""

import re
import tomllib
from pathlib import Path

import pytest

from hourhand.scheduler.configuration.settings import Settings
from tests.security import cassandra_rights, kafka_rights
from tests.tidy.source import ROOT

PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_is_accepted_as_it_stands(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file, as a reader would use it; and it says what it is there to say."""
    file = tmp_path / "hourhand.toml"
    file.write_text(EXAMPLES[number])
    monkeypatch.setenv("HOURHAND_CONFIG", str(file))

    settings = Settings()

    said = tomllib.loads(EXAMPLES[number])
    server = settings.kafka if "kafka" in said else settings.cassandra
    assert server.tls.enabled


def test_there_are_examples() -> None:
    """The pattern above would find none in silence."""
    assert len(EXAMPLES) == 6


def _row(part: str, heading: str) -> list[str]:
    section = PAGE.partition(f"### {heading}\n")[2].partition("\n## ")[0]
    row = re.search(rf"^\| {re.escape(part)} \|(.*)\|$", section, re.MULTILINE)
    assert row is not None, part
    return [cell.strip() for cell in row[1].split("|")]


@pytest.mark.parametrize(
    ("part", "rights"),
    [
        ("node", kafka_rights.NODE_RIGHTS),
        ("client", kafka_rights.CLIENT_RIGHTS),
        ("`hourhand migrate`", kafka_rights.MIGRATE_RIGHTS),
    ],
)
def test_the_rights_on_kafka_are_those_that_are_tested(
    part: str, rights: kafka_rights.Rights
) -> None:
    """Users of the tests hold these and no more."""
    written = _row(part, "Rights on Kafka")

    expected = [", ".join(rights.get(each, ())) for each in ("topic", "dead_letter", "group")]
    assert written == expected


@pytest.mark.parametrize(
    ("part", "rights"),
    [
        ("relay node, beside a node's", kafka_rights.RELAY_RIGHTS),
        ("node, Kafka alone", kafka_rights.BUCKET_NODE_RIGHTS),
        ("client, Kafka alone", kafka_rights.BUCKET_CLIENT_RIGHTS),
        (
            "`hourhand migrate`, `relay --create-topics`, Kafka alone",
            kafka_rights.BUCKET_MIGRATE_RIGHTS,
        ),
    ],
)
def test_the_rights_for_messages_are_those_that_are_tested(
    part: str, rights: kafka_rights.Rights
) -> None:
    """As above, for the relay and for what waits in Kafka alone."""
    written = _row(part, "Rights on Kafka for messages")

    assert written == [", ".join(rights.get(each, ())) for each in kafka_rights.MESSAGE_PARTS]


def test_the_rights_on_cassandra_are_those_that_are_tested() -> None:
    """Users of the tests hold these and no more."""
    node, migrate = (
        _row(part, "Rights on Cassandra")[0] for part in ("node", "`hourhand migrate`")
    )

    assert node == f"{', '.join(cassandra_rights.NODE_GRANTS)} on the keyspace"
    assert migrate.startswith(f"{', '.join(cassandra_rights.MIGRATE_GRANTS)} on all keyspaces;")
