"""A notebook in plain Python: look into a scheduler with Spark, cell by cell.

Each ``# %%`` begins a cell for Jupyter, VS Code and PyCharm; or run it as a whole:
``python examples/pipeline_notebook.py``.  It writes three tasks and reads what is there.
"""

# %% Where the installation is; a notebook runner may set FOLDER before.
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from hourhand.pipeline import open_session

FOLDER = globals().get("FOLDER", "hourhand-data")
OPTIONS = {"embedded.folder": FOLDER}

spark = open_session("notebook")


def table(name: str) -> DataFrame:
    """Return a table of the installation."""
    return spark.read.format("hourhand").options(table=name, **OPTIONS).load()


# %% Three reminders for tomorrow, from a DataFrame like any other.
tomorrow = datetime.now(UTC) + timedelta(days=1)
reminders = spark.createDataFrame(
    [(tomorrow + timedelta(minutes=n), f"customer-{n}", "reminder") for n in range(3)],
    "scheduled_time timestamp, ordering_id string, uniqueness_key string",
).withColumn("data", f.to_json(f.struct(f.lit("call them").alias("text"))))

reminders.write.format("hourhand").mode("append").options(**OPTIONS).save()

# %% What waits, by hour: only buckets from now on are opened.
ahead = (
    table("states")
    .where((f.col("state") == "pending") & (f.col("scheduled_time") > f.current_timestamp()))
    .groupBy("hour")
    .count()
    .orderBy("hour")
)
ahead.show()

# %% How late tasks were, of the ten busiest ordering ids.
late = (
    table("statuses")
    .where("result = 'success'")
    .withColumn("late_ms", f.unix_millis("started") - f.unix_millis("scheduled_time"))
    .groupBy("ordering_id")
    .agg(f.count("*").alias("tasks"), f.percentile_approx("late_ms", 0.95).alias("p95_ms"))
    .orderBy(f.desc("tasks"))
    .limit(10)
)
late.show()

# %% Why attempts failed.
table("attempts").groupBy("error_class").count().orderBy(f.desc("count")).show()
