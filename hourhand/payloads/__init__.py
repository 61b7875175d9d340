"""Payload codecs under the name users import: ``from hourhand.payloads import PayloadCodecs``.

::

    payloads = PayloadCodecs(Deflate(), AesGcm.from_text(os.environ["PAYLOAD_KEYS"]))
    app = Hourhand(payloads=payloads)

Decides nothing: the codecs are in ``scheduler/payloads/``.
"""

from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.claim_check import ClaimCheck
from hourhand.scheduler.payloads.codec import (
    BoundedCodec,
    EncodedPayload,
    OpenedTooLarge,
    PayloadCodec,
)
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.payloads.deflate import Deflate

__all__ = [
    "AesGcm",
    "BoundedCodec",
    "ClaimCheck",
    "Deflate",
    "EncodedPayload",
    "OpenedTooLarge",
    "PayloadCodec",
    "PayloadCodecs",
]
