"""Answers as columns, by whichever parser the driver was built with."""

import numpy as np

from scheduler.adapters.cassandra.column_protocol import columns_of


def test_arrays_are_columns_with_none_where_nothing_is_stored() -> None:
    """Numbers under a mask are no numbers."""
    some = np.ma.MaskedArray([5, 9], mask=[False, True])
    every = np.ma.MaskedArray([7, 8], mask=[False, False])
    texts = np.array(["a", None], dtype=object)

    columns = columns_of([{"first": some, "second": every, "third": texts}])

    assert [list(column) for column in columns] == [[5, None], [7, 8], ["a", None]]


def test_tuples_are_columns() -> None:
    """Of a driver that was built without NumPy's parser."""
    assert columns_of([(1, "a"), (2, None)]) == [(1, 2), ("a", None)]


def test_an_answer_without_rows_has_no_columns() -> None:
    """However it says that."""
    nothing = np.ma.MaskedArray(np.empty(0, dtype=np.int64))

    assert columns_of([]) == columns_of([{"first": nothing}]) == []
