"""A node of storage with Kafka alone: ``taskset -c 1 hourhand relay --storage kafka``."""

import logging
import time

from benchmarks.program import keep_to_one_core, tell, told, wait_for_command


def main() -> None:
    """Run until told to stop."""
    logging.basicConfig(level="WARNING")
    spec = told()
    keep_to_one_core()
    from hourhand import Settings
    from hourhand.scheduler.cli.bucket_running import BucketRelay

    settings = Settings(**spec["settings"])
    with BucketRelay(settings) as node:
        while not (node.is_ready and len(node.partitions) == settings.buckets.partitions):
            time.sleep(0.01)
        tell("ready")
        wait_for_command("stop")
    tell("stopped")


if __name__ == "__main__":
    main()
