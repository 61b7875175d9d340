"""Whether the brokers' session is as long as a lease under the consumer protocol assumes.

Asked once, as a member joins; it changes nothing on the brokers.
"""

import logging

from confluent_kafka.admin import AdminClient, ConfigResource

from actors.model.errors import SettingsInvalid
from scheduler.adapters.kafka.connection import LastError, answer_within
from scheduler.configuration.settings import Settings

logger = logging.getLogger("hourhand.kafka")

SESSION_NAME = "consumer.session.timeout.ms"


def check_session(settings: Settings, admin: AdminClient, last_error: LastError) -> None:
    """Raise SettingsInvalid where a lease would outlive a membership (P3), or LogUnavailable."""
    group = settings.group
    session_ms = broker_session_ms(settings, admin, last_error)
    if session_ms < group.session_timeout_ms:
        raise SettingsInvalid(
            f"group.session_timeout_ms is {group.session_timeout_ms}, and the brokers give up a"
            f" member of group {group.id!r} after {session_ms} ms: set it to {session_ms} or less,"
            f" or raise the group's {SESSION_NAME} on the brokers"
        )
    if session_ms > group.session_timeout_ms:
        logger.warning(
            "the partitions of a killed node wait %s ms, which is the %s of group %r on the brokers"
            " and longer than group.session_timeout_ms %s",
            session_ms,
            SESSION_NAME,
            group.id,
            group.session_timeout_ms,
        )


def broker_session_ms(settings: Settings, admin: AdminClient, last_error: LastError) -> int:
    """Return after how much silence the brokers give up a member of the group."""
    asked = ConfigResource(ConfigResource.Type.GROUP, settings.group.id)
    timeout_s = settings.kafka.connect_timeout_ms / 1000
    future = admin.describe_configs([asked], request_timeout=timeout_s)[asked]
    what = f"asking for the session timeout of group {settings.group.id!r}"
    found = answer_within(future, settings, admin, last_error, what)
    return int(found[SESSION_NAME].value)
