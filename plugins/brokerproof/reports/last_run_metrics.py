"""The last run of every scenario as metrics for Prometheus.

A value that was not counted or measured is not exported, because any number would be false. The metric of the verdict
has a sample for each possible verdict: 1 for the run's verdict, and 0 for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import methodcaller

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from brokerproof.errors import InputError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.verdict import RUN_VERDICTS
from brokerproof.results.history import History
from brokerproof.results.history_schema import RecordedRun

_PREFIX = "brokerproof_last_run_"
_LABELS = ("scenario", "topology", "system", "version", "runtime")
_MILLISECOND = 0.001


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """How Prometheus shows one of the run's metrics. A time is multiplied by `factor` to convert it to seconds."""

    name: str
    help: str
    factor: float = 1


# Metrics with one value for each fault. The worst value is shown, as in `brokerproof history`.
_OF_THE_WORST_FAULT: Mapping[str, _Measured] = {
    "rto_s": _Measured(name="rto_seconds", help="From a fault's injection to the end of the last interruption"),
    "unavailable_s": _Measured(name="unavailable_seconds", help="Time in which a fault interrupted some client"),
    "longest_ack_gap_s": _Measured(name="longest_ack_gap_seconds", help="Longest time without an ack after a fault"),
    "rpo_messages": _Measured(name="rpo_messages", help="Acked messages that no cluster holds any more after a fault"),
    "rpo_s": _Measured(name="rpo_seconds", help="Age of the oldest message that was lost to a fault"),
}
# Metrics with one value for each phase, and for each fault that slows the network down.
_OF_EACH_SUBJECT: Mapping[str, _Measured] = {
    "publish_latency_p99_ms": _Measured(
        name="publish_latency_p99_seconds",
        help="99th percentile of the time from schedule to ack, by phase or fault",
        factor=_MILLISECOND,
    )
}


def render_metrics(history: History, *, scenarios: Collection[str] | None = None) -> str:
    """Return the metrics of all scenarios, or of the given ones, in Prometheus' text format.

    Raises HistoryError if the history cannot be read.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_LastRuns(history, scenarios))
    return generate_latest(registry).decode("utf-8")


@contextmanager
def serve_metrics(history: History, address: str, port: int) -> Iterator[int]:
    """Serve the metrics from a thread while the block runs. Yields the port; if `port` is 0, a free port is chosen.

    If the history cannot be read, a request gets status 500. Raises InputError if the server cannot use the port.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_LastRuns(history, None))
    try:
        server, thread = start_http_server(port, address, registry)
    except OSError as error:
        raise InputError(
            f"nothing can listen at {address}:{port}: {error.strerror or error}", remedy="choose another port"
        ) from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _LastRuns(Collector):
    """Collects the metrics of the last runs. Each collection reads the history again."""

    def __init__(self, history: History, scenarios: Collection[str] | None) -> None:
        self._history, self._scenarios = history, scenarios

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return no metrics, so that registering this collector does not read the history."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        runs = [
            run for run in self._history.list_last_runs() if self._scenarios is None or run.scenario in self._scenarios
        ]
        yield _collect_verdicts(runs)
        yield _collect(runs, "as_expected", "1 if the outcome is what the scenario expects", lambda run: run.met)
        yield _collect(runs, "regressed", "1 if something is worse than in the comparable runs before", _has_regressed)
        yield _collect(runs, "acked_messages", "Messages that were acknowledged", lambda run: run.acked)
        yield _collect_anomalies(runs)
        for metric, measured in _OF_THE_WORST_FAULT.items():
            yield _collect(runs, measured.name, f"{measured.help} (worst fault)", methodcaller("find_worst", metric))
        for metric, measured in _OF_EACH_SUBJECT.items():
            yield _collect_subjects(runs, metric, measured)
        yield _collect(runs, "duration_seconds", "Wall time from the trigger to the verdict", lambda run: run.total_s)
        yield _collect(
            runs, "start_timestamp_seconds", "When somebody asked for the run", lambda run: run.started_at.timestamp()
        )


def _has_regressed(run: RecordedRun) -> bool | None:
    """Return whether a confirmed regression was recorded; None if the run was not compared with earlier runs."""
    return None if run.marks is None else any(not mark["suspected"] for mark in run.marks)


def _collect_verdicts(runs: Sequence[RecordedRun]) -> GaugeMetricFamily:
    family = _make_family("verdict", "1 for the verdict of the run, 0 for the others", "verdict")
    for run in runs:
        for verdict in RUN_VERDICTS:
            family.add_metric([*_list_labels(run), str(verdict)], run.verdict == verdict)
    return family


def _collect_anomalies(runs: Sequence[RecordedRun]) -> GaugeMetricFamily:
    family = _make_family("anomalies", "Anomalies of a kind that the run allows (legal) or not", "anomaly", "legal")
    for run in runs:
        for anomaly in Anomaly:
            for legal in (False, True):
                count = run.count_anomaly(anomaly, legal=legal)
                if count is not None:
                    family.add_metric([*_list_labels(run), str(anomaly), "yes" if legal else "no"], count)
    return family


def _collect_subjects(runs: Sequence[RecordedRun], metric: str, measured: _Measured) -> GaugeMetricFamily:
    family = _make_family(measured.name, measured.help, "subject")
    for run in runs:
        for row in run.measurements:
            if row.metric == metric and row.value is not None:
                family.add_metric([*_list_labels(run), row.subject], row.value * measured.factor)
    return family


def _collect(
    runs: Sequence[RecordedRun], name: str, text: str, read: Callable[[RecordedRun], float | None]
) -> GaugeMetricFamily:
    family = _make_family(name, text)
    for run in runs:
        value = read(run)
        if value is not None:
            family.add_metric(_list_labels(run), value)
    return family


def _make_family(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}{name}", f"{text}.", labels=[*_LABELS, *labels])


def _list_labels(run: RecordedRun) -> list[str]:
    return [run.scenario, run.topology, run.system, run.system_version, run.runtime]
