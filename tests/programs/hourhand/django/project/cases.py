"""The backend's promises, as tests of Django: ``run_suite.py`` runs them on each Django."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar

from asgiref.sync import async_to_sync
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.dispatch import Signal
from django.test import SimpleTestCase, TransactionTestCase, override_settings

from hourhand import Settings, Task, TaskKey, outbox
from hourhand.django import executors, framework
from hourhand.django.installation import _url_of
from hourhand.scheduler.outbox.opening import _path
from hourhand.testing import VirtualScheduler
from tests.programs.hourhand.django.project import tasks

_BACKEND = "hourhand.django.HourhandBackend"
_HOUR_S = 3_600


@contextmanager
def _heard(signal: Signal) -> Iterator[list[Any]]:
    heard: list[Any] = []

    def hear(task_result: Any, **_more: Any) -> None:
        heard.append((task_result.id, str(task_result.status)))

    signal.connect(hear)
    try:
        yield heard
    finally:
        signal.disconnect(hear)


class EnqueuedCase(SimpleTestCase):
    """A task that is enqueued, runs and ends."""

    def setUp(self) -> None:
        """Open an installation without tasks."""
        self.scheduler = VirtualScheduler(executors=executors())
        self.addCleanup(self.scheduler.stop)
        tasks.ran.clear()

    def test_a_success_has_its_value_and_its_times(self) -> None:
        """And is found by its id, equal to what ``enqueue`` returned once that is refreshed."""
        result = tasks.add.enqueue(40, second=2)
        assert str(result.status) == "READY"
        self.scheduler.advance(seconds=1)
        result.refresh()

        assert (str(result.status), result.return_value) == ("SUCCESSFUL", 42)
        assert result.attempts == 1
        assert result.enqueued_at == datetime(2026, 1, 1, tzinfo=UTC)
        assert result.enqueued_at == result.started_at
        assert result.finished_at == result.last_attempted_at
        assert tasks.add.get_result(result.id) == result

    def test_a_result_outlives_the_data_of_its_task(self) -> None:
        """For as long as results are kept; then nothing is known of it."""
        result = tasks.add.enqueue(40, second=2)
        self.scheduler.advance(seconds=8 * _HOUR_S)
        assert self.scheduler.client.find_task(_key(result)).data is None

        found = tasks.add.get_result(result.id)

        assert (found.return_value, found.args, found.kwargs) == (42, [40], {"second": 2})
        self.scheduler.advance(days=2)
        with self.assertRaises(framework.exceptions.TaskResultDoesNotExist):
            tasks.add.get_result(result.id)

    def test_run_after_is_kept_and_the_past_means_now(self) -> None:
        """A coroutine function runs too, with its queue and priority."""
        later = self.scheduler.now + timedelta(hours=1)
        result = tasks.add_async.using(run_after=later, queue_name="default").enqueue(1, 2)
        at_once = tasks.add.using(run_after=self.scheduler.now - timedelta(days=9)).enqueue(1)
        self.scheduler.advance(seconds=1)
        result.refresh()
        at_once.refresh()
        assert [str(each.status) for each in (result, at_once)] == ["READY", "SUCCESSFUL"]

        self.scheduler.advance(seconds=_HOUR_S)
        found = tasks.add_async.get_result(result.id)

        assert (found.return_value, found.started_at) == (3, later)
        assert found.task == result.task

    def test_a_time_that_no_task_can_have_is_refused_by_its_name(self) -> None:
        """Django takes any; one that a zone moves beyond the year 9999 is not an instant."""
        for impossible in (
            datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
            datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        ):
            with self.assertRaisesRegex(framework.InvalidTask, "run_after"):
                tasks.add.using(run_after=impossible).enqueue(1)

    def test_an_exception_fails_the_task_at_once(self) -> None:
        """Unless its function asks for retries."""
        with self.assertLogs(framework.NAME, "ERROR"):
            once, twice = tasks.fail.enqueue(), tasks.fail_twice.enqueue()
            self.scheduler.run_due()
            once.refresh()
            twice.refresh()
            assert [str(each.status) for each in (once, twice)] == ["FAILED", "READY"]
            self.scheduler.advance(seconds=_HOUR_S)
        twice.refresh()

        assert (str(twice.status), twice.attempts) == ("FAILED", 2)
        assert [each.exception_class for each in twice.errors] == [tasks.OwnError] * 2
        assert once.errors[0].exception_class is OSError
        assert "OSError: the disk is full" in once.errors[0].traceback

    def test_a_task_that_is_ended_without_running_has_failed(self) -> None:
        """And its error says so."""
        result = tasks.add.using(run_after=self.scheduler.now + timedelta(days=1)).enqueue(1)
        self.scheduler.client.cancel_task(_key(result)).result()
        self.scheduler.run_due()
        result.refresh()

        assert str(result.status) == "FAILED"
        assert result.errors[0].exception_class.__name__ == "NoResult"

    def test_a_task_that_was_moved_is_found_by_the_id_it_had(self) -> None:
        """Operators move tasks."""
        result = tasks.add.using(run_after=self.scheduler.now + timedelta(days=1)).enqueue(1)
        self.scheduler.client.run_task_now(_key(result)).result()
        self.scheduler.advance(seconds=1)
        result.refresh()

        assert result.return_value == 1

    def test_the_context_tells_of_the_attempt(self) -> None:
        """Signals begin and end a task once each, and the end is the last attempt's."""
        signals = framework.signals
        with (
            _heard(signals.task_enqueued) as enqueued,
            _heard(signals.task_started) as started,
            _heard(signals.task_finished) as finished,
        ):
            result = tasks.see_context.enqueue()
            self.scheduler.advance(seconds=_HOUR_S)
        result.refresh()

        assert result.return_value == [2, result.id, "default", "RUNNING"]
        assert result.attempts == 2
        assert enqueued == [(result.id, "READY")]
        assert started == [(result.id, "RUNNING")] * 2
        assert finished == [(result.id, "SUCCESSFUL")]

    def test_a_receiver_that_raises_costs_the_task_nothing(self) -> None:
        """Django logs its error."""

        def refuse(**_more: Any) -> None:
            raise tasks.OwnError("a receiver")

        framework.signals.task_started.connect(refuse)
        self.addCleanup(framework.signals.task_started.disconnect, refuse)
        with self.assertLogs("django.dispatch", "ERROR"):
            result = tasks.add.enqueue(1)
            self.scheduler.run_due()
        result.refresh()

        assert result.return_value == 1

    def test_a_function_that_changes_its_arguments_changes_no_result(self) -> None:
        """They are its own."""
        result = tasks.change.enqueue([0])
        self.scheduler.run_due()
        result.refresh()

        assert (result.return_value, result.args) == ([0, 1], [[0]])

    def test_large_arguments_are_left_out_of_the_result_and_large_values_fail(self) -> None:
        """A result holds 64 kB."""
        found = tasks.add.enqueue(1, second=2)
        large = tasks.change.enqueue([0] * 20_000)
        larger = tasks.answer_largely.enqueue(70_000)
        with self.assertLogs(framework.NAME, "INFO"):
            self.scheduler.run_due()
        self.scheduler.advance(seconds=8 * _HOUR_S)

        assert tasks.add.get_result(found.id).args == [1]
        assert tasks.change.get_result(large.id).args == []
        assert str(tasks.answer_largely.get_result(larger.id).status) == "FAILED"

    def test_a_task_has_its_priority_and_its_kind_has_priorities_count(self) -> None:
        """The node decides which one starts first, if a kind declares a priority."""
        later = tasks.add.using(run_after=self.scheduler.now + timedelta(hours=1))
        plain, urgent = later.enqueue(1), later.using(priority=100).enqueue(2)
        self.scheduler.run_due()

        known = [self.scheduler.client.find_task(_key(each)) for each in (plain, urgent)]
        assert [each.priority for each in known] == [None, 100]
        assert executors()[known[0].kind or ""].flow_rule().priority == 0
        assert tasks.add.get_result(urgent.id).task.priority == 100

    def test_tasks_of_an_ordering_id_are_named_by_it(self) -> None:
        """Equal ids and times are one task; without ids each is one of its own."""
        later = self.scheduler.now + timedelta(hours=1)
        named = tasks.add.using(ordering_id="anna", uniqueness_key="invoice-42", run_after=later)
        first, again = named.enqueue(1), named.enqueue(2)
        apart = [tasks.add.using(ordering_id="bo", run_after=later).enqueue(n) for n in (3, 4)]
        self.scheduler.advance(seconds=2 * _HOUR_S)

        assert first.id == again.id
        assert sorted(tasks.ran) == [2, 3, 4]
        assert tasks.add.get_result(first.id).task == named
        assert tasks.add.get_result(apart[0].id).task.ordering_id == "bo"

    def test_a_long_path_has_a_kind_and_another_backends_task_runs(self) -> None:
        """The project may enqueue it here."""
        results = [
            tasks.function_of_a_name_that_is_longer_than_a_kind_may_be_and_then_some_more.enqueue(),
            tasks.at_home_elsewhere.using(backend="default").enqueue(),
        ]
        self.scheduler.run_due()
        for each in results:
            each.refresh()

        assert [each.return_value for each in results] == ["long", "here"]

    def test_data_of_other_producers_fails_and_is_no_result(self) -> None:
        """It chooses no function, and harms no other task."""
        kind = tasks.add.module_path
        good: dict[str, Any] = {
            "args": [1],
            "path": "os.system",
            "queue": "a queue that is not there",
        }
        made = {
            name: Task(
                ordering_id=name,
                scheduled_time=self.scheduler.now,
                uniqueness_key="",
                data=data,
                kind=kind,
            )
            for name, data in {"good": good, "bad": {"args": "os.system"}}.items()
        }
        for task in made.values():
            self.scheduler.schedule_task(task).result()
        self.scheduler.run_due()

        good_result = tasks.add.get_result(str(made["good"].key))
        assert (good_result.return_value, good_result.task.queue_name) == (1, "default")
        assert self.scheduler.result_of(made["bad"].key) == "failure"
        with self.assertRaises(framework.exceptions.TaskResultDoesNotExist):
            tasks.add.get_result(str(made["bad"].key))

    def test_what_hourhand_refuses_is_an_invalid_task_of_django(self) -> None:
        """And an id that is none names no result."""
        with self.assertRaisesMessage(framework.InvalidTask, "ordering_id"):
            tasks.add.using(ordering_id="").enqueue(1)
        with self.assertRaisesMessage(framework.InvalidTask, "bytes"):
            tasks.answer_largely.enqueue("x" * 3_000_000)
        for wrong in ("", "123", "2026-01-01T00:00:00.000Z,a,b"):
            with self.assertRaises(framework.exceptions.TaskResultDoesNotExist):
                tasks.add.get_result(wrong)

    def test_a_coroutine_and_another_thread_enqueue_into_the_same_installation(self) -> None:
        """Django makes a backend for each thread."""
        results = [async_to_sync(tasks.add.aenqueue)(1)]
        thread = threading.Thread(target=lambda: results.append(tasks.add.enqueue(2)))
        thread.start()
        thread.join()
        self.scheduler.run_due()

        for each in results:
            async_to_sync(each.arefresh)()
        assert [each.return_value for each in results] == [1, 2]


