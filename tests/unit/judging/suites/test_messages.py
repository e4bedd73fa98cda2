"""Completeness, uniqueness and ordering: what `messages` says, and what it does not."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from brokerproof.experiment.guarantees import Anomaly
from brokerproof_judging.suites.cross_check import count_messages, doubt_messages
from brokerproof_judging.suites.message_groups import read_message_groups
from brokerproof_judging.suites.tally import MOST_SAMPLES, Tally
from pyspark.sql import SparkSession

from .conftest import CLUSTER, SUBSCRIPTION, Judge, Planted, about, judged_by, plant, suite_of

ON_MESSAGES = ("completeness", "uniqueness", "ordering")
# The planted subscription is not shared by key.
JUDGED = [anomaly for anomaly in Anomaly if anomaly not in (Anomaly.UNPROVEN, Anomaly.KEY_ON_TWO_CONSUMERS)]
# Another number of messages for each anomaly. The log has only twenty, so the last anomaly has one message again.
NUMBERED = [(index % 20 + 1, anomaly) for index, anomaly in enumerate(JUDGED)]


def test_a_sound_run_passes_in_every_suite(planted: Planted, judge: Judge) -> None:
    judged = judge(planted)
    assert {suite: judgement["verdict"] for suite, judgement in judged.items()} == dict.fromkeys(judged, "passed")
    assert min(judgement["evaluated"] for judgement in judged.values()) > 0
    assert [each["evaluated"] for each in judged.values()] == [each["written"] for each in judged.values()]
    assert judged["completeness"]["why"] == "All 11 expectations hold for 40 messages and places."


@pytest.mark.parametrize("anomaly", [Anomaly.LOST, Anomaly.STORED_TWICE, Anomaly.POSITION_REGRESSED])
def test_one_illegal_anomaly_fails_its_suite_and_no_other(planted: Planted, judge: Judge, anomaly: Anomaly) -> None:
    planted.mark(anomaly)
    judged = judge(planted, only=ON_MESSAGES)
    for suite in ON_MESSAGES:
        assert judged[suite]["verdict"] == ("failed" if suite == suite_of(anomaly) else "passed")
    assert judged[suite_of(anomaly)]["why"].startswith(f"1 of 40 rows are `{anomaly}`: such a message ")


def test_a_failure_at_a_subscription_names_the_subscription(planted: Planted, judge: Judge) -> None:
    planted.mark(Anomaly.DELIVERED_OUT_OF_ORDER, in_log=False)
    why = judge(planted, only="ordering")["ordering"]["why"]
    assert why.startswith("1 of 40 rows are `delivered_out_of_order`: such a message ")
    assert why.endswith(f"; the first is producer-1 #0 on {CLUSTER}, subscription `{SUBSCRIPTION}`.")


def test_the_subscription_is_named_also_if_the_log_is_out_of_order_too(planted: Planted, judge: Judge) -> None:
    planted.mark(Anomaly.STORED_OUT_OF_ORDER)
    planted.mark(Anomaly.DELIVERED_OUT_OF_ORDER, in_log=False)
    why = judge(planted, only="ordering")["ordering"]["why"]
    assert why.endswith(f" on {CLUSTER}; failed too: delivered_out_of_order (subscription `{SUBSCRIPTION}`).")


def test_a_sample_begins_with_its_message(planted: Planted, judge: Judge) -> None:
    planted.mark(Anomaly.LOST)
    sample = about(judge(planted, only="completeness")["completeness"], Anomaly.LOST)["samples"][0]
    assert list(sample)[:3] == ["producer", "seq", "run_id"]


@pytest.fixture(scope="module")
def everything(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run with every anomaly, one more of each illegal than of the one before, and two of each legal."""
    planted = plant(tmp_path_factory.mktemp("everything"))
    for number, anomaly in NUMBERED:
        planted.mark(anomaly, legal=True, count=2, in_log=False)
        planted.mark(anomaly, count=number)
    return judged_by(spark, planted)


@pytest.mark.parametrize(("number", "anomaly"), NUMBERED)
def test_every_illegal_anomaly_is_found_and_counted(everything: dict[str, Any], number: int, anomaly: Anomaly) -> None:
    entry = about(everything[suite_of(anomaly)], anomaly)
    assert (entry["verdict"], entry["unexpected"], entry["rows"]) == ("failed", number, 40)
    assert [sample["seq"] for sample in entry["samples"]] == list(range(number))


