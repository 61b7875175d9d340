"""Metrics and health of several node processes behind one port: each child is asked, then merged.

Every sample of a child gets a ``process`` label; samples are not added up: a sum of leases has no
meaning, and a counter that begins again must be visible. A child that is being restarted is not
ready but counts as live, or a probe would end its siblings.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection, HTTPException

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from hourhand.scheduler.observe.health import Check
from hourhand.scheduler.observe.metric_catalogue import PROCESS_RESTARTS, PROCESS_UP
from hourhand.scheduler.observe.processes import ChildState

_TIMEOUT_S = 8.0
"""Seconds: longer than a child waits for its store, and shorter than a request may take here."""
_LINE = re.compile(r"(ok|FAILING) ([^:]+): (.*)")


class ProcessAnswers:
    """``Answering`` for the children of one supervisor."""

    def __init__(self, children: Callable[[], Sequence[ChildState]]) -> None:
        self._children = children

    def metrics(self) -> bytes:
        """Return the metrics of all children, and of the supervisor; silent children are left
        out.
        """
        children = self._children()
        texts = self._asked(children, "/metrics")
        families = [*_supervised(children), *_merged(texts)]
        registry = CollectorRegistry()
        registry.register(_Families(families))
        return generate_latest(registry)

    def live(self) -> Sequence[Check]:
        """Return the checks of children that are up, with failures to answer."""
        return self._checks("/livez", absent_is_well=True)

    def ready(self) -> Sequence[Check]:
        """Return the checks of every child; a child that is not up is not ready."""
        return self._checks("/readyz", absent_is_well=False)

    def partitions(self) -> Sequence[int]:
        """Return the partitions that the children own together."""
        answers = self._asked(self._children(), "/healthz?full=1").values()
        return sorted({each for answer in answers for each in json.loads(answer)["partitions"]})

    def watch(self) -> None:
        """Do nothing: each child watches itself."""

    def _checks(self, path: str, *, absent_is_well: bool) -> list[Check]:
        children = self._children()
        texts = self._asked(children, path)
        checks = []
        for child in children:
            well = child.is_up or absent_is_well
            checks.append(Check(f"process {child.number}", well, child.detail))
            if child.port is None:
                continue
            text = texts.get(child.number)
            if text is None:
                checks.append(Check(f"{child.number}/answer", ok=False, detail="none"))
            else:
                checks += _parsed(child.number, text)
        return checks

    def _asked(self, children: Sequence[ChildState], path: str) -> dict[int, str]:
        """Return the answers of children that answer; all are asked at once."""
        asked = [child for child in children if child.port is not None]
        if not asked:
            return {}
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = pool.map(lambda child: _body(child.port or 0, path), asked)
            return {
                child.number: answer
                for child, answer in zip(asked, answers, strict=True)
                if answer is not None
            }


def _body(port: int, path: str) -> str | None:
    try:
        with closing(HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
    except (OSError, HTTPException):
        return None


def _parsed(number: int, text: str) -> Iterator[Check]:
    for line in text.splitlines():
        if matched := _LINE.fullmatch(line):
            word, name, detail = matched.groups()
            yield Check(f"{number}/{name}", word == "ok", detail)


def _merged(texts: Mapping[int, str]) -> Iterable[Metric]:
    families: dict[str, Metric] = {}
    for number, text in texts.items():
        for family in text_string_to_metric_families(text):
            merged = families.setdefault(
                family.name, Metric(family.name, family.documentation, family.type)
            )
            for sample in family.samples:
                labels = {**sample.labels, "process": str(number)}
                merged.add_sample(sample.name, labels, sample.value)
    return families.values()


def _supervised(children: Sequence[ChildState]) -> Iterator[Metric]:
    restarts = CounterMetricFamily(
        PROCESS_RESTARTS.full_name, PROCESS_RESTARTS.text, labels=PROCESS_RESTARTS.labels
    )
    up = GaugeMetricFamily(PROCESS_UP.full_name, PROCESS_UP.text, labels=PROCESS_UP.labels)
    for child in children:
        restarts.add_metric([str(child.number)], child.restarts)
        up.add_metric([str(child.number)], child.is_up)
    yield from (up, restarts)


class _Families(Collector):
    """Shows existing families."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self._families
