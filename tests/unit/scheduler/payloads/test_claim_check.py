"""Large data in a store: when it is put there, and what a record claims."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hourhand import TaskExecutor
from hourhand.actors.model.task.status import AttemptResult
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import PayloadDamaged, PayloadUnavailable, SettingsInvalid
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.claim_check import ClaimCheck
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.testing import VirtualScheduler
from tests.builders import a_task

pytest.importorskip("fsspec", reason="fsspec is not installed here: make venv")

TIMEOUT_S = 60
LARGE = {"text": "x" * 1_000}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


class _Note(TaskExecutor):
    ran: list[Any] = []  # noqa: RUF012 - emptied by each test

    def execute(self, task: Task) -> None:
        self.ran.append(task.data)


class _NoteAsync(TaskExecutor):
    async def execute(self, task: Task) -> None:
        _Note.ran.append(task.data)


def test_only_data_above_the_threshold_is_put_there(tmp_path: Path) -> None:
    """A byte decides; what is not claimed is in the record."""
    codec = ClaimCheck(f"file://{tmp_path}", threshold_bytes=10)

    assert codec.encode(b"0123456789", b"") is None and _files(tmp_path) == []
    claim = codec.encode(b"0123456789a", b"")
    assert claim is not None and len(claim.data) == 64
    assert codec.decode(claim.data, None, b"") == b"0123456789a"


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_files_are_for_their_owner_alone_and_no_part_of_one_is_left(tmp_path: Path) -> None:
    """Each is written under another name first; the same data is one file."""
    codec = ClaimCheck(str(tmp_path), threshold_bytes=1)
    for _ in range(3):
        codec.encode(b"data", b"")

    (file,) = _files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.name.startswith(file.parent.name)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_folders_that_it_makes_are_for_their_owner_alone(umask: int, tmp_path: Path) -> None:
    """Under any umask, up to the first that was there, which is left as it is."""
    tmp_path.chmod(0o755)
    before = os.umask(umask)
    try:
        ClaimCheck(str(tmp_path / "a" / "b"), threshold_bytes=1).encode(b"data", b"")
    finally:
        os.umask(before)

    (file,) = _files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    made = [tmp_path / "a", tmp_path / "a" / "b", file.parent]
    assert [stat.S_IMODE(each.stat().st_mode) for each in made] == [0o700] * 3
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX")
@pytest.mark.parametrize("there", ["", "a", "a/b", "a/b/3a"])
def test_each_name_on_the_way_to_a_claim_is_synced(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut the file is there; also where another process had just made a folder."""
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    known: set[Path] = {each for each in tmp_path.rglob("*") if each.name != "3a"}
    synced: set[Path] = set()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        found = os.fstat(descriptor).st_ino
        for each in (tmp_path, *tmp_path.rglob("*")):
            if each.is_dir() and each.stat().st_ino == found:
                synced.update(each.iterdir())

    monkeypatch.setattr(os, "fsync", fsync)
    claim = ClaimCheck(str(tmp_path / "a" / "b"), threshold_bytes=1).encode(b"data", b"")

    assert claim is not None and claim.data.startswith(b"3a")
    assert known | synced >= set(tmp_path.rglob("*"))


