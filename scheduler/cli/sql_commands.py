"""``hourhand sql``: a question in SQL over an export or a window of the live store."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import csv
import io
import json
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hourhand.actors.model.values.display import printable_text
from hourhand.actors.model.values.errors import InvalidInput
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler import wiring
from hourhand.scheduler.cli.failing import say
from hourhand.scheduler.cli.session import (
    CommandOptions,
    command_session,
    require_installation,
)
from hourhand.scheduler.cli.task_input import parse_moment_ms
from hourhand.scheduler.cli.text_output import one_line
from hourhand.scheduler.client.client import SchedulerClient
from hourhand.scheduler.configuration.optional_dependencies import required_by
from hourhand.scheduler.configuration.settings import Settings

if TYPE_CHECKING:
    from hourhand.scheduler.cli.sql_database import QueryAnswer, ReadOnlyDatabase

_MEMORY_BYTES_MAX = 1_000_000_000
_SPILL_BYTES_MAX = 4_000_000_000


class RowFormat(StrEnum):
    """The format of printed rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def sql(
    question: Annotated[str, typer.Argument(metavar="QUERY", help="One SQL statement that reads.")],
    *,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Ask a folder of `hourhand pipeline export`."),
    ] = None,
    start: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="Tasks due from here on: RFC 3339, -1d."),
    ] = "-1d",
    end: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Tasks due before this time.")
    ] = "+1d",
    rows_max: Annotated[
        int,
        typer.Option(
            min=1, max=1_000_000, metavar="N", help="Most tasks that the window may hold."
        ),
    ] = 100_000,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="Rows to print at most.")
    ] = 1_000,
    output: Annotated[
        RowFormat,
        typer.Option("--output", "-o", metavar="FORMAT", help="table, csv or json."),
    ] = RowFormat.TABLE,
    common: CommandOptions,
) -> None:
    """Ask the tasks of a window, or an export, in SQL.

    Needs hourhand[sql].  Tables of the live store are tasks, completions and attempts; an export
    has those of its folder.  Times are in UTC.  Nothing can be changed, and no other file be read.

    \b
    Examples:
      hourhand sql "SELECT kind, count(*) FROM tasks GROUP BY kind"
      hourhand sql "SELECT error_class, count(*) FROM attempts GROUP BY ALL" --from -7d -o csv
      hourhand sql "DESCRIBE tasks" --export /backup/today
    """
    with command_session(common) as settings:
        with _opened() as database:
            if export is None:
                _fill(database, settings, start, end, rows_max)
            else:
                _show(database, export)
            answer = database.ask(question, limit)
        typer.echo(_printed(answer, output), nl=output is not RowFormat.CSV)
        if answer.has_more:
            say(f"there are more than {limit} rows: --limit prints more")


def _opened() -> "ReadOnlyDatabase":
    with required_by("`hourhand sql`"):
        from hourhand.scheduler.cli.sql_database import ReadOnlyDatabase
    return ReadOnlyDatabase(_MEMORY_BYTES_MAX, _SPILL_BYTES_MAX)


def _fill(
    database: "ReadOnlyDatabase", settings: Settings, start: str, end: str, rows_max: int
) -> None:
    from hourhand.scheduler.cli.sql_tables import fill_live

    require_installation(settings)
    now_ms = wiring.open_clock().now_ms()
    start_ms, end_ms = parse_moment_ms(start, now_ms), parse_moment_ms(end, now_ms)
    if start_ms >= end_ms:
        raise InvalidInput(f"--from {start} must be before --to {end}")
    with SchedulerClient(settings) as client:
        fill_live(database, client, from_millis(start_ms), from_millis(end_ms), rows_max)
    database.seal()


def _show(database: "ReadOnlyDatabase", folder: Path) -> None:
    from hourhand.scheduler.cli.sql_tables import show_export

    folder = folder.resolve()
    show_export(database, folder)
    database.seal(folder)


def _printed(answer: "QueryAnswer", output: RowFormat) -> str:
    match output:
        case RowFormat.JSON:
            rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
            return json.dumps(rows, default=_text, separators=(",", ":"))
        case RowFormat.CSV:
            written = io.StringIO()
            writer = csv.writer(written, lineterminator="\n")
            # A file gets each cell unchanged; a terminal gets text that cannot control it.
            shown = printable_text if sys.stdout.isatty() else str
            writer.writerow(map(shown, answer.columns))
            writer.writerows([shown(_cell(value, "")) for value in row] for row in answer.rows)
            return written.getvalue()
        case RowFormat.TABLE:
            return _table(answer)


def _table(answer: "QueryAnswer") -> str:
    cells = [[one_line(_cell(value, "-")) for value in row] for row in answer.rows]
    table = [[one_line(name) for name in answer.columns], *cells]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )


def _cell(value: Any, absent: str) -> str:
    return absent if value is None else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        aware = value if value.tzinfo is None else value.astimezone(UTC)
        return aware.isoformat().replace("+00:00", "Z")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list | dict):
        return json.dumps(value, default=_text)
    return str(value)
