"""Trust and login, for Kafka and Cassandra: the server's certificates, and this side's credentials.

Decides which combinations make sense and the source of a secret. A file is read when a node or
client opens, not before: settings can be made, shown and sent on a machine without the file.
Kafka's own properties are allowed or refused by name alone; the driver checks their values. No
message here quotes a secret, or a value in its place.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import ConfigDict, Field, SecretStr, model_validator

from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.actors.model.values.settings import Group

Checked = TypeVar("Checked", bound=Group)
_CONTROLLED = {
    "acks": "a task is accepted when all in-sync replicas hold it (P1)",
    "allow.auto.create.topics": "a topic is made by hourhand migrate, with its partitions",
    "auto.commit.enable": "an offset is committed when its record is durable (P9)",
    "auto.commit.interval.ms": "an offset is committed when its record is durable (P9)",
    "auto.offset.reset": "a group without offsets begins where the store says (P8)",
    "bootstrap.servers": "set kafka.bootstrap_servers",
    "default.topic.config": "name the properties themselves",
    "delivery.timeout.ms": "set kafka.delivery_timeout_ms",
    "enable.auto.commit": "an offset is committed when its record is durable (P9)",
    "enable.auto.offset.store": "an offset is committed when its record is durable (P9)",
    "enable.idempotence": "records are neither doubled nor reordered by a retry",
    "enable.partition.eof": "the end of the log is needed before tasks start (P4)",
    "group.id": "set group.id",
    "group.instance.id": "a second member of this name would run beside the first's lease (P3)",
    "group.protocol": "set group.protocol",
    "group.remote.assignor": "brokers assign as they are configured to",
    "heartbeat.interval.ms": "set group.heartbeat_interval_ms",
    "isolation.level": "a record of an aborted transaction was never accepted",
    "max.poll.interval.ms": "set group.max_poll_interval_ms",
    "message.max.bytes": "set client.record_bytes_max",
    "message.timeout.ms": "set kafka.delivery_timeout_ms",
    "metadata.broker.list": "set kafka.bootstrap_servers",
    "partition.assignment.strategy": "set group.assignor",
    "partitioner": "an ordering id has one partition, whoever writes it",
    "plugin.library.paths": "the driver would run foreign code, which could change any of these",
    "request.required.acks": "a task is accepted when all in-sync replicas hold it (P1)",
    "session.timeout.ms": "set group.session_timeout_ms",
    "statistics.interval.ms": "the lease follows from statistics (P3)",
    "transactional.id": "each record is acknowledged on its own",
}
"""Names that are refused, synonyms included, each with the reason or the setting to use instead."""

_OF_TLS = frozenset(
    {
        "security.protocol",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
    }
)
_OF_LOGIN = frozenset(
    {
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.password",
        "sasl.username",
        "security.protocol",
    }
)
_OF_OAUTH = _OF_LOGIN | {
    "enable.sasl.oauthbearer.unsecure.jwt",
    "https.ca.location",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
}
_SECURITY_PREFIXES = ("sasl.", "ssl.", "security.", "https.", "enable.sasl.", "enable.ssl.")


class SecretGroup(Group):
    """Base of groups that hold secrets: their errors never quote a value."""

    model_config = ConfigDict(hide_input_in_errors=True)


class TlsSettings(SecretGroup):
    """Encryption; the server's certificate and its name are always verified."""

    enabled: bool = False
    """True to encrypt; the settings below need it."""
    ca_file: Path | None = None
    """Certificates in PEM to trust, instead of the system's."""
    certificate_file: Path | None = None
    """Own certificate in PEM, with its chain (mutual TLS)."""
    key_file: Path | None = None
    """Private key of the certificate, in PEM."""
    key_password: SecretStr | None = None
    """Password of ``key_file``."""
    key_password_file: Path | None = None
    """File with that password."""

    @model_validator(mode="after")
    def _makes_sense(self) -> "TlsSettings":
        given = [name for name in TlsSettings.model_fields if name != "enabled"]
        if not self.enabled and (unused := [each for each in given if getattr(self, each)]):
            raise ValueError(
                f"{', '.join(unused)} would have no effect and nothing would be encrypted:"
                " set enabled to true"
            )
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file are needed together, or neither")
        if self.key_file is None and (self.key_password or self.key_password_file):
            raise ValueError("key_password protects key_file, which is not set")
        return require_one_source(self, "key_password")

    def checked_files(self, group: str) -> dict[str, str]:
        """Return the paths of the given files after a check that each is readable.

        ``group`` names these settings in the error. Raises SettingsInvalid.
        """
        named = {
            "ca_file": self.ca_file,
            "certificate_file": self.certificate_file,
            "key_file": self.key_file,
        }
        return {
            name: str(path)
            for name, path in named.items()
            if path is not None and _read(path, f"{group}.{name}")
        }

    def key_password_text(self, group: str) -> str | None:
        """Return the password of the private key, from the value or the file."""
        return revealed(self.key_password, self.key_password_file, f"{group}.key_password_file")


