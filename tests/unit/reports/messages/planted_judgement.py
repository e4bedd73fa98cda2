"""What judging leaves of a synthetic run, planted without Spark."""

from __future__ import annotations

from collections import Counter
from typing import Any

from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run
from brokerproof.run.records import write_record
from builders import make_counts, make_judgement

from ...judging.history import TOPIC, Row


def place(producer: str, seq: int, *, cluster: str = "main", **values: Any) -> Row:
    """A row of `messages`: a log that holds the message once or, with `subscription`, one that got it once."""
    facts = {"copies": 1, "deliveries": 1 if values.get("subscription") else 0, "recovered": False, "home": "main"}
    return {"producer": producer, "seq": seq, "cluster": cluster, "topic": TOPIC, "partition": -1, **facts, **values}


def anomaly(name: Anomaly, producer: str, seq: int, *, legal: bool, detail: str = "planted", **values: Any) -> Row:
    """A row of `anomalies`."""
    here = {"cluster": "main", "topic": TOPIC, "partition": -1, "cause": "a_cause", "detail": detail}
    return {"anomaly": str(name), "legal": legal, "producer": producer, "seq": seq, **here, **values}


def leave_judgement(
    run: Run,
    *,
    places: list[Row],
    anomalies: list[Row] | None = None,
    verdict: Verdict = Verdict.PASSED,
    problems: tuple[str, ...] = (),
) -> None:
    """Leave the two tables and a judgement that counts the anomalies."""
    found = anomalies or []
    run.append("messages", [{"run_id": run.run_id, **row} for row in places])
    run.append("anomalies", [{"run_id": run.run_id, **row} for row in found])
    legal, illegal = (
        Counter(Anomaly(row["anomaly"]) for row in found if row["legal"] is legality) for legality in (True, False)
    )
    counts = make_counts(legal=legal, illegal=illegal)
    write_record(run, make_judgement(verdict, problems=problems, suites={}, counts=counts))
