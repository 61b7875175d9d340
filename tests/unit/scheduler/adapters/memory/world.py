"""A broker, members that note what they are told, a network that can hold requests back."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.delivery import Request, at_once
from hourhand.scheduler.adapters.memory.log import MemoryLog
from hourhand.scheduler.configuration.settings import GroupSettings, Settings

GROUP = GroupSettings(
    session_timeout_ms=10_000,
    max_poll_interval_ms=30_000,
    lease_margin_ms=1_000,
    commit_interval_ms=100,
)


class ManualClock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.ms = 1_000.0

    def now_ms(self) -> int:
        """Return the time in whole milliseconds."""
        return int(self.ms)

    def monotonic_ms(self) -> float:
        """Return the time."""
        return self.ms


class Network:
    """Keeps requests of some kinds until a test serves them."""

    def __init__(self) -> None:
        self.held_kinds: set[str] = set()
        self.requests: list[Request[object]] = []

    def __call__(self, request: Request[object]) -> None:
        """Serve or keep."""
        if request.kind in self.held_kinds:
            self.requests.append(request)
        else:
            at_once(request)


class Member:
    """A node's side of the group, noting what it is told."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.told: list[str] = []
        self.owned: set[int] = set()
        self.revocations: list[Future[Mapping[int, int]]] = []
        self.holds = False
        log.subscribe(self)

    def assigned(self, partitions: Sequence[int]) -> None:
        """Start them at once."""
        self.told.append(f"assigned {list(partitions)}")
        self.owned.update(partitions)
        for partition in partitions:
            self.log.start(partition, None)

    def revoking(self, partitions: Sequence[int]) -> "Future[Mapping[int, int]]":
        """Give up at offset 1, now or later."""
        self.told.append(f"revoking {list(partitions)}")
        self.owned.difference_update(partitions)
        future: Future[Mapping[int, int]] = Future()
        if not self.holds:
            future.set_result(dict.fromkeys(partitions, 1))
        self.revocations.append(future)
        return future

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget them."""
        self.told.append(f"lost {list(partitions)}")
        self.owned.difference_update(partitions)

    def heard(self) -> list[str]:
        """Return what it was told since it was asked last."""
        told, self.told = self.told, []
        return told


class World:
    """One broker of four partitions."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.network = Network()
        self.broker = MemoryBroker(4, self.clock, self.network)

    def join(self, assignor: str = "cooperative-sticky") -> Member:
        """Add a member; it knows nothing before its first poll."""
        group = GroupSettings.model_validate({**GROUP.model_dump(), "assignor": assignor})
        return Member(MemoryLog(self.broker, Settings(group=group), self.clock))

    def poll(self, *members: Member, rounds: int = 4) -> None:
        """Poll in turn until nothing more can move."""
        for _ in range(rounds):
            for member in members:
                member.log.poll(0, 0)
