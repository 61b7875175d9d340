"""Every setting, from code, environment or a TOML file, in that order of precedence.

Groups are frozen, names carry their unit, values are ranged.  Environment names are
``HOURHAND_<GROUP>__<NAME>``; the file is ``hourhand.toml`` in the working folder, or the one that
``config_file`` or else ``HOURHAND_CONFIG`` names.  Nothing here opens a connection.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from hourhand.actors.model.values.display import message_of, shown
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.actors.model.values.problem_words import problem_text
from hourhand.actors.model.values.public import public
from hourhand.actors.model.values.settings import Group, TreeSettings
from hourhand.actors.model.values.suggestion import did_you_mean
from hourhand.scheduler.configuration.door_settings import (
    TOPIC_NAME,
    AdminSettings,
    BucketSettings,
    EventSettings,
    ObserveSettings,
    OutboxSettings,
    OutcomeSettings,
    RelaySettings,
    TimerSettings,
    with_events_apart,
)
from hourhand.scheduler.configuration.security import (
    LoginSettings,
    OAuthSettings,
    TlsSettings,
    property_complaints,
)

if TYPE_CHECKING:
    from hourhand.scheduler.configuration.settings_dicts import (
        AdminSettingsDict,
        BucketSettingsDict,
        CassandraSettingsDict,
        ClientSettingsDict,
        EmbeddedSettingsDict,
        EventSettingsDict,
        GroupSettingsDict,
        KafkaSettingsDict,
        ObserveSettingsDict,
        OutboxSettingsDict,
        OutcomeSettingsDict,
        RelaySettingsDict,
        TimerSettingsDict,
        TopicSettingsDict,
        TreeSettingsDict,
    )

    _UNSET: Any = None

CONFIG_VARIABLE = "HOURHAND_CONFIG"
CONFIG_FILE = "hourhand.toml"
CACHE_VARIABLE = "HOURHAND_CACHE"
"""The folder in which ``make up`` keeps the servers that it fetched; it is not a setting."""
_HEARTBEATS_IN_SESSION = 3
"""Number of missed heartbeats after which a silent member is given up."""


class TopicSettings(Group):
    """The log's topics; with the embedded log only ``partitions`` matters."""

    name: str = Field(default="hourhand", pattern=TOPIC_NAME, max_length=240)
    """Topic of the log, one for each installation."""
    dead_letter: str = Field(default="hourhand-dead-letter", pattern=TOPIC_NAME, max_length=249)
    """Topic of dead letters."""
    partitions: int = Field(default=16, ge=1, le=1_024)
    """Partitions of a new topic or folder, then fixed."""
    replication: int = Field(default=1, ge=1, le=9)
    """Replicas of a new topic."""

    @model_validator(mode="after")
    def _letters_go_elsewhere(self) -> "TopicSettings":
        if self.name == self.dead_letter:
            raise ValueError(
                f"name and dead_letter are both {self.name!r}: a record put aside would be read"
                " again for ever; give the dead letters a topic of their own"
            )
        return self


class GroupSettings(Group):
    """Membership in the consumer group, and the lease that follows from it."""

    id: str = Field(default="hourhand", min_length=1)
    """Consumer group of the nodes."""
    protocol: Literal["classic", "consumer"] = "classic"
    """Group protocol; `consumer` is KIP-848 (Kafka 4.0), whose session in the broker must not be
    shorter than ``session_timeout_ms``."""
    assignor: Literal["cooperative-sticky", "range", "roundrobin"] = "cooperative-sticky"
    """Assignor of the classic protocol."""
    session_timeout_ms: int = Field(default=8_000, ge=1_000, le=1_800_000)
    """A node silent for this time loses its partitions; brokers refuse less than their
    ``group.min.session.timeout.ms``, 6,000."""
    heartbeat_interval_ms: int = Field(default=250, ge=50, le=600_000)
    """Time between two heartbeats."""
    max_poll_interval_ms: int = Field(default=300_000, ge=1_000, le=86_400_000)
    """A node that does not poll for this time loses its partitions."""
    lease_margin_ms: int = Field(default=1_000, ge=0, le=600_000)
    """The lease ends this much before another member could own the partitions."""
    commit_interval_ms: int = Field(default=1_000, ge=50, le=60_000)
    """Longest time between two commits of offsets; an accepted commit renews the lease. If all
    delivered records are durable, new offsets are committed 100 ms after the last ones."""

    @model_validator(mode="after")
    def _brokers_assign_under_consumer(self) -> "GroupSettings":
        if self.protocol == "consumer" and self.assignor != "cooperative-sticky":
            raise ValueError(
                f"assignor {self.assignor!r} has no effect under protocol 'consumer', where the"
                " brokers share partitions out: leave it out"
            )
        return self

    @model_validator(mode="after")
    def _heartbeats_fit_the_session(self) -> "GroupSettings":
        if _HEARTBEATS_IN_SESSION * self.heartbeat_interval_ms > self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms {self.heartbeat_interval_ms} must be at most a third of"
                f" session_timeout_ms {self.session_timeout_ms}: one that is late would end it"
            )
        return self

    @model_validator(mode="after")
    def _lease_can_be_renewed(self) -> "GroupSettings":
        if self.lease_margin_ms + 2 * self.commit_interval_ms > self.session_timeout_ms:
            raise ValueError(
                f"session_timeout_ms {self.session_timeout_ms} leaves no lease: it must be at"
                f" least lease_margin_ms {self.lease_margin_ms} plus twice commit_interval_ms"
                f" {self.commit_interval_ms}"
            )
        return self


