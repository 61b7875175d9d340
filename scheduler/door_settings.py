"""Settings of the doors beside the library: the relay and the timer service."""

from ipaddress import ip_network
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from actors.model.settings import Group

TOPIC_NAME = r"^(\.{0,2}[a-zA-Z0-9_-]|\.{3})[a-zA-Z0-9._-]*$"
"""What Kafka takes for a topic's name; neither ``.`` nor ``..`` alone."""
_ANY_TOPIC = "*"


class RelaySettings(Group):
    """Messages that are passed on at a time of their own."""

    in_topic: str = Field("hourhand-relay-in", pattern=TOPIC_NAME, max_length=249)
    """Where `hourhand relay` reads messages with an id and a deadline."""
    out_topic: str = Field("hourhand-relay-out", pattern=TOPIC_NAME, max_length=249)
    """Where a message appears at its deadline, unless it names another topic."""
    target_topics: tuple[str, ...] = ()
    """Other topics that a message may name; `*` allows all but Hourhand's own. Where any are
    listed, `send_later` may name no others."""
    group_id: str = Field("hourhand-relay", min_length=1)
    """Consumer group of the in-topic."""
    id_header: str = Field("chronosMessageId", min_length=1)
    deadline_header: str = Field("chronosDeadline", min_length=1)
    action_header: str = Field("hourhandAction", min_length=1)
    topic_header: str = Field("hourhandTopic", min_length=1)
    malformed: Literal["dead_letter", "drop"] = "dead_letter"
    """What becomes of a message whose headers cannot be used; both are logged and counted."""
    timing_advance_ms: int = Field(0, ge=0, le=60_000)
    """Messages are passed on this long before their deadline."""
    inline_bytes_max: int = Field(400_000, ge=0, le=700_000)
    """A longer message is kept beside its task instead of in it."""
    in_flight_max: int = Field(10_000, ge=1, le=1_000_000)
    """Messages read and not yet durable."""

    @model_validator(mode="after")
    def _headers_differ(self) -> "RelaySettings":
        names = (self.id_header, self.deadline_header, self.action_header, self.topic_header)
        if len(set(names)) < len(names):
            raise ValueError(f"the four header names must differ, got {', '.join(names)}")
        if self.in_topic in (self.out_topic, *self.target_topics):
            raise ValueError(
                f"{self.in_topic!r} is in_topic and a target: messages would be read again"
            )
        return self

    def allows_target(self, topic: str, own_topics: tuple[str, ...]) -> bool:
        """Whether a message may go to ``topic``; never to one of the installation's own."""
        if topic in (*own_topics, self.in_topic):
            return False
        named = (self.out_topic, *self.target_topics)
        return topic in named or _ANY_TOPIC in self.target_topics

    def allows_sending(self, topic: str, own_topics: tuple[str, ...]) -> bool:
        """Whether `send_later` may name a topic: any but one's own, where none are listed."""
        if not self.target_topics:
            return topic not in (*own_topics, self.in_topic)
        return self.allows_target(topic, own_topics)


class TimerSettings(Group):
    """The HTTP timer service, and the callbacks that every node makes for it."""

    host: str = Field("127.0.0.1", min_length=1)
    """Where requests are taken; anything but loopback needs tokens."""
    port: int = Field(7253, ge=0, le=65_535)
    read_tokens: tuple[SecretStr, ...] = ()
    """Bearer tokens that may look at timers."""
    write_tokens: tuple[SecretStr, ...] = ()
    """Bearer tokens that may do everything."""
    certificate_file: Path | None = None
    key_file: Path | None = None
    """With `certificate_file`: requests are taken over TLS."""
    request_bytes_max: int = Field(200_000, ge=1_000, le=700_000)
    """Longest body of a request."""
    requests_per_s_max: int = Field(5_000, ge=0, le=1_000_000)
    """Requests above it are answered with 503; 0 takes all."""
    requests_burst: int = Field(1_000, ge=1, le=1_000_000)
    """So many may come at once."""
    callback_targets: tuple[str, ...] = ("localhost", "127.0.0.0/8", "::1/128")
    """Host names and networks that callbacks may go to; `*` allows every one."""
    callback_timeout_ms: int = Field(2_000, ge=10, le=60_000)
    callback_answer_bytes_max: int = Field(65_536, ge=0, le=10_000_000)
    """More of an answer is not read, and makes it a failure."""
    callback_retry_ms: int = Field(2_000, ge=10, le=3_600_000)
    """Pause before a failed callback is tried again."""
    callback_tries_max: int = Field(30, ge=1, le=1_000_000)
    """A callback that failed so often is given up; the timer goes on with its next one."""
    signing_key: SecretStr | None = None
    """Signs callbacks: header `X-Hourhand-Signature`, see docs/timers.md."""

    @field_validator("callback_targets")
    @classmethod
    def _are_hosts_or_networks(cls, targets: tuple[str, ...]) -> tuple[str, ...]:
        for target in targets:
            if "/" in target:
                ip_network(target)
        return targets

    @model_validator(mode="after")
    def _is_safe(self) -> "TimerSettings":
        if self.host not in _LOOPBACK and not self.write_tokens:
            raise ValueError(
                f"host {self.host!r} is reached from elsewhere: name write_tokens, or let a proxy"
                " that asks for a login reach 127.0.0.1"
            )
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file belong together")
        return self


_LOOPBACK = ("127.0.0.1", "::1", "localhost")
