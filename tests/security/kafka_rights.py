"""Users of a broker and the rights each holds, exactly those that docs/security.md lists.

The controller answers before the broker knows: what returns here is true for clients, too.
"""

from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.security.authority import Authority
from tests.servers.kafka import KafkaServer
from tests.waiting import until

WAIT_S = 60.0
_LOGIN_S = 5.0
"""Seconds of silence that show a refused login, as the driver tries again."""

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
    admin, principal = AdminClient({"bootstrap.servers": bootstrap}), f"User:{user}"
    granted = {
        AclBinding(*resource, principal, "*", AclOperation[each], AclPermissionType.ALLOW)
        for part, operations in rights.items()
        for resource in _resources(part, name)
        for each in operations
    }
    _settled(admin.create_acls(list(granted)))
    # This question is answered by the broker's authorizer, which is asked of clients as well.
    until(lambda: granted <= _rights_of(admin, principal), f"{user} was not granted {rights}")


def _rights_of(admin: AdminClient, principal: str) -> set[AclBinding]:
    whatever: Any = None
    asked = AclBindingFilter(
        ResourceType.ANY,
        whatever,
        ResourcePatternType.ANY,
        principal,
        whatever,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    return set(admin.describe_acls(asked).result(WAIT_S))


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


def make_scram_user(kafka: KafkaServer, authority: Authority, user: str, password: str) -> None:
    """Make a user that logs in with SCRAM-SHA-512, at the listener SASL."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
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
    login: dict[str, Any] = {
        "bootstrap.servers": kafka.address("SASL"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.ca_file),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }
    until(lambda: _is_let_in(AdminClient(login)), f"{user} cannot log in")


def _is_let_in(user: AdminClient) -> bool:
    try:
        user.list_topics(timeout=_LOGIN_S)
    except KafkaException:
        return False
    return True


def _settled(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(WAIT_S)
