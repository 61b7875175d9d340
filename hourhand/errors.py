"""Every error Hourhand raises on purpose, under the name users import.

::

    from hourhand.errors import CallerError, SeveralTasks, TaskNotFound

Decides nothing: ``actors/model/values/errors.py`` has the classes, and says what each means.
"""

from hourhand.actors.model.values import errors
from hourhand.actors.model.values.errors import *  # noqa: F403 - exactly its classes

__all__ = [
    name
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, errors.HourhandError)
]