@pytest.mark.parametrize("anomaly", JUDGED)
def test_every_legal_anomaly_is_counted_apart(everything: dict[str, Any], anomaly: Anomaly) -> None:
    assert about(everything[suite_of(anomaly)], anomaly)["legal"] == 2


def test_legal_anomalies_fail_nothing(planted: Planted, judge: Judge) -> None:
    for anomaly in JUDGED:
        planted.mark(anomaly, legal=True, count=3)
    judged = judge(planted, only=ON_MESSAGES)
    assert {judged[suite]["verdict"] for suite in ON_MESSAGES} == {"passed"}
    assert judged["ordering"]["why"].endswith(
        "legal under the guarantee: 3 stored_out_of_order, 3 delivered_out_of_order, 3 position_regressed, "
        "3 two_active_consumers. Not applicable: `key_on_two_consumers` (no subscription is key_shared)."
    )


def test_what_is_unproven_makes_completeness_unknown_and_not_failed(planted: Planted, judge: Judge) -> None:
    planted.mark(Anomaly.UNPROVEN, legal=True, count=2)
    judgement = judge(planted, only="completeness")["completeness"]
    entry = about(judgement, Anomaly.UNPROVEN)
    assert (judgement["verdict"], entry["verdict"], entry["undecided"]) == ("unknown", "unknown", 2)
    assert len(entry["samples"]) == 2
    assert judgement["why"].startswith("2 of 40 rows are `unproven`")


def test_a_loss_weighs_more_than_what_is_unproven(planted: Planted, judge: Judge) -> None:
    planted.mark(Anomaly.UNPROVEN, legal=True)
    planted.mark(Anomaly.LOST)
    assert judge(planted, only="completeness")["completeness"]["verdict"] == "failed"


def test_all_rows_are_counted_and_few_are_shown(planted: Planted, judge: Judge) -> None:
    row = planted.messages[0]
    planted.messages += [{**row, "seq": seq} for seq in range(20, 310)]
    planted.mark(Anomaly.LOST, count=305)
    entry = about(judge(planted, only="completeness")["completeness"], Anomaly.LOST)
    assert (entry["unexpected"], len(entry["samples"])) == (305, 20)


def test_an_empty_table_is_no_data(planted: Planted, judge: Judge) -> None:
    planted.messages = []
    judged = judge(planted, only=ON_MESSAGES)
    for suite in ON_MESSAGES:
        assert (judged[suite]["verdict"], judged[suite]["evaluated"]) == ("no_data", 0)
        assert {entry["verdict"] for entry in judged[suite]["expectations"]} - {"not_applicable"} == {"no_data"}


def test_messages_of_which_none_was_acknowledged_are_no_data(planted: Planted, judge: Judge) -> None:
    planted.messages = [{**row, "outcome": "unknown"} for row in planted.messages]
    judged = judge(planted, only=ON_MESSAGES)
    assert {judgement["verdict"] for judgement in judged.values()} == {"no_data"}


def test_a_phantom_fails_even_where_nothing_was_acknowledged(planted: Planted, judge: Judge) -> None:
    planted.messages = [{**row, "outcome": None} for row in planted.messages]
    planted.mark(Anomaly.PHANTOM)
    assert judge(planted, only="completeness")["completeness"]["verdict"] == "failed"


@pytest.mark.parametrize("column", ["anomalies", "illegal"])
def test_a_row_that_nobody_judged_is_undecided(planted: Planted, judge: Judge, column: str) -> None:
    planted.messages[4][column] = None
    judgement = judge(planted, only="ordering")["ordering"]
    assert judgement["verdict"] == "unknown"
    applicable = [entry for entry in judgement["expectations"] if entry["verdict"] != "not_applicable"]
    assert {entry["undecided"] for entry in applicable} == {1}


def test_a_null_among_the_names_is_undecided(planted: Planted, judge: Judge) -> None:
    planted.messages[4]["illegal"] = [None]
    assert judge(planted, only="uniqueness")["uniqueness"]["verdict"] == "unknown"


def test_an_anomaly_that_only_messages_has_is_a_doubt(planted: Planted, judge: Judge) -> None:
    planted.mark(Anomaly.LOST)
    planted.anomalies.clear()
    judged = judge(planted, only=["completeness", "ordering"])
    assert judged["completeness"]["verdict"] == "unknown"
    assert "`messages` has 1 illegal `lost`, and `anomalies` has 0" in judged["completeness"]["why"]
    assert "failed" not in {entry["verdict"] for entry in judged["completeness"]["expectations"]}
    assert judged["ordering"]["verdict"] == "passed"


