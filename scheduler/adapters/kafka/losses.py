"""Which connections one client of the driver lost while something may have been on its way.

The driver sends a request again over a new connection and says nowhere that it did: its line about
the lost one is all there is to tell by.  Decides nothing of what follows.
"""

from scheduler.adapters.kafka.connection import driver_logger

TELLING = {"log_level": "6", "log.connection.close": "true", "connections.max.idle.ms": "30000"}
"""Properties under which the driver tells of each loss with a request under way.  It is silent
about connections that were idle for a minute, and would be about the next loss that looks the
same: so idle ones it has to close itself, before that."""
_NEVER_UP = "in state CONNECT"
"""In what the driver says of a connection over which nothing was sent."""
_LOST = "FAIL"
"""How the driver marks its lines about connections that failed."""


class Losses:
    """Takes the driver's lines in a logger's place, while the driver is polled."""

    def __init__(self) -> None:
        self.lost = ""
        """What was said of the first connection that may have had a request under way."""

    def log(self, level: int, form: str, *arguments: str) -> None:
        """Pass a line on and take note of it; the arguments are its mark, the client, its text."""
        driver_logger.log(level, form, *arguments)
        if arguments[0] == _LOST and _NEVER_UP not in arguments[-1]:
            self.lost = self.lost or arguments[-1]
