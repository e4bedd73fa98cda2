from __future__ import annotations

from .history import History


def test_a_clean_run_holds_no_anomaly(judge):
    judged = judge(History().clean())

    assert judged.anomalies == set()
    assert judged.judgement["verdict"] == "passed"


def test_an_acked_message_that_is_not_stored_is_lost(judge):
    history = History().clean()
    history.forget("stored", "p0", 3)
    history.forget("deliveries", "p0", 3)

    assert judge(history).anomalies == {("lost", False, "main", None, "p0", 3)}
