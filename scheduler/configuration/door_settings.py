"""Settings of the services beside the library: relay, timers, lifecycle events, observers."""

from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from hourhand.actors.model.values.settings import Group

LOOPBACK = ("127.0.0.1", "::1", "localhost")
TOKEN_CHARS_MIN = 16
TOPIC_NAME = r"^(\.{0,2}[a-zA-Z0-9_-]|\.{3})[a-zA-Z0-9._-]*$"
"""Kafka's rule for a topic's name; neither ``.`` nor ``..`` alone."""
_ANY_TOPIC = "*"


class EventSettings(Group):
    """Lifecycle events of tasks, in a Kafka topic (docs/pipeline.md)."""

    topic: str | None = Field(default=None, pattern=TOPIC_NAME, max_length=249)
    """Topic of the events, which `hourhand migrate` creates; none: no events."""
    partitions: int = Field(default=16, ge=1, le=1_000)
    """Partitions of a new topic; any number works."""


class OutcomeSettings(Group):
    """One record for each closed task (docs/guides/outcomes.md)."""

    topic: str | None = Field(default=None, pattern=TOPIC_NAME, max_length=249)
    """Topic of the outcomes, which `hourhand migrate` creates; none: no topic."""
    partitions: int = Field(default=16, ge=1, le=1_000)
    """Partitions of a new topic; any number works."""
    kept_ms: int = Field(default=0, ge=0, le=31_536_000_000)
    """Embedded store: time for which `client.outcomes()` can read an outcome."""

    @property
    def are_told(self) -> bool:
        """True if there is a stream."""
        return self.topic is not None or self.kept_ms > 0


class ObserveSettings(Group):
    """Metrics, health, traces, log and self-check of a node."""

    host: str = Field(default="127.0.0.1", min_length=1)
    """Address of metrics and health."""
    port: int | None = Field(default=None, ge=0, le=65_535)
    """Port of /metrics, /livez, /readyz and /healthz; 0: any free one."""
    metrics: bool = False
    """True to count events without a port, too."""
    traces: bool = False
    """True to trace tasks with OpenTelemetry; needs `hourhand[otel]`."""
    trace_link_after_ms: int = Field(default=60_000, ge=0, le=86_400_000)
    """An attempt due this long after its task was stored has a trace of its own, with a link."""
    trace_messaging: bool = False
    """True to add the attributes `messaging.*` to spans."""
    hang_ms: int = Field(default=30_000, ge=100, le=3_600_000)
    """A polling thread or dispatcher without progress for this time counts as hung."""
    log_format: Literal["text", "json"] = "text"
    """Lines for people, or a JSON object a line."""
    log_task_data: bool = False
    """True to add a running task's data to its JSON lines."""
    self_check_share: float = Field(default=0.01, ge=0, le=1)
    """Share of the ordering ids that the self-check watches."""

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_pushed(cls, given: Any) -> Any:
        """Raise ValueError for settings of earlier versions, which pushed metrics."""
        gone = [
            name
            for name in ("otlp", "push_interval_ms")
            if isinstance(given, dict) and name in given
        ]
        if gone:
            raise ValueError(
                f"there is no {' and no '.join(gone)} any more, as metrics are not pushed: remove"
                " it, set observe.port, and have the collector scrape that (docs/observing.md)"
            )
        return given

    @property
    def counts(self) -> bool:
        """True if metrics may be read."""
        return self.metrics or self.port is not None


def with_events_apart(settings: Any) -> Any:
    """Return the settings; raises ValueError if events or outcomes go to a topic of tasks or
    messages, and if outcomes cannot be kept where the settings say.
    """
    read = (settings.topic.name, settings.topic.dead_letter, settings.relay.in_topic)
    for name, topic in (
        ("events", settings.events.topic),
        ("outcomes", settings.outcomes.topic),
    ):
        if topic in read:
            raise ValueError(
                f"{name}.topic is {topic!r}, which Hourhand reads tasks or messages"
                f" from, or puts them aside in: give the {name} a topic of their own"
            )
    outcomes = settings.outcomes
    if outcomes.topic is not None and outcomes.topic == settings.events.topic:
        raise ValueError(
            f"outcomes.topic and events.topic are both {outcomes.topic!r}: give each its own"
        )
    if outcomes.kept_ms and outcomes.topic is not None:
        raise ValueError("outcomes.topic and outcomes.kept_ms are both set: choose one of them")
    if outcomes.kept_ms and settings.store != "embedded":
        raise ValueError(
            f'outcomes.kept_ms needs store = "embedded", and this one is {settings.store!r}: set'
            " outcomes.topic, and read that"
        )
    return settings


