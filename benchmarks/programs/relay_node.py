"""A relay node, as ``taskset -c 1 hourhand relay`` runs it, or on every core."""

import logging

from benchmarks.program import keep_to_one_core, tell, told, wait_for_command


def main() -> None:
    """Run until told to stop."""
    logging.basicConfig(level="WARNING")
    spec = told()
    if spec["one_core"]:
        keep_to_one_core()
    from hourhand import Settings
    from hourhand.scheduler.cli.relay_running import RelayRunning

    running = RelayRunning(Settings(**spec["settings"]))
    partitions = running.scheduler.dependencies.appender.partition_count
    running.start()
    while not (running.scheduler.is_ready and len(running.intake.partitions) == partitions):
        running.scheduler.wait(0.01)
    tell("ready")
    wait_for_command("stop")
    running.stop()
    tell("stopped")


if __name__ == "__main__":
    main()
