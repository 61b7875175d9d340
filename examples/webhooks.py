"""``python examples/webhooks.py``: tell customers of events by HTTP, in order, until it works.

The customer is the ordering id: one delivery at a time, in the order of the events, and an
endpoint that is down delays nobody else's.  Needs httpx, an HTTP client.
"""

import json
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from tenacity import wait_exponential

from hourhand import (
    Drop,
    Retry,
    RetryPolicy,
    Scheduler,
    SchedulerClient,
    Settings,
    Task,
    TaskExecutor,
)

GATHER = timedelta(seconds=0.5)
"""Events are due a moment after they happened.  Order is promised for what is stored before the
first of it falls due, so this much may lie between two events that reach the log the wrong way."""
_WAIT_S = 60


class DeliverWebhook(TaskExecutor):
    """Posts one event to its customer's endpoint."""

    retry = RetryPolicy(
        attempts_max=12,  # an hour and a half, then an operator finds it among the dead letters
        wait=wait_exponential(multiplier=1, max=3_600),
        on_exhausted="dead_letter",
    )
    timeout = timedelta(seconds=30)

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def execute(self, task: Task) -> Retry | Drop | None:
        """Post; what the endpoint answers decides."""
        # A crash may repeat a delivery: the customer knows it again by this header.
        headers = {"Idempotency-Key": str(task.key)}
        answer = self._http.post(str(task.data["url"]), json=task.data["event"], headers=headers)
        if answer.status_code == httpx.codes.GONE:
            return Drop("the customer removed this endpoint")
        if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            return Retry(after=timedelta(seconds=float(answer.headers.get("Retry-After", 60))))
        # Anything else that is not a success is an exception, so the policy above says when again.
        answer.raise_for_status()
        return None


def tell(
    client: SchedulerClient, customer: str, url: str, number: int, event: str, now: datetime
) -> None:
    """Schedule a delivery; returns when it is durable.  ``number`` counts a customer's events."""
    task = Task(
        ordering_id=customer,
        scheduled_time=now + GATHER,
        uniqueness_key=f"{number:012d}",  # digits of one width sort as numbers do
        data={"url": url, "event": {"number": number, "what": event}},
    )
    client.schedule_task(task).result(_WAIT_S)


class Customers(ThreadingHTTPServer):
    """Stands in for the customers: ``/shaky`` refuses twice before it answers, others never do."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Endpoint)
        self.refusals = 2
        self.heard: list[tuple[str, int]] = []
        self.lock = threading.Condition()

    def url(self, customer: str) -> str:
        """Return a customer's endpoint."""
        return f"http://127.0.0.1:{self.server_port}/{customer}"

    def take(self, customer: str, number: int) -> int:
        """Hear of an event, or refuse it; return the HTTP status."""
        with self.lock:
            if customer == "shaky" and self.refusals:
                self.refusals -= 1
                return 503
            self.heard.append((customer, number))
            self.lock.notify_all()
            return 204


class _Endpoint(BaseHTTPRequestHandler):
    server: Customers

    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.server.take(self.path.strip("/"), event["number"])
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_parts: object) -> None:
        """Say nothing: the program does."""


def main() -> None:
    """Tell two customers of three events each; one endpoint is down at first."""
    customers = Customers()
    threading.Thread(target=customers.serve_forever, daemon=True).start()
    with (
        httpx.Client() as http,
        Scheduler(Settings(), executor=lambda: DeliverWebhook(http)) as scheduler,
    ):
        for number, event in enumerate(("ordered", "packed", "shipped")):
            for customer in ("shaky", "steady"):
                url = customers.url(customer)
                tell(scheduler, customer, url, number, event, datetime.now(UTC))
        with customers.lock:
            customers.lock.wait_for(lambda: len(customers.heard) == 6, _WAIT_S)
    customers.shutdown()
    print("delivered:", *(f"{customer} {number}" for customer, number in customers.heard))
    order = {name: [n for who, n in customers.heard if who == name] for name in ("shaky", "steady")}
    sys.exit(0 if order == {"shaky": [0, 1, 2], "steady": [0, 1, 2]} else 1)


if __name__ == "__main__":
    main()
