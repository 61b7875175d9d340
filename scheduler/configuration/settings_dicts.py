"""The groups of settings as dictionaries, as type checkers and editors read them.

Decides nothing and is never imported where programs run.  Written by ``make docs`` from the
models, with what they also take: a ``str`` for a path or a secret, a list for a tuple.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict

from pydantic import SecretStr

from hourhand.actors.model.values.settings import (
    ExecutionSettings,
    RecoverySettings,
    WatermarkSettings,
    WindowSettings,
)
from hourhand.scheduler.configuration.security import OAuthSettings, TlsSettings


class TopicSettingsDict(TypedDict, total=False):
    """The log's topics; with the embedded log only ``partitions`` matters."""

    name: str
    dead_letter: str
    partitions: int
    replication: int


class GroupSettingsDict(TypedDict, total=False):
    """Membership in the consumer group, and the lease that follows from it."""

    id: str
    protocol: Literal["classic", "consumer"]
    assignor: Literal["cooperative-sticky", "range", "roundrobin"]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    lease_margin_ms: int
    commit_interval_ms: int


class TlsSettingsDict(TypedDict, total=False):
    """Encryption; the server's certificate and its name are always verified."""

    enabled: bool
    ca_file: Path | str | None
    certificate_file: Path | str | None
    key_file: Path | str | None
    key_password: SecretStr | str | None
    key_password_file: Path | str | None


class OAuthSettingsDict(TypedDict, total=False):
    """Logins with a token that expires (OAUTHBEARER), for Kafka."""

    provider: str | None
    region: str | None
    client_id: str | None
    client_secret: SecretStr | str | None
    client_secret_file: Path | str | None
    endpoint: str | None
    scope: str | None
    extensions: Mapping[str, str]
    ca_file: Path | str | None


class KafkaSettingsDict(TypedDict, total=False):
    """Connections to the Kafka brokers."""

    username: str | None
    password: SecretStr | str | None
    password_file: Path | str | None
    tls: TlsSettings | TlsSettingsDict
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    oauth: OAuthSettings | OAuthSettingsDict
    bootstrap_servers: str
    connect_timeout_ms: int
    delivery_timeout_ms: int
    consumer_properties: Mapping[str, str]
    producer_properties: Mapping[str, str]
    security_properties: Mapping[str, SecretStr | str]


class CassandraSettingsDict(TypedDict, total=False):
    """Connections to Cassandra."""

    username: str | None
    password: SecretStr | str | None
    password_file: Path | str | None
    tls: TlsSettings | TlsSettingsDict
    contact_points: list[str] | tuple[str, ...]
    port: int
    keyspace: str
    datacenter: str | None
    replication: Mapping[str, int]
    consistency: Literal["LOCAL_QUORUM", "QUORUM", "EACH_QUORUM", "LOCAL_ONE", "ONE"]
    connect_timeout_ms: int
    request_timeout_ms: int
    batch_bytes: int
    completion_segments: Literal["auto", "on", "off"]


class EmbeddedSettingsDict(TypedDict, total=False):
    """The folder of the embedded log and store."""

    folder: Path | str
    completion_segments: bool


class ClientSettingsDict(TypedDict, total=False):
    """Limits for the calls of a client."""

    grace_ms: int
    record_bytes_max: int
    bulk_in_flight_max: int


class RelaySettingsDict(TypedDict, total=False):
    """Messages that are passed on at their own time."""

    in_topic: str
    out_topic: str
    target_topics: list[str] | tuple[str, ...]
    group_id: str
    id_header: str
    deadline_header: str
    action_header: str
    topic_header: str
    malformed: Literal["dead_letter", "drop"]
    timing_advance_ms: int
    inline_bytes_max: int
    in_flight_max: int


class OutboxSettingsDict(TypedDict, total=False):
    """Tasks scheduled in a transaction of your database (docs/guides/outbox.md)."""

    url: SecretStr | str | None
    table: str
    batch_rows_max: int
    poll_ms: int