def _key(result: Any) -> Any:
    return TaskKey.parse(result.id)


def _refuse_card() -> None:
    raise tasks.OwnError


class CommittedCase(TransactionTestCase):
    """A task that is part of a transaction."""

    available_apps: ClassVar[list[str]] = ["hourhand.outbox.django"]

    def _waiting(self) -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM hourhand_outbox")
            return int(cursor.fetchone()[0])

    def test_a_task_is_committed_with_its_transaction_and_gone_with_it(self) -> None:
        """No log is asked: where a client is opened, this fails."""
        task = tasks.add.using(backend="committed")
        with transaction.atomic():
            kept = task.enqueue(1)
            assert self._waiting() == 1
            async_to_sync(task.aenqueue)(2)
        assert self._waiting() == 2

        with self.assertRaises(tasks.OwnError), transaction.atomic():
            task.enqueue(3)
            assert self._waiting() == 3
            _refuse_card()

        assert self._waiting() == 2
        with VirtualScheduler(executors=executors("committed")):
            assert task.get_result(kept.id) == kept

    def test_what_is_rolled_back_has_no_result(self) -> None:
        """Nor has what is not committed yet."""
        task = tasks.add.using(backend="committed")
        with VirtualScheduler(executors=executors("committed")):
            with self.assertRaises(tasks.OwnError), transaction.atomic():
                result = task.enqueue(3)
                _refuse_card()

            with self.assertRaises(framework.exceptions.TaskResultDoesNotExist):
                task.get_result(result.id)