@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX alone")
def test_p1_a_claim_is_on_disk_before_its_file_has_its_name_and_its_name_before_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that outlives a power cut claims what outlives it too."""
    steps: list[tuple[str, int, int]] = []
    sync, rename = os.fsync, os.replace

    def noting_sync(descriptor: int) -> None:
        sync(descriptor)
        found = os.fstat(descriptor)
        steps.append(("sync", found.st_ino, 0 if stat.S_ISDIR(found.st_mode) else found.st_size))

    def noting_rename(old: str, new: str) -> None:
        steps.append(("name", os.stat(old).st_ino, os.stat(old).st_size))  # noqa: PTH116
        rename(old, new)

    monkeypatch.setattr(os, "fsync", noting_sync)
    monkeypatch.setattr(os, "replace", noting_rename)

    ClaimCheck(str(tmp_path), threshold_bytes=1).encode(b"data", b"")

    (file,) = _files(tmp_path)
    whole, folder = (file.stat().st_ino, 4), (file.parent.stat().st_ino, 0)
    wanted = [("sync", *whole), ("name", *whole), ("sync", *folder)]
    assert [step for step in steps if step in wanted] == wanted


@pytest.mark.parametrize("url", ["file", "memory"])
@pytest.mark.parametrize("executor", [_Note, _NoteAsync])
def test_user_code_gets_what_was_claimed(
    url: str, executor: type[TaskExecutor], tmp_path: Path
) -> None:
    """From a folder, and from a store that is not one; encrypted there too."""
    _Note.ran = []
    place = f"file://{tmp_path}" if url == "file" else "memory://claims"
    payloads = PayloadCodecs(AesGcm({"k1": bytes(32)}), ClaimCheck(place, threshold_bytes=100))
    with VirtualScheduler(executor, payloads=payloads) as scheduler:
        task = a_task(data=dict(LARGE)).model_copy(
            update={"scheduled_time": scheduler.now + timedelta(minutes=1)}
        )
        scheduler.schedule_task(task).result(TIMEOUT_S)
        scheduler.run_due()
        found = scheduler.client.find_task(task.key)
        scheduler.drain()

    assert _Note.ran == [LARGE]
    assert found.data == LARGE and found.sealed is None
    assert not any(b"xxx" in file.read_bytes() for file in _files(tmp_path))
    assert len(_files(tmp_path)) == (1 if url == "file" else 0)


def test_data_that_is_not_there_is_tried_again(tmp_path: Path) -> None:
    """A mount that comes late, or a store that is not consistent yet."""
    _Note.ran = []
    payloads = PayloadCodecs(ClaimCheck(str(tmp_path), threshold_bytes=100))
    with VirtualScheduler(_Note, payloads=payloads) as scheduler:
        task = Task(
            ordering_id="o",
            scheduled_time=scheduler.now + timedelta(minutes=1),
            uniqueness_key="u",
            data=dict(LARGE),
        )
        scheduler.schedule_task(task).result(TIMEOUT_S)
        (file,) = _files(tmp_path)
        away = file.rename(tmp_path / "away")
        failed = scheduler.advance(timedelta(minutes=1))
        away.rename(file)
        ended = scheduler.drain()

    assert [each.error_class for each in failed] == ["FileNotFoundError"]
    assert [each.result for each in ended] == [AttemptResult.SUCCESS] and _Note.ran == [LARGE]


def test_other_data_under_its_name_is_damage(tmp_path: Path) -> None:
    """It is found by its hash, so a change is seen without a key."""
    codec = ClaimCheck(str(tmp_path), threshold_bytes=1)
    claim = codec.encode(b"data", b"")
    assert claim is not None
    _files(tmp_path)[0].write_bytes(b"atad")

    with pytest.raises(PayloadDamaged, match="not the data that was put there"):
        codec.decode(claim.data, None, b"")


@pytest.mark.parametrize("claim", [b"", b"../../etc/passwd", b"A" * 64, b"\xff" * 64, b"a" * 63])
def test_a_claim_names_nothing_else(claim: bytes, tmp_path: Path) -> None:
    """Any producer may write one."""
    with pytest.raises(PayloadDamaged, match="not the hash"):
        ClaimCheck(str(tmp_path)).decode(claim, None, b"")


def test_a_store_that_fails_refuses_the_task(tmp_path: Path) -> None:
    """Nothing is sent that claims what is not there."""
    (tmp_path / "file").write_text("")
    payloads = PayloadCodecs(ClaimCheck(str(tmp_path / "file"), threshold_bytes=1))

    with pytest.raises(PayloadUnavailable, match="claim-check failed"):
        payloads.sealed(a_task(due_in_ms=int(datetime.now(UTC).timestamp())))


def test_what_cannot_be_opened_is_refused_at_once(tmp_path: Path) -> None:
    """When a process starts, not when its first large task comes."""
    with pytest.raises(SettingsInvalid, match="cannot open 'nosuch://x'"):
        ClaimCheck("nosuch://x")
    for threshold in (0, -1, True):
        with pytest.raises(SettingsInvalid, match="threshold_bytes"):
            ClaimCheck(str(tmp_path), threshold_bytes=threshold)