class KafkaSettings(LoginSettings):
    """Connections to the Kafka brokers."""

    tls: TlsSettings = TlsSettings()
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """Mechanism of the login with ``username``."""
    oauth: OAuthSettings = OAuthSettings()
    bootstrap_servers: str = Field(default="localhost:9092", min_length=1)
    """Brokers to connect to first, as `host:port,host:port`."""
    connect_timeout_ms: int = Field(default=10_000, ge=100, le=600_000)
    """Longest wait for a first answer."""
    delivery_timeout_ms: int = Field(default=30_000, ge=1_000, le=3_600_000)
    """Longest wait for a record's acknowledgement."""
    consumer_properties: dict[str, str] = Field(default_factory=dict)
    """librdkafka properties of the consumer, except those that Hourhand sets."""
    producer_properties: dict[str, str] = Field(default_factory=dict)
    """The same for the producer."""
    security_properties: dict[str, SecretStr] = Field(default_factory=dict)
    """The same for both, never shown, such as ``ssl.crl.location``."""

    @model_validator(mode="after")
    def _one_login(self) -> "KafkaSettings":
        if self.username is not None and self.oauth.provider is not None:
            raise ValueError("username and oauth.provider are both set: leave one of them out")
        return self

    @model_validator(mode="after")
    def _properties_are_free(self) -> "KafkaSettings":
        in_use = {
            "tls": self.tls.enabled,
            "username": self.username is not None,
            "oauth": self.oauth.provider is not None,
        }
        complaints = [
            *property_complaints("consumer_properties", self.consumer_properties, in_use),
            *property_complaints("producer_properties", self.producer_properties, in_use),
            *property_complaints("security_properties", self.security_properties, in_use),
        ]
        if complaints:
            raise ValueError("; ".join(complaints))
        return self


class CassandraSettings(LoginSettings):
    """Connections to Cassandra."""

    tls: TlsSettings = TlsSettings()
    contact_points: tuple[str, ...] = ("127.0.0.1",)
    """Nodes to connect to first."""
    port: int = Field(default=9042, ge=1, le=65_535)
    """Port of all nodes."""
    keyspace: str = Field(default="hourhand", pattern=r"^[a-z][a-z0-9_]{0,47}$")
    """Keyspace of the tables, one for each installation."""
    datacenter: str | None = None
    """Local datacenter; by default the first contact point's."""
    replication: dict[str, int] = Field(default_factory=dict)
    """Replicas by datacenter of a new keyspace; by default one in the local datacenter."""
    consistency: Literal["LOCAL_QUORUM", "QUORUM", "EACH_QUORUM", "LOCAL_ONE", "ONE"] = (
        "LOCAL_QUORUM"
    )
    """Consistency of reads and writes; the promises need a quorum."""
    connect_timeout_ms: int = Field(default=10_000, ge=100, le=600_000)
    """Longest wait for a connection."""
    request_timeout_ms: int = Field(default=10_000, ge=100, le=600_000)
    """Longest wait for one answer."""
    batch_bytes: int = Field(default=65_536, ge=1_024, le=8_388_608)
    """Same-row batches are cut near this size."""
    completion_segments: Literal["auto", "on", "off"] = "auto"
    """Many successes of an hour are one row: once all nodes can read it, at once, or never;
    `hourhand migrate` turns such rows back."""


