"""OpenTelemetry is handed the numbers of the cells, whatever their kind."""

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics.export import MetricsData

from actors.kernel.simulated import VirtualClock
from actors.model import events
from scheduler.adapters.observing.counting import CountingTelemetry
from scheduler.adapters.observing.otlp import MetricsPush
from scheduler.observe.metric_catalogue import CATALOGUE
from tests.builders import NOW_MS, a_key


class KeptExports:
    """Keeps what it is handed; fails the first time, as a collector that starts later does."""

    def __init__(self) -> None:
        self.kept: list[MetricsData] = []
        self.tried = 0
        self.closed = False

    def export(self, metrics_data: MetricsData) -> object:
        """Take one push."""
        self.tried += 1
        self.kept.append(metrics_data)
        raise ConnectionError("no collector yet")

    def shutdown(self) -> None:
        """Take no more."""
        self.closed = True


def test_every_metric_is_pushed_with_its_numbers() -> None:
    """In the exporter's own encoding, which refuses what it cannot read."""
    telemetry = CountingTelemetry(VirtualClock(NOW_MS))
    telemetry.emit(events.AttemptStarted(5, a_key(), 1, 40))
    telemetry.emit(events.WatermarkAdvanced(1, NOW_MS - 60_000, 0))
    exports = KeptExports()

    push = MetricsPush(telemetry.meters, VirtualClock(NOW_MS), 3_600_000, exports)
    push.close()

    assert exports.closed
    (request,) = [encode_metrics(each) for each in exports.kept]
    metrics = {m.name: m for m in request.resource_metrics[0].scope_metrics[0].metrics}
    assert metrics.keys() == {metric.full_name for metric in CATALOGUE.values()}
    (delay,) = metrics["hourhand_attempt_delay_seconds"].histogram.data_points
    assert (delay.count, delay.sum) == (1, 0.04)
    assert list(delay.bucket_counts).index(1) == list(delay.explicit_bounds).index(0.05)
    (age,) = metrics["hourhand_watermark_age_seconds"].gauge.data_points
    assert age.as_double == 60
    (started,) = metrics["hourhand_attempts_started_total"].sum.data_points
    assert started.as_double == 1
    assert started.attributes[0].value.string_value == "5"


def test_a_collector_that_is_gone_does_not_end_the_pushing() -> None:
    """The next push holds all of it again: the numbers only grow."""
    exports = KeptExports()
    push = MetricsPush(
        CountingTelemetry(VirtualClock(NOW_MS)).meters, VirtualClock(NOW_MS), 100, exports
    )

    while exports.tried < 3:
        push._thread.join(timeout=0.05)
    push.close()

    assert exports.closed
