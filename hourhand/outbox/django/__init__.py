"""The outbox's table as an application of Django: ``INSTALLED_APPS = ["hourhand.outbox.django"]``.

It has a migration and no models: rows are written by ``hourhand.outbox`` and moved by its mover.
"""
