"""The application for Django: its name, and a unique label."""

from django.apps import AppConfig


class HourhandApplication(AppConfig):
    """The application; Django finds it by itself."""

    name = "hourhand.django"
    label = "hourhand"
    verbose_name = "Hourhand"