def test_an_anomaly_that_only_anomalies_has_is_a_doubt(planted: Planted, judge: Judge) -> None:
    planted.mark(Anomaly.STORED_TWICE, legal=True)
    planted.messages[0] |= {"anomalies": []}
    judged = judge(planted, only=["uniqueness", "completeness"])
    assert judged["uniqueness"]["verdict"] == "unknown"
    assert judged["completeness"]["verdict"] == "passed"


def test_an_anomaly_of_an_unknown_name_is_asked_for_by_nothing_and_is_a_doubt(planted: Planted, judge: Judge) -> None:
    planted.messages[0] |= {"anomalies": ["losst"], "illegal": ["losst"]}
    judged = judge(planted, only=ON_MESSAGES)
    assert {judgement["verdict"] for judgement in judged.values()} == {"unknown"}


@pytest.mark.parametrize(
    "names",
    [
        {"anomalies": ["losst"]},
        {"anomalies": [None]},
        {"anomalies": None, "illegal": ["lost"]},
        {"anomalies": ["lost"], "illegal": [None]},
    ],
)
def test_a_row_with_an_unknown_name_or_one_that_was_not_found_contradicts_itself(
    planted: Planted, names: dict[str, Any]
) -> None:
    planted.messages[0] |= names
    assert count_messages(planted.write()).contradictory == 1


def test_the_samples_are_the_first_messages_of_a_group_that_may_break_an_expectation(planted: Planted) -> None:
    for row in planted.messages[1:30]:
        row["anomalies"] = ["lost"]
    for row in planted.messages[30:37]:
        row["illegal"] = None
    for row in planted.messages[37:]:
        row["anomalies"] = None
    # A message without a readable seq comes first.
    planted.messages[1] |= {"subscription": None, "seq": None}

    groups = read_message_groups(planted.write())

    samples = {rows: [key for key, _ in found] for rows, found in zip(groups["rows"], groups["samples"], strict=True)}
    assert {rows: len(keys) for rows, keys in samples.items()} == {1: 0, 7: 7, 3: 3, 29: MOST_SAMPLES}
    assert samples[29][0] == [CLUSTER, "", "producer-1", -1]
    assert samples[29] == sorted(samples[29])


@pytest.mark.parametrize("without_messages", [False, True])
def test_groups_have_their_columns_with_and_without_messages(planted: Planted, without_messages: bool) -> None:
    if without_messages:
        planted.messages.clear()
    groups = read_message_groups(planted.write())
    assert list(groups.columns) == ["anomalies", "illegal", "rows", "samples"]
    assert {str(kind) for kind in groups.dtypes} == {"object"}
    assert len(groups) == (not without_messages)


def test_times_of_samples_are_in_utc_on_every_machine(monkeypatch: pytest.MonkeyPatch, planted: Planted) -> None:
    planted.mark(Anomaly.LOST)
    planted.messages[0]["sent_at"] = 1_000_000
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        groups = read_message_groups(planted.write())
    finally:
        monkeypatch.undo()
        time.tzset()
    ((_, row),) = (sample for samples in groups["samples"] for sample in samples)
    assert row["sent_at"] == datetime(1970, 1, 1, 0, 0, 1)


def test_an_illegal_anomaly_that_was_not_found_is_a_doubt(planted: Planted, judge: Judge) -> None:
    planted.mark(Anomaly.LOST)
    planted.messages[0]["anomalies"] = []
    assert judge(planted, only="completeness")["completeness"]["verdict"] == "unknown"


def test_a_subscription_that_no_row_is_about_is_a_doubt(planted: Planted, judge: Judge) -> None:
    planted.messages = [row for row in planted.messages if row["subscription"] is None]
    judgement = judge(planted, only="completeness")["completeness"]
    assert judgement["verdict"] == "unknown"
    assert "no row of `messages` is about subscription `audit` on `mycluster`" in judgement["why"]


def test_the_doubts_name_what_is_wrong(planted: Planted) -> None:
    run = planted.write()
    counts = replace(
        count_messages(run),
        places=frozenset(),
        anomalies={("losst", True): 1, ("lost", True): 3, ("unproven", True): 2},
    )
    tally = Tally(rows=counts.rows, unexpected=0, undecided=2, legal=0)
    assert list(doubt_messages({"lost": replace(tally, legal=3), "unproven": tally}, counts, run)) == [
        "`anomalies` holds an unknown anomaly, `losst`",
        f"no row of `messages` is about the log of `{CLUSTER}`",
        f"no row of `messages` is about subscription `{SUBSCRIPTION}` on `{CLUSTER}`",
    ]