class RelaySettings(Group):
    """Messages that are passed on at their own time."""

    in_topic: str = Field(default="hourhand-relay-in", pattern=TOPIC_NAME, max_length=249)
    """Topic from which `hourhand relay` reads messages."""
    out_topic: str = Field(default="hourhand-relay-out", pattern=TOPIC_NAME, max_length=249)
    """Topic for messages that name no other topic."""
    target_topics: tuple[str, ...] = ()
    """Other topics that messages and `send_later` may name; `*`: all except Hourhand's own."""
    group_id: str = Field(default="hourhand-relay", min_length=1)
    """Consumer group of the in-topic."""
    id_header: str = Field(default="chronosMessageId", min_length=1)
    """Header with the id of a message."""
    deadline_header: str = Field(default="chronosDeadline", min_length=1)
    """Header with the deadline."""
    action_header: str = Field(default="hourhandAction", min_length=1)
    """Header that asks for a cancel or reschedule."""
    topic_header: str = Field(default="hourhandTopic", min_length=1)
    """Header that names the target topic."""
    malformed: Literal["dead_letter", "drop"] = "dead_letter"
    """Treatment of a message with unusable headers."""
    timing_advance_ms: int = Field(default=0, ge=0, le=60_000)
    """Messages are passed on this long before their deadline."""
    inline_bytes_max: int = Field(default=400_000, ge=0, le=700_000)
    """Larger messages are stored beside their task; `client.record_bytes_max` must be at
    least 1,024 above this, and above 100,000."""
    in_flight_max: int = Field(default=10_000, ge=1, le=1_000_000)
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
        """True if a message may go to ``topic``; never to one of the installation's own."""
        if topic in (*own_topics, self.in_topic):
            return False
        named = (self.out_topic, *self.target_topics)
        return topic in named or _ANY_TOPIC in self.target_topics

    def allows_sending(self, topic: str, own_topics: tuple[str, ...]) -> bool:
        """True if `send_later` may name a topic: any except Hourhand's own, if none are listed."""
        if not self.target_topics:
            return topic not in (*own_topics, self.in_topic)
        return self.allows_target(topic, own_topics)


class OutboxSettings(Group):
    """Tasks scheduled in a transaction of your database (docs/guides/outbox.md)."""

    url: SecretStr | None = None
    """Database from which `hourhand outbox` moves rows: `postgresql://user@host/shop` or
    `sqlite:///shop.db`."""
    table: str = Field(default="hourhand_outbox", pattern=r"^[a-z_][a-z0-9_]{0,39}$")
    """Name of the table."""
    batch_rows_max: int = Field(default=1_000, ge=1, le=10_000)
    """Rows moved together."""
    poll_ms: int = Field(default=200, ge=10, le=60_000)
    """Time between two looks at the table without a signal, as with SQLite."""


