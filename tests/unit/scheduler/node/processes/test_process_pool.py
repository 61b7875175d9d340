"""The pool of processes: who gets what, and what follows when a process ends."""

from queue import Empty

import pytest

from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.operations.events import (
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    AttemptStuck,
)
from hourhand.scheduler.node.processes.process_deadlines import RECALLED_MS
from hourhand.scheduler.node.processes.process_frames import (
    Ended,
    EndedProcess,
    FrameBroken,
    SentEnd,
    SentText,
)
from hourhand.scheduler.observe.metric_catalogue import PROCESS_DEATHS
from tests.unit.scheduler.node.fake_processes import FakeProcesses


def test_nothing_is_sent_to_a_process_that_has_not_loaded_user_code() -> None:
    """It waits, and goes once one says hello."""
    fake = FakeProcesses()
    (attempt,) = fake.start()
    assert not fake.processes[1].works

    fake.ready()
    fake.begin()
    fake.end()

    assert fake.ended().attempt is attempt


def test_a_free_process_comes_before_one_that_works() -> None:
    """What is sent ahead waits behind another attempt."""
    fake = FakeProcesses(2)
    fake.ready()

    fake.start(2)

    assert [len(each.works) for each in fake.processes.values()] == [1, 1]


def test_only_behind_short_attempts_one_more_is_wanted() -> None:
    """Behind a long one it would wait, while others may go first."""
    fake = FakeProcesses(2)
    fake.ready()
    assert fake.pool.ahead == 0, "nobody knows how long an attempt takes"
    fake.start(2)
    fake.begin(1)
    fake.begin(2)
    fake.end(1)

    fake.turn(20)
    fake.end(2)

    assert fake.pool.ahead == 1


def test_a_death_fails_what_had_begun_and_nothing_else() -> None:
    """What was sent ahead goes to the next process, uncounted."""
    fake = FakeProcesses()
    fake.ready()
    first, second = fake.start(2)
    fake.begin()
    assert len(fake.processes[1].works) == 2, "one was sent ahead"

    fake.die(signal=11)
    ended = fake.ended()
    assert (ended.attempt, ended.ending) == (first, Ending.FAILED)
    assert ended.error_message == "its process was killed by SIGSEGV"
    assert ended.ruling is not None
    assert ended.ruling.attempts_max == 3

    fake.ready()
    fake.begin(2)
    fake.end(2)
    assert fake.ended().attempt is second
    assert fake.count(AttemptFailed) == 1


def test_a_death_of_an_idle_process_is_nobody_s_fault() -> None:
    """What it was sent and had not begun is sent to the next one."""
    fake = FakeProcesses()
    fake.ready()
    fake.start()

    fake.die(signal=9)

    with pytest.raises(Empty):
        fake.ended()
    fake.ready()
    fake.begin(2)
    fake.end(2)
    assert fake.ended().ending is Ending.DONE


def test_what_waits_behind_a_slow_attempt_is_taken_back() -> None:
    """P7: it goes to the process that is free first."""
    fake = FakeProcesses(2)
    fake.ready()
    fake.start(3)
    fake.begin(1)
    fake.begin(2)

    fake.turn(round(RECALLED_MS) + 1)
    assert not fake.processes[1].tickets, "nobody else may begin it"
    fake.end(2)
    fake.turn()

    assert len(fake.processes[2].tickets) == 1


def test_an_attempt_past_its_timeout_is_asked_and_then_killed() -> None:
    """It counts as timed out, with the time that it was given."""
    fake = FakeProcesses()
    fake.ready()
    fake.start()
    work = fake.begin(timeout_ms=500)

    fake.turn(499)
    assert fake.processes[1].said == []
    fake.turn(1)
    assert fake.processes[1].said == ["ask"]
    assert fake.page.place(0).asked_seq == work.seq
    fake.turn(999)
    assert fake.processes[1].said == ["ask"]
    fake.turn(1)
    assert fake.processes[1].said == ["ask", "kill"]

    fake.die(signal=9)
    ended = fake.ended()
    assert (ended.ending, ended.error_class) == (Ending.TIMED_OUT, "TimeoutError")


