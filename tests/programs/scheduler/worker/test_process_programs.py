"""Whole programs whose tasks run in processes: a script, and one that forgot the guard."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = '''
from urllib.request import urlopen

from hourhand import Hourhand, Scheduler, Settings

app = Hourhand()


@app.task("name", run_in="process")
def name() -> None:
    """Say what this module is called here."""
    print("ran in", __name__)


{guard}
    settings = Settings(embedded={{"folder": "data"}}, observe={{"port": 0}})
    with Scheduler(settings, executors=app) as scheduler:
        receipt = name.schedule(None, ordering_id="a").result()
        print(scheduler.wait_task(receipt.key, 60).state)
        print(urlopen(f"http://127.0.0.1:{{scheduler.observation.port}}/metrics").read().decode())
'''


def _run(folder: Path, guard: str) -> "subprocess.CompletedProcess[str]":
    (folder / "script.py").write_text(SCRIPT.format(guard=guard))
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_script_runs_its_own_tasks_in_processes(tmp_path: Path) -> None:
    """They are imported under another name, as multiprocessing does it."""
    ran = _run(tmp_path, 'if __name__ == "__main__":')

    assert ran.returncode == 0, ran.stderr
    assert "ran in __mp_main__" in ran.stdout
    assert "success" in ran.stdout
    assert re.search(r"^hourhand_pool_processes [1-9]", ran.stdout, re.MULTILINE)
    assert re.search(r'pool_process_attempts_total{place="\d+"} 1.0$', ran.stdout, re.MULTILINE)
    assert 'hourhand_pool_process_deaths_total{reason="signal"} 0.0\n' in ran.stdout


def test_a_script_without_a_guard_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """Each process would start a node of its own otherwise."""
    ran = _run(tmp_path, "if True:")

    assert ran.returncode == 1
    assert "__name__ == '__main__'" in ran.stderr


def test_a_command_runs_a_module_s_tasks_in_processes(tmp_path: Path) -> None:
    """All of them where the settings say so; a kind may say otherwise."""
    (tmp_path / "jobs.py").write_text(
        "import os, signal\n"
        "from hourhand import Hourhand, Task, TaskExecutor\n"
        "app = Hourhand()\n"
        "@app.task('stop', run_in='thread')\n"
        "def stop() -> None:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "class Plain(TaskExecutor):\n"
        "    def execute(self, task: Task) -> None:\n"
        "        print('plain in', os.getppid() != int(os.environ['STARTER']), flush=True)\n"
    )
    (tmp_path / "start.py").write_text(
        "import os, sys, datetime\n"
        "from hourhand import SchedulerClient, Settings, Task\n"
        "now = datetime.datetime.now(datetime.UTC)\n"
        "with SchedulerClient(Settings(embedded={'folder': 'data'})) as client:\n"
        "    for at, kind in ((0, None), (5, 'stop')):\n"
        "        due = now + datetime.timedelta(seconds=at)\n"
        "        client.schedule_task(Task(ordering_id='a', scheduled_time=due,\n"
        "            uniqueness_key=str(at), kind=kind)).result()\n"
        "os.environ['STARTER'] = str(os.getppid())\n"
        "command = ['-m', 'hourhand', 'run', '--executor', 'jobs:Plain', '--executor',\n"
        "    'jobs:app', '--set', 'tree.execution.run_in=process',\n"
        "    '--set', 'embedded.folder=data']\n"
        "os.execv(sys.executable, [sys.executable, *command])\n"
    )

    ran = subprocess.run(
        [sys.executable, "start.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert "plain in True" in ran.stdout, ran.stderr
