"""``hourhand``: the command line, put together from its commands.

Decides names, groups and order only; each command lives with others of its kind.
"""

from typing import Annotated

import typer

from hourhand.scheduler.cli import (
    cluster_commands,
    dev_commands,
    letter_commands,
    limits_commands,
    listing_commands,
    node_commands,
    operator_commands,
    outbox_commands,
    pipeline_commands,
    recurring_commands,
    relay_commands,
    sql_commands,
    task_commands,
    timers_commands,
    trouble_commands,
)
from hourhand.scheduler.cli.session import Commands

app = Commands(
    name="hourhand",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help=(
        "Runs your code at the time you choose, in order for each ordering id.\n\n"
        "Without any settings, everything is kept in the folder hourhand-data; see"
        " `hourhand settings`.\n\n"
        "\b\n"
        "Start with:\n"
        "  hourhand demo\n"
        "  hourhand init\n"
        "  hourhand dev\n"
        "  hourhand schedule --kind say-hello --ordering-id greetings --in 10s"
        ' --data \'{"name": "Ada"}\'\n\n'
        "\b\n"
        "Which command when:\n"
        "  cancel        a task must not run; scheduling its key again opens it again\n"
        "  drop          a task must never run; what waits behind it goes on\n"
        "  unblock       an ordering id is blocked: retry or drop the task that blocks it\n"
        "  retry         a task failed, was dropped or blocks, and the cause is fixed\n"
        "  run-now       a task waits for a later time, and is needed now\n"
        "  resume        what was paused shall go on\n"
        "  dead-letters  --replay: what lies in the dead-letter topic shall be tried again\n"
        "  rewind        the store lost rows: read the log again\n\n"
        "\b\n"
        "Exit codes:\n"
        "  0  done\n"
        "  1  a bug in Hourhand; also a demo or an audit that found something wrong\n"
        "  2  the request cannot be carried out: wrong usage, refused, or an unknown name or key\n"
        "  3  the installation is not ready: a setting, a server, or a node that is not healthy\n"
        "  4  the command was sent, and no node has decided it yet\n"
        "  130  interrupted"
    ),
)

NODES, TASKS = "Run a node", "Tasks"
TROUBLE, CLUSTER, SERVICES = "When something is stuck", "The whole cluster", "More"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(node_commands.version_line())
        raise typer.Exit


@app.callback()
def hourhand(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that come before a command."""


for panel, name, function in (
    (NODES, "init", dev_commands.init),
    (NODES, "dev", dev_commands.dev),
    (NODES, "demo", node_commands.demo),
    (NODES, "run", node_commands.run),
    (NODES, "migrate", node_commands.migrate),
    (NODES, "health", node_commands.health),
    (NODES, "settings", node_commands.show_settings),
    (NODES, "version", node_commands.version),
    (TASKS, "schedule", task_commands.schedule),
    (TASKS, "list", listing_commands.list_tasks),
    (TASKS, "show", listing_commands.show),
    (TASKS, "cancel", task_commands.cancel),
    (TASKS, "reschedule", task_commands.reschedule),
    (TASKS, "run-now", task_commands.run_now),
    (TASKS, "retry", task_commands.retry),
    (TASKS, "drop", task_commands.drop),
    (TASKS, "outcome", listing_commands.outcome),
    (TROUBLE, "running", trouble_commands.running),
    (TROUBLE, "limited", trouble_commands.limited),
    (TROUBLE, "blocked", trouble_commands.blocked),
    (TROUBLE, "unblock", trouble_commands.unblock),
    (TROUBLE, "waiting", trouble_commands.waiting),
    (TROUBLE, "pause", operator_commands.pause),
    (TROUBLE, "resume", operator_commands.resume),
    (TROUBLE, "dead-letters", letter_commands.dead_letters),
    (TROUBLE, "rewind", operator_commands.rewind),
    (CLUSTER, "admin", cluster_commands.admin),
    (CLUSTER, "top", cluster_commands.top),
    (CLUSTER, "nodes", cluster_commands.nodes),
    (CLUSTER, "ahead", cluster_commands.ahead),
    (CLUSTER, "buckets", cluster_commands.buckets),
    (CLUSTER, "audit-log", cluster_commands.audit_log),
    (CLUSTER, "sql", sql_commands.sql),
    (CLUSTER, "mcp", cluster_commands.mcp),
):
    app.command(name, rich_help_panel=panel)(function)

app.command("tasks", hidden=True)(listing_commands.tasks)

for name, commands in (
    ("limits", limits_commands.app),
    ("recurring", recurring_commands.app),
    ("outbox", outbox_commands.app),
    ("relay", relay_commands.app),
    ("timers", timers_commands.app),
    ("pipeline", pipeline_commands.app),
):
    app.add_typer(commands, name=name, rich_help_panel=SERVICES)