def test_what_ends_within_the_grace_is_not_killed() -> None:
    """A returned outcome counts; an exception counts as timed out."""
    fake = FakeProcesses()
    fake.ready()
    fake.start(2)
    fake.begin(timeout_ms=500)
    fake.turn(500)
    fake.end(ending=Ending.FAILED, error="Interrupted")
    late = fake.ended()
    assert (late.ending, late.error_class) == (Ending.TIMED_OUT, "TimeoutError")
    assert late.error_message == "it ran past its timeout, then Interrupted: wrong"
    assert late.ruling is not None, "the policy judges the timeout, not what it led to"

    fake.turn(5_000)
    fake.begin(timeout_ms=500)
    fake.turn(500)
    fake.end()
    assert fake.ended().ending is Ending.DONE
    fake.turn(5_000)
    assert "kill" not in fake.processes[1].said


def test_an_attempt_that_makes_no_checkpoint_is_asked_and_then_killed() -> None:
    """It counts as timed out, and says why; time in which the node stood still does not count."""
    fake = FakeProcesses(stuck_after_ms=10_000)
    fake.ready()
    (attempt,) = fake.start()
    fake.begin()
    fake.wait(9_000)
    running = fake.calls.registry.find(attempt)
    assert running is not None
    running.make(b"1")
    fake.wait(9_000)
    fake.turn(60_000)
    fake.wait(9_900)
    assert (fake.count(AttemptStuck), fake.processes[1].said) == (0, [])

    fake.wait(100)
    assert (fake.count(AttemptStuck), fake.processes[1].said) == (1, ["ask"])
    fake.wait(1_000)
    assert (fake.count(AttemptStuck), fake.processes[1].said) == (1, ["ask", "kill"])

    fake.die(signal=9)
    ended = fake.ended()
    assert (ended.ending, ended.error_class) == (Ending.TIMED_OUT, "TimeoutError")
    assert ended.error_message == (
        "stuck: no checkpoint for 10 s (stuck_after), then ProcessDied: it was asked to end, and"
        " its process killed 1000 ms later (tree.execution.kill_grace_ms)"
    )
    assert ended.ruling is not None and ended.ruling.attempts_max == 3


def test_what_ends_once_it_is_stuck_is_not_killed() -> None:
    """A returned outcome counts; an exception is told with the reason it was raised for."""
    fake = FakeProcesses(stuck_after_ms=1_000)
    fake.ready()
    fake.start(2)
    fake.begin()
    fake.wait(1_000)
    fake.end(ending=Ending.FAILED, error="Interrupted")
    ended = fake.ended()
    assert (ended.ending, ended.error_class) == (Ending.TIMED_OUT, "TimeoutError")
    said = "stuck: no checkpoint for 1 s (stuck_after), then Interrupted: wrong"
    assert ended.error_message == said
    assert [str(each.error) for each in fake.telemetry.of(AttemptFailed)] == [said]

    fake.wait(5_000)
    fake.begin()
    fake.wait(1_000)
    fake.end()
    assert fake.ended().ending is Ending.DONE
    fake.wait(5_000)
    assert "kill" not in fake.processes[1].said


def test_p26_what_runs_when_the_lease_ends_is_killed_and_counts_nothing() -> None:
    """The guardian does that; the attempt is started again by whoever may."""
    fake = FakeProcesses()
    fake.ready()
    fake.start()
    fake.begin()

    fake.die(signal=9, why="lease")

    assert fake.ended().ending is Ending.NOT_STARTED
    assert fake.count(AttemptAbandoned) == 1
    assert fake.count(AttemptFailed) == 0


def test_p26_the_page_has_the_lease_before_anything_is_sent() -> None:
    """A process looks at it before it begins."""
    fake = FakeProcesses()
    fake.lease_ends_ms = fake.clock.monotonic_ms() - 1
    fake.ready()
    fake.lease_ends_ms = fake.clock.monotonic_ms() + 5_000

    fake.start()

    assert fake.page.lease_ends_ms == fake.lease_ends_ms


