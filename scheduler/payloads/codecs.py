"""The payload codecs of an installation, one after another, between data and its envelope.

Decides the content of an envelope, the task that it is bound to, and the members that stay plain.
It does not decide what happens to a task whose data cannot be opened.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec

from hourhand.actors.model.task.codec import encode_object
from hourhand.actors.model.task.json_text import TEXT_BYTES_MAX
from hourhand.actors.model.task.sealed import (
    MEMBER,
    SealedData,
    SealedMembers,
    SealingStep,
    envelope_of,
    is_sealed,
    member_of_before,
    with_envelope,
)
from hourhand.actors.model.task.task import Task, following
from hourhand.actors.model.task.task_end import TaskEnd
from hourhand.actors.model.values.display import message_of, shown
from hourhand.actors.model.values.errors import (
    HourhandError,
    InvalidResult,
    PayloadDamaged,
    PayloadSealed,
    PayloadUnavailable,
    PayloadUnsealed,
    SettingsInvalid,
    TaskTooLarge,
)
from hourhand.actors.model.values.public import public
from hourhand.scheduler.payloads.codec import (
    EncodedPayload,
    OpenedTooLarge,
    PayloadCodec,
    bounded_form,
)
from hourhand.scheduler.payloads.open_budget import SMALL_BYTES, NoRoom, OpenBudget, OpenedHere

Bound = Literal["task", "recurring"]
Data = dict[str, Any]
"""A JSON object."""

OPENED_BYTES_MAX = 16 * 1024 * 1024
"""Default limit for the size of data that is sealed or opened."""
OPEN_BYTES_MAX = 64 * 1024 * 1024
"""Default limit for the large data that a node has open at once."""

_BYTES = (bytes, bytearray, memoryview)
_is_name = re.compile(r"[a-z0-9][a-z0-9-]{0,31}").fullmatch
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


@public("hourhand.payloads")
class PayloadCodecs:
    """Seals the data of tasks that are scheduled, and opens it for the code that runs them.

    ``codecs`` are applied in their order. ``reads`` only open data that was sealed before. The
    members of data named in ``plain`` are also kept unencrypted beside the envelope, so that limits
    and fair shares can use them as keys. With ``required`` plain data is refused, of all kinds or
    of those named. Data of more than ``opened_bytes_max`` bytes is not sealed or opened, and a node
    has about ``open_bytes_max`` of it open at once. Raises SettingsInvalid for codecs with the same
    name.
    """

    def __init__(
        self,
        *codecs: PayloadCodec,
        reads: Sequence[PayloadCodec] = (),
        plain: Sequence[str] = (),
        required: bool | Collection[str] = False,
        opened_bytes_max: int = OPENED_BYTES_MAX,
        open_bytes_max: int = OPEN_BYTES_MAX,
    ) -> None:
        self._codecs = codecs
        self._by_name = _by_name((*codecs, *reads))
        if isinstance(plain, str):
            raise SettingsInvalid(f"plain is a list of names, got {shown(plain)}")
        if MEMBER in plain:
            raise SettingsInvalid(f"plain names {MEMBER}, which rows have for sealed data")
        self.plain = frozenset(plain)
        if isinstance(required, str) or (required is not False and not codecs):
            raise SettingsInvalid(
                f"required is true or a list of kinds, and needs a codec, got {shown(required)}"
            )
        self._required = required if isinstance(required, bool) else frozenset(required)
        _require_size("opened_bytes_max", opened_bytes_max)
        _require_size("open_bytes_max", open_bytes_max)
        self._opened_bytes_max = opened_bytes_max
        self.budget = OpenBudget(open_bytes_max)
        self.blocks = any(codec.blocks for codec in self._by_name.values())
        """True if one of them may wait, so that no event loop may call them."""

    def __repr__(self) -> str:
        return f"PayloadCodecs({', '.join(self._by_name)})"

    @property
    def seals(self) -> bool:
        """True if there is a codec for new data."""
        return bool(self._codecs)

    def sealed(self, task: Task) -> Task:
        """Return a task in the form of its record.

        Raises InvalidTask if its data is not JSON, TaskTooLarge if no node would open it, and
        PayloadUnavailable if a codec fails.
        """
        bound_to = _bound_to_task(task.ordering_id, task.uniqueness_key, task.kind)
        return task.model_copy(
            update={"data": self._sealed(task.data, bound_to, "task", task.kind)}
        )

    def sealed_recurring(self, data: Data, name: str, kind: str | None) -> Data:
        """Return the data of a recurring schedule sealed; all of its occurrences share it."""
        return self._sealed(data, _bound_to_schedule(name, kind), "recurring", kind)

    def opened(self, task: Task, here: OpenedHere | None = None, *, at_once: bool = False) -> Task:
        """Return a task with its original data; counts large data as open ``here``.

        Raises PayloadSealed if a codec or key is missing, PayloadUnsealed, PayloadDamaged, and the
        errors of a codec; NoRoom if there is no room beside the data open ``here``, and with
        ``at_once`` OpenedTooLarge if it may have to wait for room.
        """
        data = task.data
        ids = task.ordering_id, task.uniqueness_key, task.kind
        found = self.opened_data(data, *ids, here, at_once=at_once)
        if found is data and self._requires(task.kind):
            raise PayloadUnsealed(
                f"the task's data is plain, and this node requires that of kind {shown(task.kind)}"
                " to be sealed: its producer has no payload codecs"
            )
        if found is not data:
            task = task.model_copy(update={"data": found})
        return following(task, map(self._opened_end, task.after)) if task.after else task

    def _opened_end(self, end: TaskEnd) -> TaskEnd:
        text = end.result_text
        if text is None or not is_sealed(text):
            return end
        ids = end.key.ordering_id, end.key.uniqueness_key
        return replace(end, result_text=self.opened_result(text, *ids))

    def opened_data(
        self,
        data: Data,
        ordering_id: str,
        uniqueness_key: str,
        kind: str | None,
        here: OpenedHere | None = None,
        *,
        at_once: bool = False,
    ) -> Data:
        """Return the original data; raises as ``opened``."""
        is_sealed = isinstance(data, SealedMembers)
        envelope = data.envelope if isinstance(data, SealedMembers) else member_of_before(data)
        if envelope is None:
            if is_sealed:
                raise PayloadDamaged("the envelope of the data is not one that this version reads")
            return data
        if envelope.bound == "task":
            bound_to = _bound_to_task(ordering_id, uniqueness_key, kind)
        else:
            bound_to = _bound_to_schedule(uniqueness_key.rpartition("@")[0], kind)
        if is_sealed:
            self._require(envelope)
            return self._opened(envelope, bound_to, here, at_once=at_once)
        # A record of an earlier version, or an outsider's data: one of our keys distinguishes them.
        if not any(step.key is not None for step in envelope.steps) or self._lacking(envelope):
            return data
        try:
            return self._opened(envelope, bound_to, here, at_once=at_once)
        except PayloadDamaged:
            return data

    def sealed_checkpoint(self, text: bytes, task: Task) -> bytes:
        """Return the text of a task's checkpoint sealed; PayloadUnavailable where a codec fails.

        A codec that keeps data elsewhere is passed over: nothing would remove it there.
        """
        codecs = [each for each in self._codecs if not getattr(each, "keeps_elsewhere", False)]
        envelope = self._enveloped(text, _bound_to_checkpoint(task), "task", task.kind, codecs)
        return text if envelope is None else with_envelope(b"{}", _encode(envelope))

    def opened_checkpoint(self, text: bytes, task: Task) -> bytes:
        """Return the text of a task's checkpoint as it was made; raises as ``opened``."""
        return self._opened_text(text, "checkpoint", _bound_to_checkpoint(task), TEXT_BYTES_MAX)

    def sealed_result(self, text: bytes, task: Task) -> bytes:
        """Return the text of a task's result sealed; PayloadUnavailable where a codec fails,
        InvalidResult where nobody would open it.
        """
        if len(text) > self._opened_bytes_max:
            raise InvalidResult(
                f"the result has {len(text)} bytes before it is sealed, opened_bytes_max of"
                f" PayloadCodecs is {self._opened_bytes_max}: return where it is kept, or raise it"
                " on nodes and clients"
            )
        bound_to = _bound_to_result(task.ordering_id, task.uniqueness_key)
        envelope = self._enveloped(text, bound_to, "task", task.kind, self._codecs)
        return text if envelope is None else with_envelope(b"{}", _encode(envelope))

    def opened_result(self, text: bytes, ordering_id: str, uniqueness_key: str) -> bytes:
        """Return the text of a task's result as it was made; raises as ``opened``."""
        bound_to = _bound_to_result(ordering_id, uniqueness_key)
        return self._opened_text(text, "result", bound_to, self._opened_bytes_max)

    def _opened_text(self, text: bytes, noun: str, bound_to: bytes, bytes_max: int) -> bytes:
        if not is_sealed(text):
            return text
        envelope = envelope_of(text)
        if envelope is None:
            raise PayloadDamaged(f"the envelope of the {noun} is not one that this version reads")
        self._require(envelope)
        try:
            return self._decoded(envelope, bound_to, bytes_max)
        except OpenedTooLarge:
            raise PayloadDamaged(f"the {noun} would be larger than any when it is opened") from None

    def require(self, text: bytes) -> None:
        """Raise PayloadSealed if this process lacks a codec or key for a row's data."""
        envelope = envelope_of(text)
        if envelope is not None:
            self._require(envelope)

    def _require(self, envelope: SealedData) -> None:
        if (lacks := self._lacking(envelope)) is not None:
            raise PayloadSealed(
                f"the task's data is {envelope}, and this process has no such {lacks}: give it"
                f" the {lacks}, or run the task where it is"
            )

    def _lacking(self, envelope: SealedData) -> Literal["codec", "key"] | None:
        """Return the part that this process lacks to open an envelope."""
        for step in envelope.steps:
            codec = self._by_name.get(step.codec)
            if codec is None:
                return "codec"
            if not codec.knows(step.key):
                return "key"
        return None

    def _requires(self, kind: str | None) -> bool:
        required = self._required
        return required if isinstance(required, bool) else kind in required

    def _sealed(self, plain: Data, bound_to: bytes, bound: Bound, kind: str | None) -> Data:
        if isinstance(plain, SealedMembers):
            # Data that was read from a record, sealed for these ids before.
            return plain
        data = encode_object(plain)
        if len(data) > self._opened_bytes_max:
            raise TaskTooLarge(
                f"the task's data has {len(data)} bytes before it is sealed, opened_bytes_max of"
                f" PayloadCodecs is {self._opened_bytes_max}: keep large data elsewhere, or raise"
                " it on nodes and clients"
            )
        envelope = self._enveloped(data, bound_to, bound, kind, self._codecs)
        if envelope is None:
            return plain
        clear = {name: value for name, value in plain.items() if name in self.plain}
        return SealedMembers(clear, envelope)

    def _enveloped(
        self,
        data: bytes,
        bound_to: bytes,
        bound: Bound,
        kind: str | None,
        codecs: Sequence[PayloadCodec],
    ) -> SealedData | None:
        """Return data in its envelope; None where no codec did anything to it."""
        steps: list[SealingStep] = []
        for codec in codecs:
            try:
                encoded = _checked(codec.encode(data, bound_to))
            except HourhandError:
                raise
            except Exception as error:
                name = type(error).__name__
                raise PayloadUnavailable(
                    f"the payload codec {codec.name} failed: {name}: {message_of(error)}"
                ) from error
            if encoded is not None:
                data = encoded.data
                steps.append(SealingStep(codec.name, encoded.key_id))
        if not steps:
            if self._requires(kind):
                raise PayloadUnavailable(
                    f"no payload codec sealed the data, and that of kind {shown(kind)} is required"
                    " to be: add a codec that seals all data, such as AesGcm"
                )
            return None
        return SealedData(steps, b64encode(data).decode(), bound)

    def _opened(
        self, envelope: SealedData, bound_to: bytes, here: OpenedHere | None, *, at_once: bool
    ) -> Data:
        bytes_max = self._opened_bytes_max
        small_bytes = min(SMALL_BYTES, bytes_max)
        try:
            data = self._decoded(envelope, bound_to, small_bytes)
        except OpenedTooLarge:
            if at_once:
                raise
            data = self._large(envelope, bound_to, here)
        try:
            return _decode_object(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise PayloadDamaged("the data in the envelope is not a JSON object") from None

    def _large(self, envelope: SealedData, bound_to: bytes, here: OpenedHere | None) -> bytes:
        """Return large data, of which little is in memory before there is room for it."""
        with self.budget.turns:
            try:
                data = self._decoded(envelope, bound_to, self._opened_bytes_max)
            except OpenedTooLarge:
                raise PayloadDamaged(
                    f"the task's data would have more than {self._opened_bytes_max} bytes when it"
                    " is opened, opened_bytes_max of PayloadCodecs on this node: its producer"
                    " sealed it under a higher limit, or means harm"
                ) from None
            if here is not None and not here.take(len(data)):
                raise NoRoom
        return data

    def _decoded(self, envelope: SealedData, bound_to: bytes, bytes_max: int) -> bytes:
        """Return the sealed data; OpenedTooLarge if it, or an intermediate step, is larger."""
        try:
            data = b64decode(envelope.data, validate=True)
        except ValueError:
            raise PayloadDamaged("the data in the envelope is not base64") from None
        for step in reversed(envelope.steps):
            codec = self._by_name[step.codec]
            bounded = bounded_form(codec)
            if bounded is None:
                data = codec.decode(data, step.key, bound_to)
            else:
                data = bounded.decode_within(data, step.key, bound_to, bytes_max)
            given: object = data
            if not isinstance(given, _BYTES):
                raise TypeError(
                    f"the payload codec {codec.name} decodes to bytes, got {shown(given)}"
                )
            if len(data) > bytes_max:
                raise OpenedTooLarge
        return data


def _checked(encoded: object) -> EncodedPayload | None:
    """Return what a codec gave; TypeError or UnicodeEncodeError where nobody would open it."""
    if encoded is None:
        return None
    if isinstance(encoded, EncodedPayload):
        data: object = encoded.data
        key_id: object = encoded.key_id
        if isinstance(data, _BYTES) and isinstance(key_id, str | None):
            # Raises for a text that UTF-8 cannot hold.
            _encode(key_id)
            return encoded
    raise TypeError(
        "encode returns EncodedPayload(data, key_id), which are bytes and a text or None, or it"
        f" returns None, got {shown(encoded)}"
    )


def _by_name(codecs: Sequence[PayloadCodec]) -> dict[str, PayloadCodec]:
    found: dict[str, PayloadCodec] = {}
    for codec in codecs:
        name: object = getattr(codec, "name", None)
        if not isinstance(name, str) or _is_name(name) is None:
            raise SettingsInvalid(
                f"{shown(name)} is not the name of a payload codec: write at most 32 letters of"
                " a to z, digits and -"
            )
        if name in found:
            raise SettingsInvalid(
                f"two payload codecs have the name {name}: each envelope finds its codecs by name"
            )
        found[name] = codec
    return found


def _require_size(name: str, size_bytes: object) -> None:
    if type(size_bytes) is not int or size_bytes < 1:
        raise SettingsInvalid(f"{name} is {shown(size_bytes)}, 1 or more bytes are needed")


def _bound_to_task(ordering_id: str, uniqueness_key: str, kind: str | None) -> bytes:
    # Without the time: a task that is moved keeps its data.
    return _encode([MEMBER, "task", ordering_id, uniqueness_key, kind])


def _bound_to_checkpoint(task: Task) -> bytes:
    # Apart from data: neither can be put in the place of the other.
    return _encode([MEMBER, "checkpoint", task.ordering_id, task.uniqueness_key, task.kind])


def _bound_to_result(ordering_id: str, uniqueness_key: str) -> bytes:
    # Without the kind, too: it is read when the task's data may be deleted.
    return _encode([MEMBER, "result", ordering_id, uniqueness_key])


def _bound_to_schedule(name: str, kind: str | None) -> bytes:
    return _encode([MEMBER, "recurring", name, kind])
