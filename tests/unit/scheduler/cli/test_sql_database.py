"""A database that answers questions: what a question may be, and what it may take."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from hourhand.actors.model.values.errors import InvalidQuery
from hourhand.scheduler.cli.sql_database import QueriedTable, ReadOnlyDatabase

MEMORY_BYTES, SPILL_BYTES = 50_000_000, 20_000_000
SORTED = "SELECT hash(range) AS h, repeat('x', 100) || range AS r FROM range({}) ORDER BY h"

WRITES = (
    "COPY (SELECT 1) TO '{}/new'",
    "COPY t TO '{}/manifest'",
    "INSERT INTO t VALUES (2)",
    "INSERT INTO t SELECT 2",
    "WITH x AS (SELECT 2) INSERT INTO t SELECT * FROM x",
    "UPDATE t SET a = 2",
    "DELETE FROM t",
    "CREATE TABLE u AS SELECT 2",
    "DROP TABLE t",
    "SET threads = 1",
    "PRAGMA threads = 1",
    "EXPLAIN COPY (SELECT 1) TO '{}/new'",
)
EXPLAINS = (
    "",
    "EXPLAIN ",
    "explain\tANALYZE\n",
    "EXPLAIN (ANALYZE) ",
    "EXPLAIN (ANALYZE, FORMAT json)",
    "EXPLAIN (FORMAT json, ANALYZE)",
    "EXPLAIN /* SELECT */ ANALYZE ",
    "/* ü */ EXPLAIN ANALYZE ",
    "-- SELECT\nEXPLAIN ANALYZE -- SELECT\n",
    "EXPLAIN ANALYZE/**/",
    "EXPLAIN(ANALYZE)",
)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Return a folder with a file that nobody may change."""
    (tmp_path / "manifest").write_text("kept")
    return tmp_path


@pytest.fixture
def database(
    export: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ReadOnlyDatabase]:
    """Yield one over that folder, with a table."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("temporary")))
    with ReadOnlyDatabase(MEMORY_BYTES, SPILL_BYTES) as opened:
        opened.fill(QueriedTable("t", {"a": "INTEGER"}), [[1]])
        opened.seal(export)
        yield opened


@pytest.mark.parametrize("write", WRITES)
def test_no_question_writes_however_it_is_explained(
    write: str, database: ReadOnlyDatabase, export: Path
) -> None:
    """EXPLAIN ANALYZE runs what it explains."""
    for explain in EXPLAINS:
        with pytest.raises(InvalidQuery):
            database.ask(explain + write.format(export), 10)

        assert database.ask("SELECT a FROM t", 10).rows == [(1,)], explain
        kept = [(each.name, each.read_text()) for each in export.iterdir()]
        assert kept == [("manifest", "kept")], explain


@pytest.mark.parametrize("question", ["SELECT a FROM t", "WITH x AS (FROM t) FROM x", "(FROM t)"])
@pytest.mark.parametrize("explain", EXPLAINS[:6])
def test_what_reads_is_answered_and_explained(
    explain: str, question: str, database: ReadOnlyDatabase
) -> None:
    """With the time that it took, too."""
    assert database.ask(explain + question, 10).rows


def test_a_question_that_does_not_fit_into_memory_spills_into_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Private, nowhere near the working directory, and gone at the end."""
    temporary, work = tmp_path / "it's temporary", tmp_path / "work"
    temporary.mkdir()
    work.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.chdir(work)

    with ReadOnlyDatabase(MEMORY_BYTES, 2_000_000_000) as database:
        database.seal()
        (folder,) = temporary.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        database.ask(SORTED.format(1_000_000), 10)
        assert any(folder.iterdir())

    assert [*temporary.iterdir(), *work.iterdir()] == []


def test_a_question_that_needs_more_than_its_limits_is_refused(database: ReadOnlyDatabase) -> None:
    """With both limits, and no advice about settings that nobody can change."""
    with pytest.raises(InvalidQuery, match="50 MB of memory and 20 MB of files") as refused:
        database.ask(SORTED.format(3_000_000), 10)

    assert "temp_directory" not in str(refused.value)
    with pytest.raises(duckdb.Error):
        database._connection.execute("SET max_temp_directory_size = '1TB'")