def test_p26_a_drain_kills_before_its_deadline() -> None:
    """It is asked to end as long before as it has to end, and what has not begun is refused."""
    fake = FakeProcesses()
    fake.ready()
    running, waiting = fake.start(2, partition=3)
    fake.begin()
    fake.is_open = False

    fake.drain([3])
    assert fake.ended().attempt is waiting
    fake.turn(8_799)
    assert fake.processes[1].said == []
    fake.turn(1)
    assert fake.processes[1].said == ["ask"]
    fake.turn(1_000)
    assert fake.processes[1].said == ["ask", "kill"]
    fake.die(signal=9)

    ended = fake.ended()
    assert (ended.attempt, ended.ending) == (running, Ending.NOT_STARTED)


def test_p26_a_drain_does_not_wait_for_a_longer_grace() -> None:
    """It is asked to end at once, and killed before the deadline anyway."""
    fake = FakeProcesses(kill_grace_ms=60_000)
    fake.ready()
    fake.start(partition=3)
    fake.begin()

    fake.drain([3])
    fake.turn(9_799)
    assert fake.processes[1].said == ["ask"]
    fake.turn(1)

    assert fake.processes[1].said == ["ask", "kill"]


def test_a_drain_of_other_partitions_changes_nothing() -> None:
    """What is sent ahead is taken back and sent again."""
    fake = FakeProcesses()
    fake.ready()
    fake.start(2, partition=3)
    fake.begin()

    fake.drain([4])
    fake.turn(20_000)

    assert fake.processes[1].said == []


def test_what_is_given_up_is_killed_at_once() -> None:
    """Another node works on its partition already."""
    fake = FakeProcesses()
    fake.ready()
    (attempt,) = fake.start(partition=3)
    fake.begin()

    (abandoned,) = fake.calls.registry.abandon([3])
    assert abandoned.cancel is not None
    abandoned.cancel()
    fake.turn()

    assert fake.processes[1].said == ["kill"]
    fake.die(signal=9)
    assert fake.calls.registry.find(attempt) is None or abandoned.ended is not None


def test_a_process_that_cannot_start_is_tried_again_after_growing_pauses() -> None:
    """A machine without memory is not kept busy with it."""
    fake = FakeProcesses()
    fake.turn()
    pauses = []
    for number in range(1, 6):
        fake.pool.has_ended(EndedProcess(number, 9, 0))
        pauses.append(fake.turn())
        fake.turn(round(pauses[-1]) + 1)

    assert len(fake.processes) == 6
    assert 50 <= pauses[0] <= 100
    assert pauses[-1] > 4 * pauses[0]


def test_a_process_that_falls_silent_is_killed_unless_it_is_reaped() -> None:
    """User code may have closed its descriptors, and run on."""
    fake = FakeProcesses()
    fake.ready()
    fake.start()
    fake.begin()

    fake.pool.fell_silent(1)
    assert fake.turn() <= 50
    assert fake.processes[1].said == []
    fake.turn(500)
    assert fake.processes[1].said == ["kill"]
    fake.die(signal=9)

    assert "descriptors" in (fake.ended().error_message or "")


def test_an_end_that_is_never_heard_is_a_failure() -> None:
    """The page says that the work has ended, and its frame is inside of what user code wrote."""
    fake = FakeProcesses()
    fake.ready()
    (attempt,) = fake.start()
    fake.begin()

    fake.page.place(0).end()
    fake.turn()
    assert fake.processes[1].said == [], "its frame may be on its way"
    fake.turn(500)
    assert fake.processes[1].said == ["kill"]
    fake.die(signal=9)

    ended = fake.ended()
    assert (ended.attempt, ended.ending) == (attempt, Ending.FAILED)
    assert "pipe" in (ended.error_message or "")


def test_what_wrote_into_the_pipe_fails_and_not_what_runs_behind_it() -> None:
    """It would run again for ever, uncounted, and another task would be blamed."""
    fake = FakeProcesses()
    fake.ready()
    first, second = fake.start(2)
    fake.begin()
    fake.page.place(0).end()
    fake.begin()

    fake.pool.said_nonsense(1, "a frame of kind 99 is unknown")
    fake.die(signal=9)

    ends = {each.attempt.task.key: each for each in (fake.ended(), fake.ended())}
    assert ends[first.task.key].ending is Ending.FAILED
    assert "pipe" in (ends[first.task.key].error_message or "")
    assert ends[second.task.key].ending is Ending.NOT_STARTED
    assert fake.count(AttemptFailed) == 1


