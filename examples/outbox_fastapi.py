"""``python examples/outbox_fastapi.py``: an endpoint that inserts a row and schedules a task.

Both are in the transaction of one SQLAlchemy session: a request that fails leaves neither.
``DATABASE_URL`` names a PostgreSQL, as ``postgresql+psycopg://shop@db/shop``; by default it is a
SQLite file.  The mover runs in the application here; ``hourhand outbox`` does the same beside it.
"""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from hourhand import Scheduler, Settings, Task, TaskExecutor, TaskKey, outbox

URL = os.environ.get("DATABASE_URL", "sqlite:///shop.sqlite3")
engine = create_engine(URL)
settings = Settings(outbox={"url": URL, "poll_ms": 20})
_WAIT_S = 60


class EndTrial(TaskExecutor):
    """Ends a trial, if the account is still there."""

    def execute(self, task: Task) -> None:
        """Print; the same line whenever the task runs again."""
        print(f"the trial of {task.ordering_id} ends")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Make the tables, and move rows while the application runs."""
    with engine.begin() as connection:
        for statement in outbox.migration_statements(engine.dialect.name):
            connection.exec_driver_sql(statement)
        connection.execute(text("CREATE TABLE IF NOT EXISTS account (name text PRIMARY KEY)"))
    with outbox.OutboxMover(settings):
        yield
    engine.dispose()


def transaction() -> Iterator[Session]:
    """Give a request its transaction: committed if the endpoint returns, else rolled back."""
    with Session(engine) as session, session.begin():
        yield session


# Committed before the answer is sent, so an accepted request is a committed one.
InTransaction = Annotated[Session, Depends(transaction, scope="function")]
app = FastAPI(lifespan=lifespan)


@app.post("/accounts/{name}", status_code=201)
def sign_up(name: str, session: InTransaction) -> dict[str, str]:
    """Make an account, and schedule the end of its trial."""
    session.execute(text("INSERT INTO account VALUES (:name)"), {"name": name})
    task = Task(
        ordering_id=name,
        scheduled_time=datetime.now(UTC) + timedelta(seconds=2),
        uniqueness_key="trial",
    )
    key = outbox.schedule(session, task)
    if name == "root":
        raise HTTPException(409, "this name is taken")
    return {"task": str(key)}


@app.delete("/accounts/{name}", status_code=204)
def leave(name: str, task: str, session: InTransaction) -> None:
    """Delete an account, and cancel the end of its trial."""
    session.execute(text("DELETE FROM account WHERE name = :name"), {"name": name})
    outbox.cancel(session, TaskKey.parse(task))


def main() -> int:
    """Ask the application as its users would, and run what it scheduled."""
    with Scheduler(settings, executor=EndTrial) as scheduler, TestClient(app) as http:
        kept = TaskKey.parse(http.post("/accounts/ada").json()["task"])
        print("root is answered", http.post("/accounts/root").status_code)
        gone = http.post("/accounts/cleo").json()["task"]
        http.delete("/accounts/cleo", params={"task": gone})
        scheduler.wait_task(kept, timeout=_WAIT_S)
        found = {task.key.ordering_id: task.state.value for task in scheduler.list_tasks()}
    # Cleo's never comes to a node where the cancel was committed before the mover looked.
    ended = found.pop("cleo", "cancelled")
    print(f"the trial of cleo is {ended}, all others: {found}")
    return 0 if (ended, found) == ("cancelled", {"ada": "success"}) else 1


if __name__ == "__main__":
    sys.exit(main())
