"""Django's tasks on Hourhand: ``TASKS["default"]["BACKEND"] = "hourhand.django.HourhandBackend"``.

As an application it brings ``manage.py hourhand run``.  It needs Django 6, or Django 5.2 and the
package django-tasks; nothing else of Hourhand imports it.
"""

from hourhand.django.backend import HourhandBackend, executors
from hourhand.django.declaring import HourhandTask, task_options

__all__ = ["HourhandBackend", "HourhandTask", "executors", "task_options"]
