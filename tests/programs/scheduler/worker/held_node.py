"""A node's runner whose only process sleeps for ever, for tests that stop or kill the node.

Its lease is renewed for two seconds at a time, as long as it runs.  It prints the process id of the
sleeping process.
"""

import sys
import threading

from tests.programs.scheduler.node.process_bench import ProcessBench

LEASE_MS = 2_000.0


def main() -> None:
    """Run until killed."""
    with ProcessBench() as bench:
        bench.renew = lambda: bench.clock.monotonic_ms() + LEASE_MS
        pid = bench.run("async").reason
        bench.start("sleeps", {"s": 1_000})
        bench.until_begun()
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        threading.Event().wait(1_000)


if __name__ == "__main__":
    main()