class ConfiguredCase(SimpleTestCase):
    """A project's settings."""

    databases: ClassVar[set[str]] = {"default"}

    def _complaints(self, **entry: Any) -> list[str]:
        with override_settings(TASKS={"default": {"BACKEND": _BACKEND, **entry}}):
            return [each.id for each in checks.run_checks() if (each.id or "").startswith("hour")]

    def test_wrong_settings_are_found_by_check(self) -> None:
        """Each with what to do next."""
        assert self._complaints() == []
        wrong = {"settings": {"group": {"id": 7}}}
        assert self._complaints(OPTIONS=wrong) == ["hourhand.E001"]
        with override_settings(INSTALLED_APPS=[framework.tasks.__name__]):
            assert self._complaints(ENQUEUE_ON_COMMIT=True) == ["hourhand.E002"]
        with self.assertRaisesMessage(ImproperlyConfigured, "known are database, modules"):
            self._complaints(OPTIONS={"outbox": "default"})
        with self.assertRaisesMessage(ImproperlyConfigured, "hourhand.RetryPolicy"):
            self._complaints(OPTIONS={"retry": 5})

    def test_the_mover_finds_djangos_database(self) -> None:
        """With a login, a socket, and options of the driver alone."""
        one = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "the shop",
            "USER": "me@home",
            "PASSWORD": "a:b/c",
            "HOST": "db",
            "PORT": 5433,
            "OPTIONS": {"sslmode": "require", "pool": True, "isolation_level": 3},
        }
        socket = {**one, "HOST": "/run/pg", "PORT": "", "PASSWORD": "", "OPTIONS": {}}

        assert _url_of(one) == "postgresql://me%40home:a%3Ab%2Fc@db:5433/the%20shop?sslmode=require"
        assert _url_of(socket) == "postgresql://me%40home@/the%20shop?host=%2Frun%2Fpg"
        sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": "/srv/a shop?.db"}
        settings = Settings(outbox={"url": _url_of(sqlite)})
        assert str(_path(settings)) == "/srv/a shop?.db"
        assert _url_of(connections["default"].settings_dict)[:10] == "sqlite:///"

    def test_the_command_names_a_backend_that_is_not_ours(self) -> None:
        """Before it opens anything."""
        with self.assertRaisesMessage(CommandError, "name the alias of a HourhandBackend"):
            call_command("hourhand", "run", "--backend", "elsewhere")
        with self.assertRaises(SystemExit) as left:
            call_command("hourhand", "run", "--set", "group.identity=blue")
        assert left.exception.code == 3

    def test_the_outbox_of_hourhand_has_the_settings_of_the_backend(self) -> None:
        """A table of another name is the one that is written to."""
        entry = {"ENQUEUE_ON_COMMIT": True, "OPTIONS": {"settings": {"outbox": {"table": "box"}}}}
        with override_settings(TASKS={"default": {"BACKEND": _BACKEND, **entry}}):
            backend = framework.tasks.task_backends["default"]

            assert backend.installation.settings().outbox.table == "box"
            assert isinstance(backend.installation.outbox(), outbox.Outbox)
            assert backend.installation.settings(["outbox.table=by_hand"]).outbox.table == "by_hand"
