"""Traces of a whole program whose tasks run in processes."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hourhand import Done, Hourhand, Scheduler, Settings

app = Hourhand()
kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)


def parent() -> Done:
    with trace.get_tracer("user").start_as_current_span("mailing") as span:
        return Done(f"{span.parent.trace_id:x} {span.parent.span_id:x}")


@app.task("blocking", run_in="process")
def blocking() -> Done:
    return parent()


@app.task("waiting", run_in="process")
async def waiting() -> Done:
    return parent()


if __name__ == "__main__":
    settings = Settings(embedded={"folder": "data"}, observe={"traces": True})
    with Scheduler(settings, executors=app) as scheduler:
        tasks = [task.schedule(None, ordering_id="a").result() for task in (blocking, waiting)]
        found = [scheduler.wait_result(each, timeout=60) for each in tasks]
    attempts = [span for span in kept.get_finished_spans() if span.name == "hourhand attempt"]
    made = [f"{each.context.trace_id:x} {each.context.span_id:x}" for each in attempts]
    assert sorted(found) == sorted(made), (found, made)
    print("children of their attempts")
"""


def test_spans_in_a_process_are_children_of_their_attempt(tmp_path: Path) -> None:
    """Blocking and async code alike, as in the node."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py"]
    ran = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )

    assert (ran.returncode, ran.stdout) == (0, "children of their attempts\n"), ran.stderr