def test_rows_of_another_run_are_a_doubt(planted: Planted, judge: Judge) -> None:
    planted.messages[0]["run_id"] = "yesterday"
    assert judge(planted, only="completeness")["completeness"]["verdict"] == "unknown"


def test_a_table_that_cannot_be_read_leaves_the_other_suites_judged(planted: Planted, judge: Judge) -> None:
    run = planted.write()
    for file in Path(run.table("messages")).glob("*.parquet"):
        file.write_bytes(b"no Parquet")
    judged = judge(run)
    assert {judged[suite]["verdict"] for suite in ON_MESSAGES} == {"unknown"}
    assert (judged["placement"]["verdict"], judged["recovery"]["verdict"]) == ("passed", "passed")


def test_a_missing_table_is_unknown_and_named(planted: Planted, judge: Judge) -> None:
    run = planted.write()
    for file in Path(run.table("anomalies")).iterdir():
        file.unlink()
    Path(run.table("anomalies")).rmdir()
    judged = judge(run, only="ordering")
    assert judged["ordering"]["verdict"] == "unknown"
    assert "anomalies is missing" in judged["ordering"]["why"]


def test_data_docs_show_what_failed(planted: Planted, judge: Judge) -> None:
    from brokerproof_judging.suites.data_docs import locate_data_docs

    planted.mark(Anomaly.LOST)
    run = planted.write()
    judged = judge(run, data_docs=True)
    assert {judgement["data_docs"] for judgement in judged.values()} == {locate_data_docs(run)}
    pages = [page.read_text(encoding="utf-8") for page in Path(locate_data_docs(run)).parent.rglob("*.html")]
    description = about(judged["completeness"], Anomaly.LOST)["description"]
    assert any(description in page and "1 of 40 against it" in page for page in pages)


def test_data_docs_ask_no_other_host_and_name_run_scenario_and_suite(planted: Planted, judge: Judge) -> None:
    planted.mark(Anomaly.LOST)
    run = planted.write()
    from brokerproof_judging.suites.data_docs import locate_data_docs

    judge(run, only=["completeness", "ordering"], data_docs=True)
    site = Path(locate_data_docs(run)).parent
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    elsewhere = re.compile(
        r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)=["'](?:https?:)?//|url\(["']?(?:https?:)?//"""
    )
    assert len(pages) >= 5
    assert [page.name for page, text in pages.items() if elsewhere.search(text) or "<script" in text] == []
    index = pages[site / "index.html"]
    assert f"{run.scenario.name}, run {run.run_id}" in index
    linked = re.findall(r'<a href="(validations/[^"]+)">(\w+)</a></th><td>(.)', index)
    assert [(suite, sign) for _, suite, sign in linked] == [("completeness", "✗"), ("ordering", "✓")]
    for path, suite, _ in linked:
        text = (site / path).read_text(encoding="utf-8")
        assert run.run_id in path
        assert f"{suite} / {run.run_id}" in text


def test_data_docs_that_cannot_be_written_change_no_verdict(planted: Planted, judge: Judge) -> None:
    planted.mark(Anomaly.LOST)
    run = planted.write()
    Path(run.path("report")).write_text("in the way", encoding="utf-8")
    judged = judge(run, only=["completeness", "ordering"], data_docs=True)
    assert judged["completeness"]["verdict"] == "failed"
    assert judged["ordering"]["verdict"] == "passed"
    assert [(bool(each["data_docs_error"]), each["data_docs"]) for each in judged.values()] == [(True, None)] * 2


def test_the_data_docs_of_an_earlier_judgement_are_replaced(planted: Planted, judge: Judge) -> None:
    run = planted.write()
    stale = Path(run.path("report", "data_docs", "stale.html"))
    stale.parent.mkdir(parents=True)
    stale.write_text("of yesterday", encoding="utf-8")
    assert judge(run, only="ordering", data_docs=True)["ordering"]["data_docs"]
    assert not stale.exists()


def test_a_result_fits_into_json_with_nothing_left_out(planted: Planted, judge: Judge) -> None:
    planted.mark(Anomaly.LOST)
    sample = about(judge(planted, only="completeness")["completeness"], Anomaly.LOST)["samples"][0]
    assert json.loads(json.dumps(sample)) == sample
    assert sample["sent_at"].startswith("1970-01-01T00:00:00")
