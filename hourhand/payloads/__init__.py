"""Payload codecs under the name users import: ``from hourhand.payloads import PayloadCodecs``.

::

    payloads = PayloadCodecs(Deflate(), AesGcm.from_text(os.environ["PAYLOAD_KEYS"]))
    app = Hourhand(payloads=payloads)

Decides nothing: every name is the one of ``scheduler.payloads``.
"""

from hourhand.shadowing import require_own_packages

require_own_packages()

from scheduler.payloads.aes_gcm import AesGcm  # noqa: E402 - first it has to be Hourhand's
from scheduler.payloads.claim_check import ClaimCheck  # noqa: E402
from scheduler.payloads.codec import (  # noqa: E402
    BoundedCodec,
    EncodedPayload,
    OpenedTooLarge,
    PayloadCodec,
)
from scheduler.payloads.codecs import PayloadCodecs  # noqa: E402
from scheduler.payloads.deflate import Deflate  # noqa: E402

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
