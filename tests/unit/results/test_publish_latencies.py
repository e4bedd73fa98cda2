"""Publish latencies by distance."""

from __future__ import annotations

from brokerproof.results.publish_latencies import collect_link_latencies, collect_publish_latencies
from brokerproof.run.measurement import Measurement
from builders import load_shipped, make_measurement


def scenario(name: str):
    return load_shipped(name)[0]


def measured(**values: float | None) -> list[Measurement]:
    subjects = {name.replace("__", "/"): value for name, value in values.items()}
    return [
        make_measurement("r", metric, value and value * factor, subject=subject)
        for metric, factor in (("publish_latency_p50_ms", 1), ("publish_latency_p99_ms", 2))
        for subject, value in subjects.items()
    ]


def test_link_latencies_are_collected_by_way() -> None:
    rows = [
        make_measurement("r", "link_added_p50_ms", 0.1, subject="eu>us/at_5_ms"),
        make_measurement("r", "link_added_p99_ms", 4.0, subject="eu>us/at_5_ms"),
        make_measurement("r", "link_added_p99_ms", 9.0, subject="us>eu/impact"),
    ]
    assert collect_link_latencies(scenario("sync_write_latency"), rows) == {
        "at_5_ms": {"eu>us": {"p50_ms": 0.1, "p99_ms": 4.0}}
    }
    assert collect_link_latencies(scenario("sync_datacenter_loss"), rows) == {}


def test_publish_latencies_are_collected_by_cluster() -> None:
    found = collect_publish_latencies(
        scenario("sync_write_latency"),
        [
            *measured(steady=3, steady__stretched=4.0, steady__local=2.0, at_5_ms__stretched=14.0, impact__local=9),
            make_measurement("r", "rto_s", 0, subject="at_5_ms"),
        ],
    )
    assert found["steady"] == {"stretched": {"p50_ms": 4.0, "p99_ms": 8.0}, "local": {"p50_ms": 2.0, "p99_ms": 4.0}}
    assert found["at_5_ms"] == {"stretched": {"p50_ms": 14.0, "p99_ms": 28.0}}
    assert found["at_50_ms"] == {}
    assert "impact" not in found


def test_a_scenario_without_a_slowing_fault_has_no_latencies() -> None:
    assert collect_publish_latencies(scenario("sync_datacenter_loss"), measured(steady=3)) == {}