_NAME_BYTES_MAX = 255
_PATH_BYTES_MAX = 4_000
"""Limit for the folder's path; files in it need the rest of the 4,096 bytes that systems allow."""


class EmbeddedSettings(Group):
    """The folder of the embedded log and store."""

    folder: Path = Path("hourhand-data")
    """Folder of the files."""
    completion_segments: bool = True
    """True to store many successes of an hour as one row; false turns such rows back."""

    @field_validator("folder")
    @classmethod
    def _can_be_a_path(cls, folder: Path) -> Path:
        if "\0" in str(folder):
            raise ValueError("a path cannot hold a NUL character")
        longest_bytes = max(len(os.fsencode(part)) for part in (*folder.parts, "."))
        if longest_bytes > _NAME_BYTES_MAX or len(os.fsencode(folder)) > _PATH_BYTES_MAX:
            raise ValueError("it is longer than a path can be")
        return folder


class ClientSettings(Group):
    """Limits for the calls of a client."""

    grace_ms: int = Field(default=10_000, ge=0, le=86_400_000)
    """A task further in the past than this is refused (P11)."""
    record_bytes_max: int = Field(default=1_000_000, ge=1_000, le=100_000_000)
    """Longest encoded task; keep it below the broker's ``message.max.bytes``."""
    bulk_in_flight_max: int = Field(default=10_000, ge=1, le=1_000_000)
    """Unacknowledged records of ``schedule_tasks``."""


