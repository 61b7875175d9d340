"""Checkpoints as people see them: of a single task, as a bar where they say how much is done."""

from hourhand.actors.model.task.checkpoint_value import checkpoint_text
from hourhand.actors.model.task.sealed import with_envelope
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.admin.answers import ShownTask
from hourhand.scheduler.cli.rendering import facts_of
from hourhand.scheduler.cli.task_text import view_lines
from hourhand.scheduler.tasks.inspector import Inspector
from hourhand.scheduler.tasks.task_info import TaskInfo
from tests.builders import NOW_MS, a_stored_task

TASK = a_stored_task(due_in_ms=0)
SEALED = with_envelope(b"{}", b'{"steps":[{"codec":"aes-gcm","key":"k1"}],"data":"AA=="}')
HALF = {"done": 50, "total": 200, "row": "r7"}


def _inspector(body: bytes) -> Inspector:
    stores = open_memory_stores(MemoryStores())
    stores.schedule.insert_tasks(0, [TASK], 1)
    made = TaskCheckpoint(TASK.key, 2, NOW_MS, body, 3)
    stores.checkpoints.insert_checkpoints(0, [made], 1)
    return Inspector(stores, 1)


def test_show_has_a_bar_and_the_value() -> None:
    """Where it has done and total."""
    view = _inspector(checkpoint_text(HALF)).show(TASK.key)

    lines = "\n".join(view_lines(view, NOW_MS))
    assert "[#####...............] 25 %, 50 of 200" in lines
    assert "attempt 2 at " in lines and '"row"' in lines
    assert TaskInfo.of(view).checkpoint == HALF


def test_any_other_value_has_none() -> None:
    """It is shown as it is."""
    view = _inspector(checkpoint_text(["page", 4])).show(TASK.key)

    lines = "\n".join(view_lines(view, NOW_MS))
    assert "progress" not in lines and "page" in lines


def test_the_admin_api_has_the_value_unless_data_is_hidden() -> None:
    """Numbers of progress are no data of anybody."""
    view = _inspector(checkpoint_text(HALF)).show(TASK.key)

    shown = facts_of(ShownTask.of(view))["checkpoint"]
    hidden = facts_of(ShownTask.of(view, data=False))["checkpoint"]

    assert (shown["attempt"], shown["done"], shown["total"]) == (2, 50, 200)
    assert shown["value"] == HALF and "value" not in hidden
    assert hidden["total"] == 200


def test_of_a_sealed_one_it_is_said_how() -> None:
    """Nobody here has its codecs."""
    view = _inspector(SEALED).show(TASK.key)

    shown = facts_of(ShownTask.of(view))["checkpoint"]
    assert shown["sealed"] == "sealed with aes-gcm (key id 'k1')" and "value" not in shown
    assert "sealed with aes-gcm" in "\n".join(view_lines(view, NOW_MS))
    assert TaskInfo.of(view).checkpoint is None


def test_what_cannot_be_read_is_shown_as_text() -> None:
    """A process of user code sent it, and nothing of ours may fail of it."""
    view = _inspector(b"\xff{").show(TASK.key)

    assert "xff" in str(facts_of(ShownTask.of(view))["checkpoint"]["value"])


def test_a_list_reads_no_checkpoint() -> None:
    """Each may have 64 kB."""
    inspector = _inspector(checkpoint_text(HALF))

    (listed,) = inspector.list_tasks(from_ms=0, to_ms=NOW_MS + 1, limit=10).tasks

    assert listed.checkpoint is None


def test_it_stays_after_the_end_of_its_task() -> None:
    """As long as its attempts do."""
    stores = open_memory_stores(MemoryStores())
    stores.status.insert_completions(0, [Completion(TASK.key, CompletionResult.SUCCESS, 1)], 1)
    made = TaskCheckpoint(TASK.key, 1, NOW_MS, checkpoint_text(1))
    stores.checkpoints.insert_checkpoints(0, [made], 1)

    assert Inspector(stores, 1).show(TASK.key).checkpoint == made
