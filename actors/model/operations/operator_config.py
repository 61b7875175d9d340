"""The operators' decisions for all nodes: pauses, and changed limits.

The operator config is one value with a version, replaced as a whole, so two operators never undo
each other's changes unseen. It decides what is paused and how much a limit allows.
"""

from collections.abc import Collection, Iterable

import msgspec
from msgspec.structs import replace

from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.pauses import NOT_PAUSED, PartitionPause, Pause, PauseScope
from hourhand.actors.model.values.errors import InvalidTask

PAUSES_MAX = 1_000
"""Most pauses of an operator config: every node holds it in memory (P13)."""
LIMIT_CHANGES_MAX = 1_000
CONFIG_BYTES_MAX = 400_000
"""Size limit of the encoded form: an operator config is one cell of the store."""


class OperatorConfig(msgspec.Struct, frozen=True):
    """All pauses and all changed limits of an installation."""

    version: int = 0
    """Grows with every change."""
    pauses: tuple[Pause, ...] = ()
    limits: tuple[LimitChange, ...] = ()
    """In the order of their limits' names, one for each."""

    def of_partition(self, partition: int) -> PartitionPause:
        """Return the pauses of one partition."""
        whole = any(
            each.scope is PauseScope.ALL
            or (each.scope is PauseScope.PARTITION and each.partition == partition)
            for each in self.pauses
        )
        ids = frozenset(
            each.ordering_id
            for each in self.pauses
            if each.scope is PauseScope.ORDERING and each.partition == partition
        )
        return PartitionPause(whole, ids) if whole or ids else NOT_PAUSED

    def with_pauses(self, added: Iterable[Pause]) -> "OperatorConfig":
        """Return the next config; a target that is already paused keeps its first pause.

        Raises InvalidTask if the operator config would be larger than every node can hold.
        """
        merged = {each.target: each for each in self.pauses}
        for each in added:
            merged.setdefault(each.target, each)
        config = replace(self, version=self.version + 1, pauses=tuple(merged.values()))
        size_bytes = len(encode_config(config))
        if len(merged) > PAUSES_MAX or size_bytes > CONFIG_BYTES_MAX:
            raise InvalidTask(
                f"{len(merged)} pauses of {size_bytes} bytes: {PAUSES_MAX} pauses and"
                f" {CONFIG_BYTES_MAX} bytes are allowed; pause the partition instead"
            )
        return config

    def without(self, targets: Iterable[tuple[PauseScope, int, str]]) -> "OperatorConfig":
        """Return the next config, without the pauses of these targets."""
        lifted = set(targets)
        left = tuple(each for each in self.pauses if each.target not in lifted)
        return replace(self, version=self.version + 1, pauses=left)

    def with_limit(self, change: LimitChange) -> "OperatorConfig":
        """Return the next config, with this change instead of an earlier one of the same limit.

        Raises InvalidTask if the operator config would be larger than every node can hold.
        """
        assert change.limit, "every limit has a name"
        merged = {each.limit: each for each in self.limits} | {change.limit: change}
        limits = tuple(merged[name] for name in sorted(merged))
        config = replace(self, version=self.version + 1, limits=limits)
        if len(limits) > LIMIT_CHANGES_MAX or len(encode_config(config)) > CONFIG_BYTES_MAX:
            raise InvalidTask(
                f"{len(limits)} limits are changed: {LIMIT_CHANGES_MAX} limits and"
                f" {CONFIG_BYTES_MAX} bytes are allowed; reset some, or change the code"
            )
        return config

    def without_limits(self, names: Collection[str]) -> "OperatorConfig":
        """Return the next config, in which these limits are as declared."""
        left = tuple(each for each in self.limits if each.limit not in names)
        assert self.version >= 0, "versions grow from 0"
        return replace(self, version=self.version + 1, limits=left)

    def change_of(self, limit: str) -> LimitChange | None:
        """Return an operator's change of a limit; None if it is as declared."""
        return next((each for each in self.limits if each.limit == limit), None)


_decoder = msgspec.json.Decoder(OperatorConfig)


def encode_config(config: OperatorConfig) -> bytes:
    """Return an operator config in the store's form."""
    return msgspec.json.encode(config)


def decode_config(body: bytes) -> OperatorConfig:
    """Read the output of ``encode_config``; raises msgspec.DecodeError for anything else."""
    return _decoder.decode(body)
