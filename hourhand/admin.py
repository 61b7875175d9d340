"""The admin API as an application of FastAPI: ``from hourhand.admin import create_app``.

Decides nothing: the application is in ``scheduler/admin/``.  It needs the extra ``http``.
"""

from hourhand.scheduler.admin.app import create_app

__all__ = ["create_app"]