@public("hourhand")
class Settings(BaseSettings):
    """All settings of a node or client. The default needs no server.

    ``config_file`` is read instead of the file that the environment names. Raises SettingsInvalid
    for an unknown name, a wrong type or a value out of its range, and names the setting, the value
    and the allowed ones.
    """

    model_config = SettingsConfigDict(
        env_prefix="HOURHAND_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    log: Literal["embedded", "kafka"] = "embedded"
    """Place of accepted tasks until they are stored: a file of ``embedded.folder``, or Kafka."""
    store: Literal["embedded", "cassandra", "kafka"] = "embedded"
    """Place of waiting tasks; `kafka` holds only messages of the relay and of `send_later`."""
    topic: TopicSettings = TopicSettings()
    group: GroupSettings = GroupSettings()
    kafka: KafkaSettings = KafkaSettings()
    cassandra: CassandraSettings = CassandraSettings()
    embedded: EmbeddedSettings = EmbeddedSettings()
    client: ClientSettings = ClientSettings()
    relay: RelaySettings = RelaySettings()
    outbox: OutboxSettings = OutboxSettings()
    buckets: BucketSettings = BucketSettings()
    timers: TimerSettings = TimerSettings()
    admin: AdminSettings = AdminSettings()
    events: EventSettings = EventSettings()
    outcomes: OutcomeSettings = OutcomeSettings()
    observe: ObserveSettings = ObserveSettings()
    tree: TreeSettings = TreeSettings()
    calm_collector: bool = True
    """True to collect garbage less often in a node's process, which saves up to half its time."""

    @model_validator(mode="after")
    def _kafka_stores_for_its_own_log(self) -> "Settings":
        if self.store == "kafka" and self.log != "kafka":
            raise ValueError(f"store is 'kafka' and log is {self.log!r}: set log to 'kafka' too")
        return self

    @property
    def lends_limits(self) -> bool:
        """True if nodes lend each other the rates of limits: if several share a store."""
        return self.tree.execution.lend_limits and self.store == "cassandra"

    _events_go_elsewhere = model_validator(mode="after")(with_events_apart)

    if TYPE_CHECKING:
        # The signature for type checkers and editors: a group may be written as a dictionary.
        def __init__(
            self,
            *,
            config_file: Path | str | None = None,
            log: Literal["embedded", "kafka"] = "embedded",
            store: Literal["embedded", "cassandra", "kafka"] = "embedded",
            topic: TopicSettings | TopicSettingsDict = _UNSET,
            group: GroupSettings | GroupSettingsDict = _UNSET,
            kafka: KafkaSettings | KafkaSettingsDict = _UNSET,
            cassandra: CassandraSettings | CassandraSettingsDict = _UNSET,
            embedded: EmbeddedSettings | EmbeddedSettingsDict = _UNSET,
            client: ClientSettings | ClientSettingsDict = _UNSET,
            relay: RelaySettings | RelaySettingsDict = _UNSET,
            outbox: OutboxSettings | OutboxSettingsDict = _UNSET,
            buckets: BucketSettings | BucketSettingsDict = _UNSET,
            timers: TimerSettings | TimerSettingsDict = _UNSET,
            admin: AdminSettings | AdminSettingsDict = _UNSET,
            events: EventSettings | EventSettingsDict = _UNSET,
            outcomes: OutcomeSettings | OutcomeSettingsDict = _UNSET,
            observe: ObserveSettings | ObserveSettingsDict = _UNSET,
            tree: TreeSettings | TreeSettingsDict = _UNSET,
            calm_collector: bool = True,
        ) -> None: ...

    else:

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise SettingsInvalid(_described(error)) from None
            except SettingsError as error:
                raise SettingsInvalid(f"invalid settings: {error}: {error.__cause__}") from None
            except RecursionError:
                raise SettingsInvalid("invalid settings: a value is nested too deeply") from None
            unknown = sorted(name for name in os.environ if _is_unknown(name))
            if unknown:
                raise SettingsInvalid(_unknown_variables(unknown))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Code wins over environment, environment over the file."""
        del dotenv_settings, file_secret_settings
        assert isinstance(init_settings, InitSettingsSource), "it brings what code says"
        path, which = _chosen_file(init_settings.init_kwargs.pop("config_file", None))
        if which is not None and not is_file(path):
            raise SettingsInvalid(f"{which} {shown(str(path))}, which is not a file")
        try:
            return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, path)
        except UnicodeDecodeError as error:
            reason = f"is not UTF-8 at byte {error.start}"
        except (ValueError, RecursionError) as error:
            reason = f"is not TOML: {message_of(error)}"
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
        raise SettingsInvalid(f"the settings file {path} {reason}")


def require_settings(given: object) -> None:
    """Raise SettingsInvalid for a value that is not a Settings, such as a dictionary."""
    if not isinstance(given, Settings):
        raise SettingsInvalid(
            f"a Settings is needed, got {shown(given)}: write Settings(...), or Settings(**values)"
            " for a dictionary"
        )


def _chosen_file(argument: Path | str | None) -> tuple[Path, str | None]:
    """Return the settings file, and the source that names it; None if no source does."""
    if argument is not None:
        return Path(argument), "the settings file is"
    if CONFIG_VARIABLE in os.environ:
        return Path(os.environ[CONFIG_VARIABLE]), f"{CONFIG_VARIABLE} names"
    path = Path(CONFIG_FILE)
    return path, "the settings file is" if path.exists() else None


def is_file(path: Path) -> bool:
    """True if there is a file of this name."""
    try:
        return path.is_file()
    except OSError:
        # The name is invalid in a file system, such as one that is too long.
        return False


def _is_unknown(variable: str) -> bool:
    """True if an environment variable has the prefix but names no group or setting."""
    if not variable.startswith("HOURHAND_") or variable in {CONFIG_VARIABLE, CACHE_VARIABLE}:
        return False
    name = variable.removeprefix("HOURHAND_").lower().partition("__")[0]
    return name not in Settings.model_fields


def _unknown_variables(variables: list[str]) -> str:
    groups = [f"HOURHAND_{name.upper()}" for name in Settings.model_fields]
    told = (f"{each}{did_you_mean(each.partition('__')[0], groups)}" for each in variables)
    return f"invalid settings: no such setting: {', '.join(told)}"


def _described(error: ValidationError) -> str:
    problems = (
        problem_text(
            each,
            names=_names_beside(each["loc"]),
            shows_value=_may_be_shown(each),
        )
        for each in error.errors(include_url=False)
    )
    return "invalid settings: " + "; ".join(problems)


def _names_beside(place: tuple[int | str, ...]) -> tuple[str, ...]:
    """Return the names of the settings in the group of a place."""
    group: Any = Settings
    for part in place[:-1]:
        field = getattr(group, "model_fields", {}).get(part)
        group = None if field is None else field.annotation
    return tuple(getattr(group, "model_fields", ()))


def _may_be_shown(problem: ErrorDetails) -> bool:
    """True if the refused value is certainly not a secret.

    A whole group may hold one, and so may a value under an unknown name: that name may be a
    secret's, mistyped.
    """
    known: Any = Settings
    for part in problem["loc"]:
        field = getattr(known, "model_fields", {}).get(part)
        if field is None:
            break
        known = field.annotation
    is_value = isinstance(problem["input"], str | int | float | bool)
    return (
        is_value
        and problem["type"] != "extra_forbidden"
        and not hasattr(known, "model_fields")
        and "SecretStr" not in str(known)
        and known != dict[str, str]
    )
