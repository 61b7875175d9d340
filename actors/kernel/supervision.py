"""One rule of supervision: whatever fails, the whole tree goes, and its owner is told.

Restarting one actor would leave the others with assumptions about state that is gone.  The
store is the only truth, so the tree is thrown away and rebuilt from it.
"""

import logging
from collections.abc import Callable

from hourhand.actors.kernel.context import ActorContext, RequestFailed, Resume, Signal, Start, Stop
from hourhand.actors.model.values.display import log_raised

logger = logging.getLogger("hourhand.kernel")

FailureListener = Callable[[BaseException], None]


def deliver(context: ActorContext, message: object, on_failure: FailureListener) -> None:
    """Let an actor handle one message; tear its tree down where that raises."""
    try:
        if isinstance(message, Signal):
            _obey(context, message)
        else:
            # A retired actor's drops everything.
            context.receive(context.actor, message)
    except Exception as error:  # noqa: BLE001 - it is logged
        log_raised(logger, "%s failed on %s", context.path, type(message).__name__)
        fail_tree(root_of(context), error, on_failure)


def fail_tree(root: ActorContext, error: BaseException, on_failure: FailureListener) -> None:
    """Stop a tree, and tell its owner, unless that asked for its end or was told before."""
    assert root.parent is None, "a tree fails as a whole"
    if root.alive:
        stop_tree(root)
        if not root.condemned:
            on_failure(error)


def _obey(context: ActorContext, signal: Signal) -> None:
    match signal:
        case _ if not context.alive:
            pass
        case Start():
            type(context.actor).on_start(context.actor)
        case Stop():
            stop_tree(context)
        case Resume():
            signal.run()
        case RequestFailed(error=error):
            if isinstance(error, Exception):
                raise error
            raise RuntimeError(f"{type(error).__name__} came instead of an answer") from error
        case _:
            raise AssertionError(f"{signal!r} is not a signal")


def root_of(context: ActorContext) -> ActorContext:
    """Return the context at the top of an actor's tree."""
    while context.parent is not None:
        context = context.parent
    return context


def stop_tree(context: ActorContext) -> None:
    """Stop an actor and all below it, children first; later messages to them are dropped."""
    if not context.alive:
        return
    context.alive = False
    if context.children:
        for child in tuple(context.children):
            stop_tree(child)
    context.children = None
    if context.parent is not None and context.parent.children is not None:
        context.parent.children.pop(context, None)
    try:
        type(context.actor).on_stop(context.actor)
    except BaseException:  # noqa: BLE001 - it is logged
        # A tree that is going away must go away; what one actor could not let go of is
        # reported and dies with the node at the latest.
        log_raised(logger, "%s failed to stop", context.path)
    context.retire()
