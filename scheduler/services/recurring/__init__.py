"""Tasks that repeat, by cron expression or interval."""
