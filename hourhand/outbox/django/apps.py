"""What Django asks an application for: its name, and a label that no other has."""

from django.apps import AppConfig


class OutboxApplication(AppConfig):
    """The application; Django finds it by itself."""

    name = "hourhand.outbox.django"
    label = "hourhand_outbox"
    verbose_name = "Hourhand's outbox"
