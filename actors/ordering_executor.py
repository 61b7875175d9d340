"""OrderingExecutor: runs the tasks of one ordering id strictly one at a time, in key order (P3,
P4), and beside them the tasks of kinds that need no order.

Decides which task of its id is next; the next one starts when the completion of the previous one
is durable.  Its queue is bounded: tasks that do not fit, and all tasks behind a slow, failing or
blocked one, stay in the store and are read when they may run (P7, P13).  Never reads the store
itself, and has no mailbox: PartitionExecutor calls it within a turn.
"""

from concurrent.futures import Future

import msgspec

from hourhand.actors.executors_of_kinds import ExecutorsOfKinds
from hourhand.actors.messages import OrderingLoaded, WithdrawTask
from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.execution.task_state import Phase
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.ordering_queue import OrderingQueue
from hourhand.actors.ports.log import Position
from hourhand.actors.ports.runner import Executable
from hourhand.actors.runs import TaskRun
from hourhand.actors.task_executor import TaskExecutorRole
from hourhand.actors.turn import Turn
from hourhand.actors.unordered_tasks import UnorderedTasks


class OrderingExecutor(msgspec.Struct, eq=False):
    """One busy ordering id; its state follows from the parts that it has.

    Most ids have one task, so each part for further tasks is made when it is first needed.
    """

    turn: Turn
    ordering_id: str
    is_paused: bool = False
    """No attempt may begin: an operator paused the id, or the partition is given up."""
    executors: ExecutorsOfKinds = msgspec.field(default_factory=ExecutorsOfKinds)
    front: TaskExecutorRole | None = None
    """The task at hand, of those that have an order."""
    run: TaskRun | None = None
    queue: OrderingQueue | None = None
    unordered: UnorderedTasks | None = None
    counted_tasks: int = 0
    counted_bytes: int = 0
    """The memory that the partition has counted for this id."""

    # State.

    @property
    def is_slow(self) -> bool:
        """True if the id is paused, or a task at hand takes long or waits for a retry or an
        operator.
        """
        if self.is_paused:
            return True
        front, unordered = self.front, self.unordered
        return (front is not None and front.is_slow) or (
            unordered is not None and unordered.is_slow
        )

    @property
    def is_over(self) -> bool:
        """True if the id has nothing more to do, in memory or in the store.  A paused id is
        over as soon as none of its tasks runs or is being recorded.
        """
        if self.front is not None or self.run:
            return False
        queue, unordered = self.queue, self.unordered
        if self.is_paused:
            return unordered is None or not unordered.is_busy
        return (queue is None or queue.is_empty) and (unordered is None or unordered.is_idle)

    def first_ms(self) -> int | None:
        """Return the scheduled time of the first open task, in memory or left to the store."""
        times = (
            None if self.front is None else self.front.task.key.scheduled_ms,
            None if self.run is None else self.run.first_ms,
            None if self.queue is None else self.queue.first_ms(),
            None if self.unordered is None else self.unordered.first_ms(),
        )
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    def at_hand(self, key: TaskKey) -> TaskExecutorRole | None:
        """Return the task of a key, if it is at hand or in the batch behind the one at hand."""
        front, role = self.front, None
        if front is not None and front.task.key == key:
            return front
        if self.run is not None:
            role = self.run.find(key)
        if role is None and self.unordered is not None:
            role = self.unordered.find(key)
        return role

    def has_in_order(self, key: TaskKey) -> bool:
        """True if a key with an order is at hand or waits in memory."""
        role = self.at_hand(key)
        if role is not None and not role.is_unordered:
            return True
        return self.queue is not None and key in self.queue

    def count(self) -> None:
        """Tell the partition how the memory of this id has changed since the last count."""
        tasks = size_bytes = 0
        if self.front is not None:
            tasks, size_bytes = 1, self.front.task.size_bytes
        for part in (self.queue, self.run, self.unordered):
            if part is not None:
                tasks += len(part)
                size_bytes += part.size_bytes
        tasks_more = tasks - self.counted_tasks
        bytes_more = size_bytes - self.counted_bytes
        if tasks_more or bytes_more:
            self.counted_tasks, self.counted_bytes = tasks, size_bytes
            self.turn.occupy(self.ordering_id, tasks_more, bytes_more)

    # A task arrives.

    def accept(self, task: StoredTask) -> None:
        """Take a due task, whose memory the partition has counted already."""
        assert task.key.ordering_id == self.ordering_id, "each id has an executor of its own"
        turn, front, size_bytes = self.turn, self.front, task.size_bytes
        self.counted_tasks += 1
        self.counted_bytes += size_bytes
        is_plain = self.unordered is None and not self.is_paused
        if is_plain and front is None and self.queue is None and not turn.gathers(task):
            self.front = TaskExecutorRole(self, turn, task, self.executors)
            self.front.begin()
            return
        # Nothing else follows from a new task behind others.
        if is_plain and front is not None and self._queued(task, size_bytes, front):
            return
        turn.touched[self.ordering_id] = None
        if self.update(task):
            return
        if self._has_no_order(task):
            self._known_unordered().accept(task)
            return
        queue = self._known_queue()
        is_slow = self.is_paused or (self.front is not None and self.front.is_slow)
        if is_slow or queue.reading is not None:
            # Behind a slow task, in a pause and during a read, all further tasks are in the store.
            queue.spill_key(task.key)
        else:
            queue.enqueue(task, self._queue_max())

    def _queued(self, task: StoredTask, size_bytes: int, front: TaskExecutorRole) -> bool:
        """Keep a new task behind the one at hand, where that is all; return whether it is."""
        if self.run is not None or front.is_slow or self.turn.has_kinds_apart:
            return False
        queue = self._known_queue() if self.queue is None else self.queue
        if queue.reading is not None or front.task.key == task.key:
            return False
        return queue.enqueue_new(task, size_bytes, self.turn.queue_tasks_max())

    def update(self, task: StoredTask) -> bool:
        """Use a later record of a key; return True if the key is in memory."""
        key = task.key
        assert key.ordering_id == self.ordering_id, "another id's task"
        role = self.at_hand(key)
        if role is not None and role.is_own:
            if role.phase is Phase.FOLLOWING:
                self._update_following(role, task)
            else:
                role.update(task)
            return True
        if self.queue is not None and self.queue.update(task):
            return True
        return self.unordered is not None and self.unordered.update(task)

    def _update_following(self, role: TaskExecutorRole, task: StoredTask) -> None:
        """Use a later record of a task behind the one at hand.  A task that waits for a limit goes
        back to the queue, because its new data may fall under another limit.
        """
        run = self.run
        assert run is not None, "it stands behind the task at hand"
        if role.merge(task) and role.left_limit():
            run.give_back(self._known_queue())

    def _has_no_order(self, task: StoredTask) -> bool:
        if not self.turn.has_kinds_apart:
            return False
        role = self.at_hand(task.key)
        if role is not None and (role.is_own or not role.is_unordered):
            return role.is_unordered
        if self.unordered is not None and self.unordered.takes(task):
            return True
        return task.kind in self.turn.effects.concurrency_per_id

    def _queue_max(self) -> int:
        following = 0 if self.run is None else len(self.run)
        return self.turn.queue_tasks_max() - following

    def _known_queue(self) -> OrderingQueue:
        if self.queue is None:
            self.queue = OrderingQueue()
        return self.queue

    def _known_unordered(self) -> UnorderedTasks:
        if self.unordered is None:
            self.unordered = UnorderedTasks(self, self.turn)
        return self.unordered

    # Events that a task at hand waited for.

    def take_time(self, key: TaskKey) -> None:
        """Begin the next attempt of a task, if its time has come."""
        if (role := self.at_hand(key)) is not None:
            role.take_time()

    def take_letter(self, key: TaskKey, letter: "Future[Position]") -> None:
        """Close a task whose dead letter is written."""
        if (role := self.at_hand(key)) is not None:
            role.take_letter(letter)

    def take_check(self, task: StoredTask, *, closed: bool) -> None:
        """Continue with a task whose key was checked."""
        if (role := self.at_hand(task.key)) is not None:
            role.take_check(task.offset, closed=closed)

    def take_record(self, key: TaskKey) -> None:
        """Continue with a task whose last attempt is durable."""
        if (role := self.at_hand(key)) is not None:
            role.take_record()

    # The next task, if none is at hand.

    def go_on(self) -> bool:
        """Begin tasks that may begin, or read further ones; return True if work is left."""
        has_more = self.queue is not None or self.run is not None
        if self.unordered is not None or (has_more and self.front is None):
            self._go_on()
        return self.front is not None or not self.is_over

    def _go_on(self) -> None:
        is_running = not self.is_paused and not self.turn.is_catching_up
        if is_running and self.unordered is not None:
            self.unordered.go_on()
        while self.front is None:
            if self.run is not None and self._goes_on_with_run():
                continue
            queue = self.queue
            if queue is None or not is_running:
                return
            if self.unordered is not None and self._waits_for_unordered(queue, self.unordered):
                return
            task = queue.pop()
            if task is None:
                self._read_on(queue)
                return
            self._begin(task)

    def _waits_for_unordered(self, queue: OrderingQueue, unordered: UnorderedTasks) -> bool:
        """True if an attempt of the next key runs that an earlier owner began without order."""
        key = queue.first()
        return key is not None and unordered.find(key) is not None

    def _goes_on_with_run(self) -> bool:
        """Put the next task of the run at hand and return True, or put all of the run back to wait
        and return False.
        """
        run = self.run
        assert run is not None, "there is a run"
        self.front = run.next_begun()
        if self.front is not None:
            self.front.take_turn()
            return True
        queue = self._known_queue()
        run.give_back(queue)
        if self.is_paused:
            queue.spill_all()
        return False

    def _begin(self, task: StoredTask) -> None:
        assert self.front is None, "strictly one task at a time (P3)"
        role = self.front = TaskExecutorRole(self, self.turn, task, self.executors)
        # A run knows nothing of what is at hand beside it.
        is_alone = self.unordered is not None and self.unordered.is_foreign
        if self.turn.has_kinds_apart and self.turn.effects.run_tasks_of(task) > 1 and not is_alone:
            if self.run is None:
                self.run = TaskRun(self.turn)
            self.run.gather(role, self._known_queue())
        role.begin()

    def begin_run(self, role: TaskExecutorRole, executable: Executable) -> None:
        """Begin the tasks that may share a batch with the task at hand, all together."""
        if self.run:
            assert role is self.front, "a run begins with the task at hand"
            self.run.begin(role, executable)

    def void_run(self, role: TaskExecutorRole) -> None:
        """Void the attempts in the batch behind a task that is not done: they run later (P4)."""
        if self.run and role is self.front:
            self.run.void()

    def _read_on(self, queue: OrderingQueue) -> None:
        """Read the rows that were left to the store, or wait until the first of them is due.

        The range may begin with rows that are not due, if the clock of an earlier owner was ahead.
        """
        stored, turn = queue.stored, self.turn
        if stored is None or queue.reading is not None:
            return
        wait_ms = stored[0].scheduled_ms - turn.clock.now_ms()
        if wait_ms > 0:
            turn.look_again(self.ordering_id, wait_ms)
            return
        self.count()
        limit = turn.queue_tasks_max()
        turn.reserve(limit)
        queue.begin_reading(turn.read(self.ordering_id, stored, limit))

    def take_loaded(self, message: OrderingLoaded) -> None:
        """Take the rows that were read, unless the read was given up meanwhile."""
        queue, request = self.queue, message.request
        self.turn.touched[self.ordering_id] = None
        if self.unordered is not None and self.unordered.takes_page(message):
            self.unordered.take_page(message)
        elif queue is not None and queue.reading is request:
            self.turn.reserve(-request.limit)
            assert not len(queue), "what arrives during a read is left to the store"
            now_ms = self.turn.clock.now_ms()
            for task in queue.end_reading(message.tasks, message.next_after, now_ms):
                if self._has_no_order(task):
                    self._known_unordered().spill(task)
                else:
                    queue.add(task)

    def spill(self, task: StoredTask) -> None:
        """Leave a task with an order to the store, where it was found, unless memory has it."""
        role, queue = self.at_hand(task.key), self._known_queue()
        if (role is None or not role.is_own) and task.key not in queue:
            queue.spill_key(task.key)

    # A task at hand ends, or takes long.

    def end(self, role: TaskExecutorRole, *, is_closed: bool) -> None:
        """Remove a task from hand that is closed, or that runs elsewhere or later."""
        self.turn.touched[self.ordering_id] = None
        if is_closed and role is self.front and not role.is_withdrawn:
            self.front = None
            return
        is_again = role.is_withdrawn or (role.is_doubted and not is_closed)
        # A task that ends during a pause may still be open.
        is_left = not is_closed and self.is_paused
        if role.is_unordered:
            self._known_unordered().end(role, is_left=is_again or is_left)
            return
        assert role is self.front, "another task is at hand"
        self.front = None
        if is_again:
            self._known_queue().spill_from(role.task.key)
        elif is_left:
            self._known_queue().spill_key(role.task.key)

    def mark_slow(self, role: TaskExecutorRole) -> None:
        """Leave the tasks behind a task to the store, because it takes long."""
        self.turn.touched[self.ordering_id] = None
        if role.is_unordered:
            self._known_unordered().mark_slow(role)
            return
        role.is_slow = True
        if self.run:
            self.run.give_back(self._known_queue())
        if self.queue is not None:
            self.queue.spill_all()

    def note_long_running(self, key: TaskKey) -> None:
        """Note that the user code of a task has been running for long."""
        role = self.at_hand(key)
        if role is not None and role.is_own and role.phase is not Phase.FOLLOWING:
            self.mark_slow(role)

    def note_log_awaited(self, ended_ms: int) -> None:
        """Note tasks that ended by then, and whose followers the log has not taken."""
        roles = () if self.front is None else (self.front,)
        if self.unordered is not None:
            roles = (*roles, *self.unordered.roles())
        for role in roles:
            if role.awaits_log_since(ended_ms):
                self.mark_slow(role)

    # An earlier tree, commands, and the end.

    def adopt(self, attempt: Attempt) -> None:
        """Wait for an earlier tree's attempt; its key runs again if another owner came between."""
        task = attempt.task
        assert task.key.ordering_id == self.ordering_id, "another id's attempt"
        self.turn.touched[self.ordering_id] = None
        if attempt.is_unordered:
            self._known_unordered().adopt(attempt)
            return
        role = TaskExecutorRole(self, self.turn, task, self.executors)
        if attempt.follows is not None and self.front is not None:
            # Its turn comes after the task at hand.
            if self.run is None:
                self.run = TaskRun(self.turn)
            self.run.add(role)
            role.adopt(attempt, phase=Phase.FOLLOWING)
        else:
            assert self.front is None, "strictly one task at a time (P3)"
            self.front = role
            role.adopt(attempt, phase=Phase.RUNNING)

    def read_first(self, after: TaskKey, up_to: TaskKey) -> None:
        """Read a range of the store before anything else begins."""
        self.turn.touched[self.ordering_id] = None
        self._known_queue().spill(after, up_to)
        if self.turn.effects.concurrency_per_id:
            self._known_unordered().read_first(after, up_to)

    def withdraw(self, message: WithdrawTask) -> None:
        """Withdraw a key for a command, and answer whether that was possible."""
        key, withdrawal = message.key, message.withdrawal
        assert key.ordering_id == self.ordering_id, "another id's task"
        self.turn.touched[self.ordering_id] = None
        may_stay_open = withdrawal is not Withdrawal.CLOSE
        found = role = self.at_hand(key)
        if role is not None and not role.is_own:
            role = None
        if role is not None and role.phase is not Phase.FOLLOWING:
            role.is_withdrawn = role.is_withdrawn or may_stay_open
            role.withdraw(message)
            return
        result = WithdrawalResult.ABSENT
        if role is not None:
            result = self._withdraw_following(role, withdrawal)
        elif self.queue is not None:
            result = self.queue.withdraw(key, withdrawal)
        if result is WithdrawalResult.WITHDRAWN and may_stay_open and not self.is_paused:
            self._known_queue().spill_from(key)
        if result is WithdrawalResult.ABSENT and self.unordered is not None:
            result = self.unordered.withdraw(message, is_paused=self.is_paused)
        if role is None and found is not None and found.withdraw_foreign(message):
            result = WithdrawalResult.RUNNING
        running = found.attempt if found and result is WithdrawalResult.RUNNING else None
        self.turn.answer(message, result, running)

    def _withdraw_following(
        self, role: TaskExecutorRole, withdrawal: Withdrawal
    ) -> WithdrawalResult:
        run = self.run
        assert run is not None, "it stands behind the task at hand"
        result = run.withdraw(role, withdrawal)
        if result is WithdrawalResult.WITHDRAWN:
            run.give_back(self._known_queue(), role.task.key)
        return result

    def pause(self) -> None:
        """Let the tasks at hand end, begin nothing more, leave the waiting tasks to the store, and
        ignore the answer of a read that is under way.
        """
        if self.is_paused:
            return
        self.is_paused = True
        self.turn.touched[self.ordering_id] = None
        queue = self.queue
        if queue is not None:
            if queue.reading is not None:
                self.turn.reserve(-queue.reading.limit)
                queue.stop_reading()
            queue.spill_all()
        if self.unordered is not None:
            self.unordered.pause()
        if self.front is not None:
            self.front.pause()

    def resume(self) -> None:
        """End a pause: the id reads the tasks that were left to the store."""
        if self.is_paused:
            self.is_paused = False
            self.turn.touched[self.ordering_id] = None
