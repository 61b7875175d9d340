"""The executor of the node processes, and the seal of the data of orders.

Application and nodes have the key; the mover has none.
"""

import os
from base64 import b64encode

from examples.demo_cluster.executor import ClusterExecutor
from hourhand import Done, Hourhand, Retry, Task
from hourhand.payloads import AesGcm, PayloadCodecs

KEYS_VARIABLE = "FLEET_KEYS"
"""Names the keys in the environment of the application and the nodes."""
SECRET = "card-4111-1111"  # noqa: S105 - not one
"""Begins what stands in the data of every order, and may stand nowhere else."""
KIND = "order"


def secret_of(task_id: str) -> str:
    """Return what only the application and its executor may read."""
    return f"{SECRET}-{task_id}"


def make_keys() -> str:
    """Return a new key as ``KEYS_VARIABLE`` has it."""
    return f"demo:{b64encode(os.urandom(32)).decode()}"


def payloads() -> PayloadCodecs:
    """Return what seals and opens, with the keys of the environment."""
    return PayloadCodecs(AesGcm.from_text(os.environ[KEYS_VARIABLE]))


def make_app() -> Hourhand:
    """Return the registry that the nodes run."""
    app = Hourhand(payloads=payloads())

    @app.executor(KIND)
    class FleetExecutor(ClusterExecutor):
        """Takes an order whose data it can read."""

        def execute(self, task: Task) -> Done | Retry:
            """Fail where the data is not what was scheduled."""
            if task.data.get("card") != secret_of(task.uniqueness_key):
                raise ValueError(f"the data of {task.uniqueness_key} is not its own")
            return super().execute(task)

    return app