class LoginSettings(SecretGroup):
    """Base of the servers' groups: the login of this side."""

    username: str | None = Field(default=None, min_length=1)
    """User to log in as; none: no login."""
    password: SecretStr | None = None
    """Password, best from the environment or ``password_file``."""
    password_file: Path | None = None
    """File with the password, read when a node or client opens."""

    @model_validator(mode="after")
    def _is_a_login(self) -> "LoginSettings":
        has_password = self.password is not None or self.password_file is not None
        if self.username is not None and not has_password:
            raise ValueError("username is set, so password or password_file must be too")
        if self.username is None and has_password:
            raise ValueError("password is set, so username must be too")
        return require_one_source(self, "password")

    def password_text(self, group: str) -> str | None:
        """Return the password, from the value or the file; ``group`` names these settings in
        errors.
        """
        return revealed(self.password, self.password_file, f"{group}.password_file")


OIDC = "oidc"
MSK_IAM = "msk-iam"
_OF_OIDC = ("client_id", "client_secret", "client_secret_file", "endpoint", "scope", "extensions")


class OAuthSettings(SecretGroup):
    """Logins with a token that expires (OAUTHBEARER), for Kafka."""

    provider: str | None = Field(default=None, pattern=r"^[\w.:-]+$")
    """Source of the tokens: ``oidc``, ``msk-iam``, or ``module:function`` (docs/security.md)."""
    region: str | None = Field(default=None, min_length=1)
    """AWS region of the brokers, for ``msk-iam``."""
    client_id: str | None = Field(default=None, min_length=1)
    """For ``oidc``, as all below: the client that requests a token."""
    client_secret: SecretStr | None = None
    """Its secret, best from the environment or ``client_secret_file``."""
    client_secret_file: Path | None = None
    """File with the secret, read when a node or client opens."""
    endpoint: str | None = Field(default=None, pattern=r"^https?://\S+$")
    """URL that gives the tokens; http sends the secret in the clear."""
    scope: str | None = Field(default=None, min_length=1)
    """The scope to request."""
    extensions: dict[str, str] = Field(default_factory=dict)
    """Values sent to the broker with the token, such as ``logicalCluster``."""
    ca_file: Path | None = None
    """Certificates in PEM to trust for ``endpoint``, instead of the system's."""

    @model_validator(mode="after")
    def _fits_the_provider(self) -> "OAuthSettings":
        if self.provider not in {None, OIDC, MSK_IAM} and ":" not in str(self.provider):
            raise ValueError(
                f"provider {self.provider!r} is not known: name {OIDC!r}, {MSK_IAM!r}, or a"
                " function of your own as module:function"
            )
        used: tuple[str, ...] = {OIDC: (*_OF_OIDC, "ca_file"), MSK_IAM: ("region",)}.get(
            self.provider or "", ()
        )
        names = [name for name in OAuthSettings.model_fields if name not in {"provider", *used}]
        if unused := [each for each in names if getattr(self, each)]:
            raise ValueError(
                f"{', '.join(unused)} would have no effect with provider {self.provider!r}: it is"
                f" for {MSK_IAM!r} if it is the region, and else for {OIDC!r}"
            )
        if self.provider == MSK_IAM and self.region is None:
            raise ValueError(f"provider {MSK_IAM!r} needs region, that of the brokers")
        has_secret = self.client_secret is not None or self.client_secret_file is not None
        if self.provider == OIDC and not (self.client_id and has_secret and self.endpoint):
            raise ValueError(
                f"provider {OIDC!r} needs client_id, client_secret or client_secret_file, and"
                " endpoint"
            )
        return require_one_source(self, "client_secret")

    def driver_properties(self, group: str) -> dict[str, str]:
        """Return the driver's properties, including those for OIDC tokens.

        ``group`` names these settings in errors. Raises SettingsInvalid if a file cannot be read.
        """
        properties = {"sasl.mechanism": "OAUTHBEARER"}
        if self.provider != OIDC:
            return properties
        secret = revealed(
            self.client_secret, self.client_secret_file, f"{group}.client_secret_file"
        )
        extensions = ",".join(f"{name}={value}" for name, value in self.extensions.items())
        if self.ca_file is not None:
            _read(self.ca_file, f"{group}.ca_file")
        given = {
            "sasl.oauthbearer.method": OIDC,
            "sasl.oauthbearer.client.id": self.client_id,
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.token.endpoint.url": self.endpoint,
            "sasl.oauthbearer.scope": self.scope,
            "sasl.oauthbearer.extensions": extensions,
            "https.ca.location": self.ca_file and str(self.ca_file),
        }
        return properties | {name: value for name, value in given.items() if value}


