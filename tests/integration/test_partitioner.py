"""The partition of an ordering id is the one Kafka's own Java producer picks."""

import base64
import random
import subprocess
from pathlib import Path

import pytest

from hourhand.actors.model.task.partition import partition_of
from tests.servers.kafka import kafka_jars
from tests.servers.maven import FetchFailed, ToolMissing, class_path, require_tool
from tests.servers.process import SHORT_LIVED

pytestmark = pytest.mark.integration

SOURCE = Path(__file__).with_name("Murmur2Check.java")
IDS = 5_000
ALPHABETS = (
    [chr(code) for code in range(0x20, 0x7F)],
    [chr(code) for code in range(0x100)],
    [chr(code) for code in (*range(0x100, 0x3000, 7), 0xFFFD, 0x1F600, 0x10FFFF, 0)],
)


def random_ids() -> list[str]:
    """Return ids of all lengths modulo four, with every width of UTF-8, the empty one too."""
    chance = random.Random(20260209)
    return [
        "",
        *(
            "".join(chance.choices(chance.choice(ALPHABETS), k=chance.randrange(1, 40)))
            for _ in range(IDS)
        ),
    ]


def test_partitions_equal_those_of_the_java_producer() -> None:
    """Some thousand ids, over numbers of partitions from one to a thousand."""
    try:
        java, jars = require_tool("java"), kafka_jars()
    except (ToolMissing, FetchFailed) as error:
        pytest.skip(f"no Java to compare with: {error}")
    chance = random.Random(7)
    asked = [(each, chance.randint(1, 1_000)) for each in random_ids()]
    lines = [f"{count} {base64.b64encode(each.encode()).decode()}" for each, count in asked]
    answered = subprocess.run(
        [java, *SHORT_LIVED, "-cp", class_path(jars), str(SOURCE)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    theirs = [int(line) for line in answered.stdout.split()]
    assert theirs == [partition_of(each, count) for each, count in asked]
    assert len(set(theirs)) > 500
