"""The admin API with its dashboard, as ``hourhand admin`` serves it."""

import logging

from benchmarks.program import tell, told, wait_for_command


def main() -> None:
    """Serve until told to stop."""
    logging.basicConfig(level="WARNING")
    spec = told()
    from hourhand import Settings
    from hourhand.scheduler.cli.http_running import AdminRunning

    with AdminRunning(Settings(**spec["settings"])) as running:
        tell("ready", port=running.port)
        wait_for_command("stop")
    tell("stopped")


if __name__ == "__main__":
    main()