class BucketSettings(Group):
    """Storage of the relay and `send_later` with Kafka alone: `store` = "kafka"."""

    topic: str = Field(default="hourhand-pending", pattern=TOPIC_NAME, max_length=230)
    """Topic of waiting messages; `…-markers` and `…-layout` are beside it."""
    group_id: str = Field(default="hourhand-pending", min_length=1)
    """Consumer group of the owners."""
    first_ms: int = Field(default=1_000, ge=100, le=3_600_000)
    """Upper bound of the first bucket, at creation."""
    factor: float = Field(default=2.0, ge=1.1, le=100.0)
    """Each bucket reaches this many times as far as the one before, at creation."""
    partitions: int = Field(default=21, ge=2, le=200)
    """Partitions at creation; each behind the first bucket's is one bucket, the last unbounded."""
    first_partitions: int = Field(default=4, ge=1, le=100)
    """Partitions of the first bucket, at creation; best a divisor of the targets' number."""
    longest_delay_ms: int = Field(default=604_800_000, ge=1_000, le=3_153_600_000_000)
    """A longer delay is refused."""
    outage_ms: int = Field(default=86_400_000, ge=0, le=31_536_000_000)
    """Longest time without a node: the topic's retention must cover the longest delay and this."""
    split_records_max: int = Field(default=200_000, ge=0, le=1_000_000_000)
    """A bucket with more in one partition is split; 0 splits none."""
    split_check_ms: int = Field(default=10_000, ge=100, le=3_600_000)
    """Time between two such checks."""
    partitions_max: int = Field(default=64, ge=2, le=1_000)
    """Partitions from which on no bucket is split."""
    held_records_max: int = Field(default=50_000, ge=100, le=10_000_000)
    """Records of one partition in its owner's memory."""
    held_bytes_max: int = Field(default=64_000_000, ge=1_000_000, le=10_000_000_000)
    """Bytes of one partition in its owner's memory."""
    batch_records_max: int = Field(default=5_000, ge=1, le=100_000)
    """Records of one transaction."""
    batch_bytes_max: int = Field(default=4_000_000, ge=10_000, le=100_000_000)
    """Bytes of one transaction."""
    transaction_timeout_ms: int = Field(default=10_000, ge=1_000, le=900_000)
    """The broker ends a dead owner's transaction after this."""

    @model_validator(mode="after")
    def _has_two_buckets(self) -> "BucketSettings":
        if self.first_partitions >= self.partitions:
            raise ValueError(
                f"first_partitions is {self.first_partitions} and partitions {self.partitions}:"
                " the first bucket takes all; lower first_partitions or raise partitions"
            )
        return self

    @property
    def marker_topic(self) -> str:
        """The topic in which owners record their progress."""
        return f"{self.topic}-markers"

    @property
    def layout_topic(self) -> str:
        """The topic in which the bounds of the buckets are published."""
        return f"{self.topic}-layout"

    @property
    def own_topics(self) -> tuple[str, ...]:
        """All three topics: no message may name one."""
        return self.topic, self.marker_topic, self.layout_topic


class HttpDoorSettings(Group):
    """Settings that the HTTP services share."""

    host: str = Field(default="127.0.0.1", min_length=1)
    """Address for requests; others than loopback need tokens."""
    host_names: tuple[str, ...] = ()
    """Further allowed names of the host if no tokens are set."""
    certificate_file: Path | None = None
    """Certificate in PEM, with its chain, for TLS."""
    key_file: Path | None = None
    """Private key in PEM of `certificate_file`."""
    connections_max: int = Field(default=1_000, ge=10, le=100_000)
    """Connections above which requests get a 503."""

    @field_validator("read_tokens", "write_tokens", check_fields=False)
    @classmethod
    def _cannot_be_guessed(cls, tokens: Any) -> Any:
        named = tokens if isinstance(tokens, dict) else dict(enumerate(tokens, 1))
        for name, token in named.items():
            fault = token_fault(token)
            if fault is not None:
                raise ValueError(f"the token {str(name)[:40]!r} {fault}")
        return tokens

    @model_validator(mode="after")
    def _has_a_whole_key_pair(self) -> Self:
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file belong together")
        return self


