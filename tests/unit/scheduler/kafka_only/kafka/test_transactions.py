"""What the driver raises while it calls back is told as what it is."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from hourhand.scheduler.kafka_only.kafka.transactions import fatal_errors_told


def test_a_fatal_error_during_a_callback_is_the_drivers() -> None:
    """Python blames the callback that was called while the error was set."""
    fenced = KafkaException(KafkaError(KafkaError._FENCED))

    with pytest.raises(KafkaException) as caught, fatal_errors_told():
        raise SystemError("<function> returned a result with an exception set") from fenced

    assert caught.value is fenced


def test_another_error_of_the_interpreter_stays_what_it_is() -> None:
    """It is a bug, and nobody's transaction."""
    with pytest.raises(SystemError, match="bad argument"), fatal_errors_told():
        raise SystemError("bad argument to internal function")
