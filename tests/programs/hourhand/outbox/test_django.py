"""The outbox's migrations in a project of Django, there and back."""

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import sys

import django
from django.conf import settings
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

settings.configure(
    INSTALLED_APPS=["hourhand.outbox.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
)
django.setup()


def migrate(*target):
    call_command("migrate", "hourhand_outbox", *target, verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(version) FROM hourhand_outbox_version")
        print("version", *cursor.fetchone())


def insert(lane):
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            columns = "(lane, record, written_ms)"
            values = [lane, b"by hand", 0]
            cursor.execute(f"INSERT INTO hourhand_outbox {columns} VALUES (%s, %s, %s)", values)
    except IntegrityError as error:
        print("refused:", error)
    else:
        print("taken:", lane)


migrate("0001")
insert(99)
migrate()
insert(99)
insert(31)
migrate("0001")
insert(99)
migrate()
insert(-1)
call_command("makemigrations", "--check", "--dry-run", verbosity=0)
"""


def test_migration_0002_refuses_lanes_that_do_not_exist(tmp_path: Path) -> None:
    """A table with rows of before migrates; the first migration alone is what it was."""
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "shop.db")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    refused = "refused: lane of hourhand_outbox must be 0 to 31"
    assert run.stderr == ""
    assert run.stdout.splitlines() == [
        "version 1",
        "taken: 99",
        "version 2",
        refused,
        "taken: 31",
        "version 1",
        "taken: 99",
        "version 2",
        refused,
    ]
