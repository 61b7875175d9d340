"""The schema files that are shipped: numbered as a migration wants them."""

from hourhand.scheduler.adapters.cassandra.migrate import schema_scripts


def test_the_files_are_numbered_without_a_gap() -> None:
    """Else no node and no migration would start, which only a live server would show."""
    numbers = [each.number for each in schema_scripts()]

    assert numbers == list(range(1, len(numbers) + 1))
