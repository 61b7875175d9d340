"""``hourhand``: the command line, put together from its commands.

Decides names and order only; each command lives with others of its kind.
"""

from scheduler.cli import (
    admin_commands,
    bulk_commands,
    cluster_commands,
    health_commands,
    node_commands,
    operator_commands,
    pipeline_commands,
    reading_commands,
    recurring_commands,
    relay_commands,
    task_commands,
    timers_commands,
    trouble_commands,
)
from scheduler.cli.session import Commands

app = Commands(
    name="hourhand",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help=(
        "Runs your code at the time you choose, in order for each ordering id.\n\n"
        "Without any settings, everything is kept in the folder hourhand-data; see"
        " `hourhand settings`.\n\n"
        "\b\n"
        "Start with:\n"
        "  hourhand demo\n"
        "  hourhand run --executor invoices:SendInvoice\n"
        "  hourhand schedule --ordering-id customer-7 --in 10s --data '{\"invoice\": 42}'\n\n"
        "Exit codes: 2 what was asked cannot be done, 3 the installation is not as it must be,"
        " 1 a bug."
    ),
)

app.command()(node_commands.run)
app.command()(task_commands.schedule)
app.command()(task_commands.cancel)
app.command()(task_commands.reschedule)
app.command("run-now")(task_commands.run_now)
app.command()(task_commands.drop)
app.command()(task_commands.retry)
app.command()(reading_commands.show)
app.command("list")(reading_commands.list_tasks)
app.command()(reading_commands.outcome)
app.add_typer(recurring_commands.app, name="recurring")
app.add_typer(relay_commands.app, name="relay")
app.add_typer(timers_commands.app, name="timers")
app.command()(admin_commands.admin)
app.command()(cluster_commands.top)
app.command()(bulk_commands.tasks)
app.command()(trouble_commands.blocked)
app.command()(trouble_commands.unblock)
app.command()(trouble_commands.waiting)
app.command()(trouble_commands.running)
app.command()(operator_commands.pause)
app.command()(operator_commands.resume)
app.command("dead-letters")(operator_commands.dead_letters)
app.command()(cluster_commands.nodes)
app.command()(cluster_commands.ahead)
app.command()(cluster_commands.buckets)
app.command()(operator_commands.rewind)
app.command("audit-log")(cluster_commands.audit_log)
app.add_typer(pipeline_commands.app, name="pipeline")
app.command()(health_commands.health)
app.command()(node_commands.migrate)
app.command()(node_commands.demo)
app.command("settings")(reading_commands.show_settings)
app.command()(reading_commands.version)