def test_nothing_counts_that_a_process_says_after_nonsense() -> None:
    """Its frames may be no more than what user code wrote."""
    fake = FakeProcesses()
    fake.ready()
    fake.start()
    fake.begin()

    fake.pool.said_nonsense(1, "a frame of kind 99 is unknown")
    fake.end()
    fake.die(signal=9)

    assert fake.ended().ending is Ending.FAILED
    assert fake.ends.empty()


def test_a_process_of_another_version_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """It never gets ready, and the log is where its node sends people to."""
    fake = FakeProcesses()
    fake.turn()

    fake.pool.said_nonsense(1, "it speaks version 0, not 1")

    assert "it speaks version 0, not 1" in caplog.text


def test_a_refusal_is_over_once_a_process_has_loaded_user_code(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A new obstacle of the next process is told again."""
    fake = FakeProcesses()
    fake.turn()
    fake.pool.said_refused(1, "ImportError: no disk")
    fake.die(1, signal=0, code=1)
    said = [fake.pool.refusal]
    fake.turn(60_000)

    fake.ready()
    assert [*said, fake.pool.refusal] == ["ImportError: no disk", None]

    fake.die(2, signal=11)
    caplog.clear()
    fake.die(3, signal=9)
    assert "a process was killed by SIGKILL while it loaded user code" in caplog.text


def test_a_process_that_runs_attempts_does_not_refuse_user_code() -> None:
    """It has loaded it: this is something that user code wrote."""
    fake = FakeProcesses()
    fake.ready()

    with pytest.raises(FrameBroken):
        fake.pool.said_refused(1, "made up")

    assert fake.pool.refusal is None


def test_an_end_of_what_is_not_at_hand_is_refused() -> None:
    """So is one without the ends of all attempts, and one of a kind that nobody knows."""
    fake = FakeProcesses()
    fake.ready()
    fake.start()
    seq = fake.begin().seq

    for ended in (
        Ended(seq + 1, [SentEnd(0, "done", 0, 0)]),
        Ended(seq, []),
        Ended(seq, [SentEnd(1, "done", 0, 0)]),
        Ended(seq, [SentEnd(0, "unheard of", 0, 0)]),
    ):
        with pytest.raises(FrameBroken):
            fake.pool.said_ended(1, ended)
    fake.end()

    assert fake.ended().ending is Ending.DONE


def test_times_that_a_process_makes_up_are_not_believed() -> None:
    """They are within what the node's clock has shown."""
    fake = FakeProcesses()
    fake.ready()
    fake.start()
    seq = fake.begin().seq

    fake.pool.said_ended(1, Ended(seq, [SentEnd(0, "done", -(2**62), 2**62)]))

    ended = fake.ended()
    assert (ended.started_ms, ended.finished_ms) == (0, fake.clock.now_ms())


def test_p28_each_attempt_of_a_batch_has_its_own_value() -> None:
    """One that failed has none, whatever its process says; nor has what is not at hand."""
    fake = FakeProcesses()
    fake.ready()
    fake.start_batch(3)
    work = fake.begin()
    for place in (0, 2, 9):
        fake.pool.said_result(1, SentText(work.seq, place, b"%d" % place))
    fake.pool.said_result(1, SentText(work.seq + 1, 1, b"another work's"))
    fake.end()
    assert [fake.ended().returned for _ in range(3)] == [b"0", None, b"2"]

    fake.start()
    again = fake.begin()
    fake.pool.said_result(1, SentText(again.seq, 0, b"1"))
    fake.end(ending=Ending.FAILED, error="ValueError")
    assert fake.ended().returned is None


def test_a_batch_ends_together_and_frees_its_place_once() -> None:
    """Its members have one process and one frame."""
    fake = FakeProcesses()
    fake.ready()
    fake.start_batch(3)
    work = fake.begin()
    assert (len(work.attempts), work.is_batch) == (3, True)

    fake.end()

    assert [fake.ended().ending for _ in range(3)] == [Ending.DONE] * 3
    assert fake.batches_ended == [True]


@pytest.mark.parametrize(("alone", "failed"), [(False, 3), (True, 0)])
def test_the_death_of_a_batch_fails_it_unless_its_tasks_run_again_alone(
    *, alone: bool, failed: int
) -> None:
    """Each alone is one work, and the batch has ended when all have."""
    fake = FakeProcesses()
    fake.ready()
    fake.start_batch(3, runs_again_alone=alone)
    fake.begin()

    fake.die()
    assert fake.ends.qsize() == failed
    fake.ready()
    while fake.processes[2].tickets:
        fake.begin(2)
        fake.end(2)
        fake.turn()

    assert fake.ends.qsize() == 3
    assert fake.batches_ended == [True]


def test_a_process_leaves_after_so_many_tasks() -> None:
    """What was sent ahead is taken back, and it is asked to end."""
    fake = FakeProcesses(tasks_per_process_max=1)
    fake.ready()
    fake.start(2)
    fake.begin()
    fake.end()
    fake.turn()

    assert fake.processes[1].said == ["stop"]
    fake.die(signal=0)
    fake.ready()
    fake.begin(2)
    fake.end(2)
    assert [fake.ended().ending for _ in range(2)] == [Ending.DONE] * 2


def test_each_death_is_counted_by_its_reason() -> None:
    """And the attempts of each place, whatever process it has; of a node that stops nothing is."""
    fake = FakeProcesses(tasks_per_process_max=2, stuck_after_ms=1_000)
    fake.turn()
    fake.die(1, signal=0, code=1)
    fake.turn(60_000)
    for number, (by, code) in enumerate(((11, 0), (0, 3), (9, 0)), 2):
        fake.ready()
        fake.start()
        fake.begin(number)
        fake.wait(900 if number < 4 else 1_000)
        fake.die(number, signal=by, code=code)
    fake.ready()
    fake.start(2)
    fake.page.place(0).measure(7_000)
    during = fake.pool.figures()
    for _ in range(2):
        fake.begin(5)
        fake.end(5)
    fake.die(5, signal=0)
    fake.pool.begin_close()
    fake.die(6, signal=9)
    after = fake.pool.figures()

    assert (during.places, during.alive, during.busy) == (1, 1, 1)
    assert (during.resident_bytes, after.resident_bytes) == ({0: 7_000}, {})
    assert after.deaths == dict.fromkeys(("start", "signal", "exit", "stuck", "tasks"), 1)
    assert set(after.deaths) <= set(PROCESS_DEATHS)
    assert (after.alive, after.busy, after.attempts) == (0, 0, {0: 5})


def test_a_begin_is_told_once_and_with_the_end_of_what_is_short() -> None:
    """What takes long is told of while it runs."""
    fake = FakeProcesses()
    fake.ready()
    fake.start(2)
    fake.begin()
    assert fake.count(AttemptStarted) == 0
    fake.end()
    assert fake.count(AttemptStarted) == 1

    fake.begin()
    fake.turn(60)
    assert fake.count(AttemptStarted) == 2
    fake.end()
    assert fake.count(AttemptStarted) == 2


def test_a_close_refuses_what_waits_and_ends_the_processes() -> None:
    """An idle one is asked, one that works is killed."""
    fake = FakeProcesses(2)
    fake.ready()
    fake.start(1)
    fake.begin(1)

    fake.pool.begin_close()
    fake.pool.enter([])
    fake.start(1)

    assert fake.ended().ending is Ending.NOT_STARTED
    assert fake.processes[1].said == ["kill"]
    assert fake.processes[2].said == ["stop"]


def test_what_was_sent_is_withdrawn_until_it_begins() -> None:
    """P6: a newer record of its key may take its place; what is sent with it goes again."""
    fake = FakeProcesses()
    fake.ready()
    first, second, third = fake.start(3)
    fake.begin()
    withdraw = fake.calls.registry.withdraw

    assert not withdraw(first), "its code runs"
    assert withdraw(second)
    fake.end()
    fake.turn()
    fake.turn()
    fake.begin()
    fake.end()

    ended = {id(each.attempt): each.ending for each in (fake.ended() for _ in range(3))}
    assert ended == {
        id(first): Ending.DONE,
        id(second): Ending.NOT_STARTED,
        id(third): Ending.DONE,
    }
