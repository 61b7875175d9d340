"""The application for Django: its name, and a unique label."""

from django.apps import AppConfig


class OutboxApplication(AppConfig):
    """The application; Django finds it by itself."""

    name = "hourhand.outbox.django"
    label = "hourhand_outbox"
    verbose_name = "Hourhand's outbox"
