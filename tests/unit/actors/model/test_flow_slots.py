"""How many slots each flow has: an ordering id belongs to one flow while it has any."""

from actors.model.flow_slots import FlowSlots


def test_an_ordering_id_belongs_to_the_flow_of_its_first_task_until_it_has_no_slot() -> None:
    """Whatever its later tasks are."""
    slots = FlowSlots()
    slots.take("id", "a")
    slots.take("id", "b")
    slots.take("other", "b")
    both = slots.of("a"), slots.of("b")
    slots.release("id", 2)
    slots.take("id", "b")

    assert (both, slots.of("a"), slots.of("b")) == ((2, 1), 0, 2)


def test_what_waits_counts_beside_what_has_a_slot() -> None:
    """Until it leaves."""
    slots = FlowSlots()
    slots.take("id", "a")
    slots.add_waiting("a", 2, 300)
    slots.add_waiting("a", 0, 50)
    both = slots.held_tasks("a"), slots.waiting_bytes("a"), slots.tasks
    slots.add_waiting("a", -2, -350)
    slots.release("id", 1)

    assert both == (3, 350, 3)
    assert (slots.held_tasks("a"), slots.waiting_bytes("a"), slots.tasks) == (0, 0, 0)


def test_slots_that_an_id_takes_by_itself_count_for_its_flow() -> None:
    """It read tasks that it had left to the store; of an attempt of an earlier tree nobody knows
    the flow.
    """
    slots = FlowSlots()
    slots.take("id", "a")
    slots.release("id", -3)
    slots.release("adopted", -1)
    slots.release("adopted", 0)

    assert (slots.of("a"), slots.of("")) == (4, 1)
    slots.release("id", 4)
    slots.release("adopted", 1)
    assert (slots.of("a"), slots.of("")) == (0, 0)
