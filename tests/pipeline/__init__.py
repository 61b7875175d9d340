"""The data pipeline on a real Spark, beside real stores."""
