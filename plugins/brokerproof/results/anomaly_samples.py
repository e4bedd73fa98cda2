"""Samples of a run's anomalies: a few of every kind, without reading the whole table."""

from __future__ import annotations

from itertools import islice
from typing import Any

from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Counts
from brokerproof.run.table_rows import iterate_rows


def read_anomaly_samples(run: Run, counts: Counts, limit: int) -> list[dict[str, Any]]:
    """Return at most `limit` rows of the run's table `anomalies`, first those that its scenario does not allow.

    The kinds of anomalies that were counted share the limit equally. Raises RunError if the table is damaged.
    """
    kinds = [
        (anomaly, legal)
        for legal, found in ((False, counts.illegal), (True, counts.legal))
        for anomaly in Anomaly
        if found.get(anomaly, 0)
    ]
    samples: list[dict[str, Any]] = []
    for index, (anomaly, legal) in enumerate(kinds):
        # If a kind has fewer rows than its share, the later kinds get the rest.
        share = -(-(limit - len(samples)) // (len(kinds) - index))
        kind = {"anomaly": str(anomaly), "legal": legal}
        rows = iterate_rows(run, "anomalies", where="anomaly = $anomaly AND legal = $legal", values=kind)
        samples += islice(rows, share)
    return samples
