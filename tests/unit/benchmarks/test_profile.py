"""How samples are summed up."""

from collections import Counter

from benchmarks.profile import Profile


def test_a_sample_is_charged_to_its_function_and_to_our_innermost_file() -> None:
    """A driver's time belongs to whoever of ours called it."""
    ours = "_round (scheduler/scheduler.py:190);poll (scheduler/adapters/kafka/log.py:90)"
    profile = Profile.of(
        Counter(
            {
                f"thread (0x1): hourhand-node;{ours};consume (confluent/consumer.py:7)": 3,
                f"thread (0x1): hourhand-node;{ours}": 1,
                "thread (0x2): writer;run (threading.py:1)": 4,
                "thread (0x3): MainThread": 90,
            }
        )
    )

    assert profile.total == 8
    assert profile.functions["consume (confluent/consumer.py)"] == 3
    assert profile.files["scheduler/adapters/kafka/log.py"] == 4
    assert profile.files["none of ours"] == 4
    assert profile.threads == {"hourhand-node": 4, "writer": 4}
