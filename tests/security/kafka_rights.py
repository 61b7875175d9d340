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

NODE_RIGHTS: Rights = {
    "topic": ("READ", "WRITE", "DESCRIBE_CONFIGS"),
    "dead_letter": ("WRITE",),
    "group": ("READ",),
}
CLIENT_RIGHTS: Rights = {"topic": ("WRITE",)}
MIGRATE_RIGHTS: Rights = {"topic": ("CREATE", "DESCRIBE"), "dead_letter": ("CREATE", "DESCRIBE")}


def grant(bootstrap: str, user: str, name: str, rights: Rights) -> None:
    """Grant rights on the topic, dead-letter topic and group that are called after ``name``."""
    resources = {
        "topic": (ResourceType.TOPIC, name),
        "dead_letter": (ResourceType.TOPIC, f"{name}-dead-letter"),
        "group": (ResourceType.GROUP, name),
    }
    admin = AdminClient({"bootstrap.servers": bootstrap})
    _settled(
        admin.create_acls(
            [
                AclBinding(
                    *resources[resource],
                    ResourcePatternType.LITERAL,
                    f"User:{user}",
                    "*",
                    AclOperation[operation],
                    AclPermissionType.ALLOW,
                )
                for resource, operations in rights.items()
                for operation in operations
            ]
        )
    )


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
