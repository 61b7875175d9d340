"""A relay node, as ``hourhand relay`` runs it."""

import logging

from benchmarks.program import tell, told, wait_for_command


def main() -> None:
    """Run until told to stop."""
    logging.basicConfig(level="WARNING")
    spec = told()
    from scheduler import Settings
    from scheduler.doors.relay_running import RelayRunning

    running = RelayRunning(Settings(**spec["settings"]))
    partitions = running.scheduler.surroundings.appender.partition_count
    running.start()
    while not (running.scheduler.is_ready and len(running.intake.partitions) == partitions):
        running.scheduler.wait(0.01)
    tell("ready")
    wait_for_command("stop")
    running.stop()
    tell("stopped")


if __name__ == "__main__":
    main()