class TimerSettings(HttpDoorSettings):
    """The HTTP timer service, and its callbacks."""

    port: int = Field(default=7253, ge=0, le=65_535)
    """Port for requests; 0: any free one."""
    read_tokens: tuple[SecretStr, ...] = ()
    """Bearer tokens that may read, of 16 characters or more."""
    write_tokens: tuple[SecretStr, ...] = ()
    """Bearer tokens that may do everything."""
    request_bytes_max: int = Field(default=200_000, ge=1_000, le=700_000)
    """Longest body of a request."""
    requests_per_s_max: int = Field(default=5_000, ge=0, le=1_000_000)
    """Limit for each token, or address without one; more get a 503; 0: no limit."""
    requests_burst: int = Field(default=1_000, ge=1, le=1_000_000)
    """Most requests at once."""
    callback_targets: tuple[str, ...] = ("localhost", "127.0.0.0/8", "::1/128")
    """Host names and networks that callbacks may go to; `*`: all."""
    callback_timeout_ms: int = Field(default=2_000, ge=10, le=60_000)
    """Longest time of one callback."""
    callback_answer_bytes_max: int = Field(default=65_536, ge=0, le=10_000_000)
    """A longer answer counts as a failure."""
    callback_retry_ms: int = Field(default=2_000, ge=10, le=3_600_000)
    """Pause before a failed callback is tried again."""
    callback_tries_max: int = Field(default=30, ge=1, le=1_000_000)
    """Failures after which a callback is given up; the timer goes on with its next one."""
    signing_key: SecretStr | None = None
    """Key that signs callbacks (docs/timers.md)."""

    @field_validator("callback_targets")
    @classmethod
    def _are_hosts_or_networks(cls, targets: tuple[str, ...]) -> tuple[str, ...]:
        for target in targets:
            if "/" in target:
                ip_network(target)
        return targets

    @model_validator(mode="after")
    def _is_safe(self) -> "TimerSettings":
        if self.host not in LOOPBACK and not self.write_tokens:
            raise ValueError(
                f"host {self.host!r} is open to other machines: set write_tokens, or let a proxy"
                " that asks for a login reach 127.0.0.1"
            )
        if self.signing_key is not None and not self.signing_key.get_secret_value():
            raise ValueError(
                "signing_key is empty, so anybody could sign: set a key, or leave it out"
            )
        return self


class AdminSettings(HttpDoorSettings):
    """The admin API and the dashboard."""

    port: int = Field(default=7254, ge=0, le=65_535)
    """Port for requests; 0: any free one."""
    read_tokens: dict[str, SecretStr] = Field(default_factory=dict)
    """Names of those that may read, each with a bearer token of 16 characters or more."""
    write_tokens: dict[str, SecretStr] = Field(default_factory=dict)
    """Those that may also act; the audit log keeps the name."""
    show_data: bool = True
    """True to show the data of tasks and dead letters."""
    request_bytes_max: int = Field(default=400_000, ge=1_000, le=10_000_000)
    """Longest body of a request."""
    requests_per_s_max: int = Field(default=200, ge=0, le=1_000_000)
    """Limit for each token, or address without one; more get a 429; 0: no limit."""
    requests_burst: int = Field(default=400, ge=1, le=1_000_000)
    """Most requests at once."""
    streams_max: int = Field(default=100, ge=1, le=10_000)
    """Event streams open at a time."""
    bulk_keys_max: int = Field(default=10_000, ge=1, le=1_000_000)
    """Tasks that one action may concern."""
    audit_kept_days: int = Field(default=400, ge=1, le=7_000)
    """Days that the audit log keeps."""
    report_interval_ms: int = Field(default=1_000, ge=100, le=60_000)
    """Time between two reports of a node, and two checks for pauses."""

    @model_validator(mode="after")
    def _is_safe(self) -> "AdminSettings":
        if self.host not in LOOPBACK and not self.write_tokens and not self.read_tokens:
            raise ValueError(
                f"host {self.host!r} is open to other machines: set write_tokens or read_tokens,"
                " or let a proxy that asks for a login reach 127.0.0.1"
            )
        return self


def token_fault(token: SecretStr) -> str | None:
    """Return the reason why a token is too easy to guess; None for a good one.

    An empty token, which templates make of an unset variable, would admit everybody.
    """
    text = token.get_secret_value()
    if len(text) >= TOKEN_CHARS_MIN and text.isascii() and text.isprintable():
        return None
    return (
        f"needs {TOKEN_CHARS_MIN} printable ASCII characters or more, as `openssl rand -hex 16`"
        f" makes, and has {len(text)} characters"
    )
