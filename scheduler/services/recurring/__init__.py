"""Tasks that come again and again, by cron expression or interval."""
