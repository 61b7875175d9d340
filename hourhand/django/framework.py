"""Django's task framework: ``django.tasks``, or the package django-tasks for Django 5.2.

Decides which of the two is used: that of Django where it has one.  Never what a backend does.
"""

from importlib import import_module
from typing import Any

import django
from django.core.exceptions import ImproperlyConfigured

NAME = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"


def _module(name: str) -> Any:
    try:
        return import_module(f"{NAME}{name}")
    except ModuleNotFoundError as error:
        if error.name != NAME:
            raise
        raise ImproperlyConfigured(
            f"Django {django.__version__} has no tasks of its own: pip install"
            " 'django-tasks>=0.12,<1', and add django_tasks to INSTALLED_APPS"
        ) from None


tasks: Any = _module("")
base: Any = _module(".base")
backends: Any = _module(".backends.base")
exceptions: Any = _module(".exceptions")
signals: Any = _module(".signals")
# Django has this function for all, its predecessor for tasks.
normalize_json: Any = (
    import_module("django.utils.json") if django.VERSION >= (6, 0) else _module(".utils")
).normalize_json
InvalidTask: Any = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
