"""Users of a broker and the rights each holds, exactly those that docs/security.md lists."""

from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

WAIT_S = 30.0

Rights = dict[str, tuple[str, ...]]
"""What of an installation, to the operations allowed on it."""

MESSAGE_PARTS = ("in", "out", "pending", "markers", "layout", "dead_letter", "groups", "ids")
"""Columns of what the relay and Kafka alone need, as docs/security.md has them."""

NODE_RIGHTS: Rights = {
    "topic": ("READ", "WRITE", "DESCRIBE_CONFIGS"),
    "dead_letter": ("WRITE",),
    "group": ("READ",),
}
CLIENT_RIGHTS: Rights = {"topic": ("WRITE",)}
MIGRATE_RIGHTS: Rights = {"topic": ("CREATE", "DESCRIBE"), "dead_letter": ("CREATE", "DESCRIBE")}

RELAY_RIGHTS: Rights = {"in": ("READ",), "out": ("WRITE",), "groups": ("READ",)}
"""Beside those of a node."""
_KEPT = ("READ", "WRITE", "DESCRIBE_CONFIGS")
BUCKET_NODE_RIGHTS: Rights = {
    "in": ("READ",),
    "out": ("WRITE",),
    "pending": (*_KEPT, "ALTER"),
    "markers": (*_KEPT, "ALTER"),
    "layout": _KEPT,
    "dead_letter": ("WRITE",),
    "groups": ("READ",),
    "ids": ("WRITE",),
}
BUCKET_CLIENT_RIGHTS: Rights = {
    "pending": ("WRITE", "DESCRIBE_CONFIGS"),
    "markers": ("DESCRIBE", "DESCRIBE_CONFIGS"),
    "layout": ("READ", "DESCRIBE_CONFIGS"),
}
_MADE = ("CREATE", "DESCRIBE")
BUCKET_MIGRATE_RIGHTS: Rights = {
    "in": _MADE,
    "out": _MADE,
    "pending": _MADE,
    "markers": _MADE,
    "layout": (*_MADE, "WRITE"),
    "dead_letter": _MADE,
}


def grant(bootstrap: str, user: str, name: str, rights: Rights) -> None:
    """Grant rights on the topics, groups and ids that are called after ``name``."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    _settled(
        admin.create_acls(
            [
                AclBinding(
                    *resource,
                    f"User:{user}",
                    "*",
                    AclOperation[operation],
                    AclPermissionType.ALLOW,
                )
                for part, operations in rights.items()
                for resource in _resources(part, name)
                for operation in operations
            ]
        )
    )


def _resources(part: str, name: str) -> list[tuple[ResourceType, str, ResourcePatternType]]:
    topics = {
        "topic": name,
        "dead_letter": f"{name}-dead-letter",
        "in": f"{name}-in",
        "out": f"{name}-out",
        "pending": f"{name}-pending",
        "markers": f"{name}-pending-markers",
        "layout": f"{name}-pending-layout",
    }
    if part in topics:
        return [(ResourceType.TOPIC, topics[part], ResourcePatternType.LITERAL)]
    if part == "group":
        return [(ResourceType.GROUP, name, ResourcePatternType.LITERAL)]
    both = (f"{name}-pending", f"{name}-in")
    if part == "groups":
        return [(ResourceType.GROUP, each, ResourcePatternType.LITERAL) for each in both]
    # Of each partition an id of its own, which begins with the name of the group.
    return [(ResourceType.TRANSACTIONAL_ID, each, ResourcePatternType.PREFIXED) for each in both]


def make_scram_user(bootstrap: str, user: str, password: str) -> None:
    """Make a user that logs in with SCRAM-SHA-512."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    _settled(
        admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion(
                    user,
                    ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096),
                    password.encode(),
                )
            ]
        )
    )


def _settled(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(WAIT_S)
