"""``python -m tests.servers fetch|up|down|status``: one Kafka broker and one Cassandra node.

``fetch`` downloads them.  ``up`` leaves them running and writes their addresses to
``.servers/state.json``; ``down`` stops exactly them and keeps their data; ``.servers`` may then be
deleted.
"""

import json
import shlex
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.servers.cassandra import CassandraServer, cassandra_jars
from tests.servers.kafka import KafkaServer, kafka_jars
from tests.servers.maven import REPOSITORY, FetchFailed, ToolMissing, require_tool
from tests.servers.process import ServerFailed

FOLDER = REPOSITORY / ".servers"
STATE_FILE = FOLDER / "state.json"


def environment(kafka: KafkaServer, cassandra: CassandraServer) -> dict[str, str]:
    """Return the variables that make Hourhand use these servers."""
    return {
        "HOURHAND_LOG": "kafka",
        "HOURHAND_STORE": "cassandra",
        "HOURHAND_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "HOURHAND_CASSANDRA__CONTACT_POINTS": json.dumps(cassandra.addresses),
        "HOURHAND_CASSANDRA__PORT": str(cassandra.port),
    }


def fetch() -> int:
    """Bring what is not here yet from Maven."""
    # One after the other: two first runs of Maven would fetch the same plugin twice.
    kafka_jars()
    cassandra_jars()
    return 0


def up() -> int:
    """Start both and print how to use them; a no-op where they run."""
    require_tool("java")
    _say("Making sure that Kafka and Cassandra are there (fetched from Maven once) …")
    fetch()
    kafka, cassandra = _servers()
    if not all(each.pid for each in [*kafka.brokers, *cassandra.nodes]):
        _say("Starting Kafka and Cassandra (half a minute) …")
    failures: list[BaseException] = []
    with ThreadPoolExecutor(2) as pool:
        for each in (pool.submit(kafka.start), pool.submit(cassandra.start)):
            error = each.exception()
            if error is not None:
                failures.append(error)
    if failures:
        _stop(kafka, cassandra)
        raise failures[0]
    variables = environment(kafka, cassandra)
    STATE_FILE.write_text(
        json.dumps(
            {
                "kafka": {
                    "bootstrap_servers": kafka.bootstrap_servers,
                    "pids": [each.pid for each in kafka.brokers],
                },
                "cassandra": {
                    "contact_points": list(cassandra.addresses),
                    "port": cassandra.port,
                    "pids": [each.pid for each in cassandra.nodes],
                },
                "environment": variables,
            },
            indent=2,
        )
        + "\n"
    )
    _say("Both answer. To use them, set:")
    sys.stdout.writelines(f"export {name}={shlex.quote(v)}\n" for name, v in variables.items())
    return 0


def down() -> int:
    """Stop both; a no-op where none runs."""
    if not FOLDER.is_dir():
        _say("Nothing was started here.")
        return 0
    _stop(*_servers())
    STATE_FILE.unlink(missing_ok=True)
    _say("Kafka and Cassandra are stopped; their data is still in .servers.")
    return 0


def status() -> int:
    """Say what runs; 0 where both do, else 1."""
    if not FOLDER.is_dir():
        _say("Nothing was started here.")
        return 1
    kafka, cassandra = _servers()
    processes = [*kafka.brokers, *cassandra.nodes]
    for each in processes:
        _say(f"{each.name}: " + ("stopped" if each.pid is None else f"running, pid {each.pid}"))
    return 0 if all(each.pid is not None for each in processes) else 1


def main(arguments: list[str]) -> int:
    """Run one command; 2 where it is unknown or a tool is missing, 1 where a server failed."""
    commands: dict[str, Callable[[], int]] = {
        each.__name__: each for each in (fetch, up, down, status)
    }
    if len(arguments) != 1 or arguments[0] not in commands:
        sys.stderr.write("usage: python -m tests.servers up|down|status\n")
        return 2
    try:
        return commands[arguments[0]]()
    except ToolMissing as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except (FetchFailed, ServerFailed) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _servers() -> tuple[KafkaServer, CassandraServer]:
    return KafkaServer(FOLDER / "kafka"), CassandraServer(FOLDER / "cassandra")


def _stop(kafka: KafkaServer, cassandra: CassandraServer) -> None:
    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(kafka.stop), pool.submit(cassandra.stop)]:
            each.result()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