class BucketSettingsDict(TypedDict, total=False):
    """Storage of the relay and `send_later` with Kafka alone: `store` = "kafka"."""

    topic: str
    group_id: str
    first_ms: int
    factor: float
    partitions: int
    first_partitions: int
    longest_delay_ms: int
    outage_ms: int
    split_records_max: int
    split_check_ms: int
    partitions_max: int
    held_records_max: int
    held_bytes_max: int
    batch_records_max: int
    batch_bytes_max: int
    transaction_timeout_ms: int


class TimerSettingsDict(TypedDict, total=False):
    """The HTTP timer service, and its callbacks."""

    host: str
    host_names: list[str] | tuple[str, ...]
    certificate_file: Path | str | None
    key_file: Path | str | None
    connections_max: int
    port: int
    read_tokens: list[SecretStr | str] | tuple[SecretStr | str, ...]
    write_tokens: list[SecretStr | str] | tuple[SecretStr | str, ...]
    request_bytes_max: int
    requests_per_s_max: int
    requests_burst: int
    callback_targets: list[str] | tuple[str, ...]
    callback_timeout_ms: int
    callback_answer_bytes_max: int
    callback_retry_ms: int
    callback_tries_max: int
    signing_key: SecretStr | str | None


class AdminSettingsDict(TypedDict, total=False):
    """The admin API and the dashboard."""

    host: str
    host_names: list[str] | tuple[str, ...]
    certificate_file: Path | str | None
    key_file: Path | str | None
    connections_max: int
    port: int
    read_tokens: Mapping[str, SecretStr | str]
    write_tokens: Mapping[str, SecretStr | str]
    show_data: bool
    request_bytes_max: int
    requests_per_s_max: int
    requests_burst: int
    streams_max: int
    bulk_keys_max: int
    audit_kept_days: int
    report_interval_ms: int


class EventSettingsDict(TypedDict, total=False):
    """Lifecycle events of tasks, in a Kafka topic (docs/pipeline.md)."""

    topic: str | None
    partitions: int


class OutcomeSettingsDict(TypedDict, total=False):
    """One record for each closed task (docs/guides/outcomes.md)."""

    topic: str | None
    partitions: int
    kept_ms: int


class ObserveSettingsDict(TypedDict, total=False):
    """Metrics, health, traces, log and self-check of a node."""

    host: str
    port: int | None
    metrics: bool
    traces: bool
    trace_link_after_ms: int
    trace_messaging: bool
    hang_ms: int
    log_format: Literal["text", "json"]
    log_task_data: bool
    self_check_share: float


class WindowSettingsDict(TypedDict, total=False):
    """The part of the schedule that a partition keeps in memory."""

    look_ahead_ms: int
    prefetch_ms: int
    tick_ms: int
    page_tasks: int
    tasks_max: int
    executing_tasks_max: int
    ordering_queue_tasks_max: int
    slow_attempt_ms: int
    memory_bytes_max: int | None
    completions_max: int
    clock_check_ms: int


class WatermarkSettingsDict(TypedDict, total=False):
    """Movement of the durable watermark, and deletion behind it."""

    interval_ms: int
    lag_ms: int
    stragglers_max: int
    completion_retention_ms: int
    failed_retention_ms: int
    result_retention_ms: int


class ExecutionSettingsDict(TypedDict, total=False):
    """Running of user code on a node."""

    workers: int
    async_attempts_max: int
    timeout_ms: int | None
    stuck_after_ms: int | None
    row_bytes_max: int
    lease_retry_ms: int
    run_in: Literal["thread", "process"]
    processes: int | None
    process_niceness: int
    kill_grace_ms: int
    tasks_per_process_max: int | None
    memory_bytes_per_process_max: int | None
    lend_limits: bool


class RecoverySettingsDict(TypedDict, total=False):
    """A node's reaction to failures and changes of ownership."""

    catch_up_deadline_ms: int
    drain_deadline_ms: int
    persist_deadline_ms: int
    rebuild_pause_min_ms: int
    rebuild_pause_max_ms: int


class TreeSettingsDict(TypedDict, total=False):
    """All settings of the actor tree."""

    window: WindowSettings | WindowSettingsDict
    watermark: WatermarkSettings | WatermarkSettingsDict
    execution: ExecutionSettings | ExecutionSettingsDict
    recovery: RecoverySettings | RecoverySettingsDict
