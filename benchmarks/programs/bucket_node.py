"""A node of storage with Kafka alone, as ``hourhand relay --storage kafka`` runs it."""

import logging
import time

from benchmarks.program import tell, told, wait_for_command


def main() -> None:
    """Run until told to stop."""
    logging.basicConfig(level="WARNING")
    spec = told()
    from scheduler import Settings
    from scheduler.buckets.running import BucketRelay

    settings = Settings(**spec["settings"])
    with BucketRelay(settings) as node:
        while not (node.is_ready and len(node.partitions) == settings.buckets.partitions):
            time.sleep(0.01)
        tell("ready")
        wait_for_command("stop")
    tell("stopped")


if __name__ == "__main__":
    main()