def require_one_source(settings: Checked, name: str) -> Checked:
    """Refuse a secret that is given both as a value and as a file."""
    if getattr(settings, name) is not None and getattr(settings, f"{name}_file") is not None:
        raise ValueError(f"{name} and {name}_file are both set: leave one of them out")
    return settings


def revealed(secret: SecretStr | None, file: Path | None, name: str) -> str | None:
    """Return a secret's text, without the line end that editors add.

    ``name`` is the file's setting. Raises SettingsInvalid if the file cannot be used.
    """
    if file is None:
        return None if secret is None else secret.get_secret_value()
    try:
        text = _read(file, name).decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise SettingsInvalid(f"{name} names {file}, which is not text in UTF-8") from None
    if not text:
        raise SettingsInvalid(f"{name} names {file}, which is empty")
    return text


def _read(file: Path, name: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingsInvalid(
            f"{name} names {file}, which cannot be read: {error.strerror}"
        ) from None


def property_complaints(
    table: str, names: Iterable[str], in_use: Mapping[str, bool]
) -> Iterator[str]:
    """Yield a complaint for each wrong name of one table, with a remedy.

    ``in_use`` has the keys ``tls``, ``username`` and ``oauth``: True means that these settings
    decide, so their properties in a table would contradict them.
    """
    for name in sorted(names):
        if name.endswith("_cb") or name in _CONTROLLED:
            why = _CONTROLLED.get(name, "a callback cannot be written as text")
            yield f"{table} must not set {name}: {why}"
        elif table != "security_properties" and name.startswith(_SECURITY_PREFIXES):
            yield f"{table} must not set {name}: put it into security_properties, never shown"
        elif in_use["tls"] and name in _OF_TLS:
            yield f"{table} must not set {name} beside the settings of kafka.tls"
        elif in_use["username"] and name in _OF_LOGIN:
            yield f"{table} must not set {name} beside kafka.username"
        elif in_use["oauth"] and name in _OF_OAUTH:
            yield f"{table} must not set {name} beside kafka.oauth"
