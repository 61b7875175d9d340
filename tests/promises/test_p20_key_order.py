"""P20: messages of one key and one deadline appear in the order in which they stand."""

import pytest

from tests.unit.scheduler.services.relay.relay_bench import RelayBench


@pytest.mark.parametrize("due_in_s", [-30.0, 0.5, 20.0])
@pytest.mark.parametrize("crashes", [False, True])
def test_p20_one_key_and_deadline_keeps_its_order(due_in_s: float, *, crashes: bool) -> None:
    """Late ones and waiting ones, through a crash, whatever other keys do."""
    bench = RelayBench()
    for number in range(40):
        key = b"other" if number % 4 == 3 else b"k"
        bench.put(b"%d" % number, id=f"id-{39 - number}", due_in_s=due_in_s, key=key)
    if crashes:
        bench.intake.step(0)
        bench.crash_intake()
        bench.scheduler.crash()

    bench.advance(60)

    of_key = [int(each.value or b"-1") for each in bench.relayed if each.key == b"k"]
    assert of_key == [number for number in range(40) if number % 4 != 3]
