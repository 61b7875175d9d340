"""The data pipeline for programs with a Spark session of their own.

::

    from hourhand.pipeline import open_session

    tasks = open_session("look").read.format("hourhand").load()

Decides nothing: the pipeline is in ``scheduler/pipeline/``.  It needs the extra ``spark``.
"""

from hourhand.scheduler.pipeline.follow import events_of
from hourhand.scheduler.pipeline.session import open_session, register
from hourhand.scheduler.pipeline.transform_load import by_bucket

__all__ = ["by_bucket", "events_of", "open_session", "register"]
