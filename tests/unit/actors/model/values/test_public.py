"""Public names are shown under the module that users import them from."""

import pickle

from hourhand.actors.model.values.public import public


class _Planted:
    """A class of this file, shown as another module's."""


def test_a_class_is_shown_under_its_public_module() -> None:
    """Its ``repr`` and a traceback begin with it; the class stays the same object."""
    shown = public("hourhand.planted")(_Planted)

    assert shown is _Planted
    assert repr(shown) == "<class 'hourhand.planted._Planted'>"


def test_a_function_is_shown_under_its_public_module() -> None:
    """And works as before."""

    @public("hourhand.planted")
    def answer() -> int:
        return 42

    assert (answer.__module__, answer()) == ("hourhand.planted", 42)


def test_a_pickle_names_the_public_module() -> None:
    """So it can be read after the class has moved to another file."""
    from hourhand import TaskKey

    written = pickle.dumps(TaskKey(0, "a", "b"), 0)

    assert b"chourhand\nTaskKey\n" in written
    assert pickle.loads(written) == TaskKey(0, "a", "b")  # noqa: S301 - our own bytes
