"""A process that has everything imported and is copied for each run, so that runs begin at once.

It holds no lock, no thread and no file of a folder: a copy inherits nothing that a process
started by itself would not have.  Started as ``python -m tests.crash.nursery JOURNAL``, the
descriptor to write events into; reads one order for each line, answers with the copy's process
id and, once it has ended, with how.
"""

import json
import logging
import os
import sys
import traceback
from pathlib import Path

from tests.crash.journal import Key, Pen, Place
from tests.crash.load import Load, drain


def _live(order: dict[str, object], pen: Pen) -> None:
    folder, run = Path(str(order["folder"])), int(str(order["run"]))
    if order["do"] == "load":
        Load(folder, pen, run, int(str(order["seed"]))).work()
        return
    told = json.loads(str(order["told"]))
    drain(folder, pen, run, [(Key(*key), Place(*place)) for key, place in told])


def _main(journal: int) -> None:
    while line := sys.stdin.readline():
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _live(order, Pen(journal, int(order["run"])))
                code = 0
            except BaseException:  # noqa: BLE001 - a copy must not go on as the nursery
                traceback.print_exc()
            finally:
                os._exit(code)
        os.write(1, b"%d\n" % child)
        _, status = os.waitpid(child, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    # Attempts fail on purpose; what goes wrong beside them is an error and is shown.
    logging.getLogger("hourhand").setLevel(logging.ERROR)
    _main(int(sys.argv[1]))
