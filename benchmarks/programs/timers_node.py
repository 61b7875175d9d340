"""A node with the HTTP timer service, as ``hourhand timers`` runs it."""

import logging

from benchmarks.program import tell, told, wait_for_command


def main() -> None:
    """Serve until told to stop."""
    logging.basicConfig(level="WARNING")
    spec = told()
    from hourhand import Settings
    from hourhand.scheduler.cli.http_running import TimersRunning

    running = TimersRunning(Settings(**spec["settings"]))
    running.start()
    while not running.scheduler.is_ready:
        running.scheduler.wait(0.01)
    tell("ready", port=running.port)
    wait_for_command("stop")
    running.stop()
    tell("stopped")


if __name__ == "__main__":
    main()
