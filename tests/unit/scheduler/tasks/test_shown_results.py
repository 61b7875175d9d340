"""Results as people see them: of one task, escaped where needed, sealed ones by their codec."""

from hourhand.actors.model.task.sealed import with_envelope
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task_result import StoredResult, result_text
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.admin.answers import ShownTask
from hourhand.scheduler.cli.rendering import facts_of
from hourhand.scheduler.cli.task_text import view_lines
from hourhand.scheduler.tasks.inspector import Inspector
from tests.builders import NOW_MS, a_stored_task

TASK = a_stored_task(due_in_ms=0)
SEALED = with_envelope(b"{}", b'{"steps":[{"codec":"aes-gcm","key":"k1"}],"data":"AA=="}')
DONE = Completion(TASK.key, CompletionResult.SUCCESS, TASK.offset, 2, NOW_MS - 5, NOW_MS)


def _inspector(body: bytes, finished_ms: int = NOW_MS, done: Completion = DONE) -> Inspector:
    stores = open_memory_stores(MemoryStores())
    stores.schedule.insert_tasks(0, [TASK], 1)
    stores.status.insert_completions(0, [done], 1)
    row = StoredResult(TASK.key, 2, finished_ms, finished_ms + 60_000, body, 3)
    stores.results.insert_results(0, [row], 1)
    return Inspector(stores, 1)


def _lines(inspector: Inspector) -> str:
    return "\n".join(view_lines(inspector.show(TASK.key), NOW_MS))


def test_show_has_the_value_and_until_when_it_is_kept() -> None:
    """Control characters of a terminal are escaped."""
    lines = _lines(_inspector(result_text({"paid": 12.5, "by": "\x1b[2Jcard"})))

    assert '{"paid":12.5' in lines and "kept until " in lines
    assert "\x1b" not in lines


def test_the_admin_api_has_the_value_unless_data_is_hidden() -> None:
    """It is as secret as data."""
    view = _inspector(result_text(["page", 4])).show(TASK.key)

    shown = facts_of(ShownTask.of(view))["result"]
    hidden = facts_of(ShownTask.of(view, data=False))["result"]

    assert (shown["attempt"], shown["value"], shown["gone"]) == (2, ["page", 4], False)
    assert "keptUntil" in hidden and "value" not in hidden


def test_of_a_sealed_one_it_is_said_how() -> None:
    """Nobody here has its codecs."""
    inspector = _inspector(SEALED)

    shown = facts_of(ShownTask.of(inspector.show(TASK.key)))["result"]
    assert shown["sealed"] == "sealed with aes-gcm (key id 'k1')" and "value" not in shown
    assert "sealed with aes-gcm" in _lines(inspector)


def test_one_that_is_forgotten_is_not_shown_as_none() -> None:
    """There was one."""
    inspector = _inspector(b"")

    shown = facts_of(ShownTask.of(inspector.show(TASK.key)))["result"]
    assert shown["gone"] and "value" not in shown
    assert "and forgotten since" in _lines(inspector)


def test_what_cannot_be_read_is_shown_as_text() -> None:
    """A process of user code sent it, and nothing of ours may fail of it."""
    view = _inspector(b"\xff{").show(TASK.key)

    assert "xff" in str(facts_of(ShownTask.of(view))["result"]["value"])


def test_only_the_value_of_its_success_is_shown() -> None:
    """Not one of an attempt whose completion was lost, nor of a task that failed."""
    failed = Completion(TASK.key, CompletionResult.FAILURE, TASK.offset, 2, None, NOW_MS)

    assert "result " not in _lines(_inspector(result_text(1), NOW_MS - 1))
    assert "result " not in _lines(_inspector(result_text(1), done=failed))


def test_a_list_reads_no_result() -> None:
    """Each may have 64 kB."""
    inspector = _inspector(result_text(1))

    (listed,) = inspector.list_tasks(from_ms=0, to_ms=NOW_MS + 1, limit=10).tasks

    assert listed.result is None
