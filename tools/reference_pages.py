"""Writes the reference pages of docs/ from the models and tables: `make docs`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from brokerproof.directories import Directories
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.guarantees import Anomaly, Guarantee
from brokerproof.experiment.metrics import METRICS, MINIMUM_CHANGE
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.states import STATES
from brokerproof.experiment.topology import Topology
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.reports.exports import RunDocument
from brokerproof.reports.topology_view import NODE_COLUMNS, dump_policies, list_nodes, summarize_topology
from brokerproof.results.regressions import LARGEST_TELLING_SPREAD, RULE, STEP
from brokerproof.run.directory import RunFacts, TimeAxis
from brokerproof.run.judgement import Judgement, JudgingFailure, Totals
from brokerproof.run.measurement import Measurement
from brokerproof.run.outcome import FirstOutcome, Outcome
from brokerproof.run.records import (
    ClientEpochs,
    ClientOrder,
    ClientRecordRead,
    ClusterHandover,
    ClusterKept,
    ClusterReuse,
    ClustersConfigured,
    ConsumerEnd,
    ConsumersStop,
    EarlyEnd,
    FaultEffective,
    FaultsUndone,
    FaultTargets,
    LoadEnd,
    LoadRates,
    LogRead,
    LogsRead,
    MissedRates,
    NotificationAttempt,
    ObservationsRequested,
    ObservationsWritten,
    PhaseTimes,
    ProducerEnd,
    Record,
    ReplicationDrain,
    ReplicationDrains,
    RunReleased,
    StepProblem,
    StepSeconds,
    SubscriptionDrain,
    SubscriptionDrains,
    TablesDeletion,
    TableSeal,
    TimelineProcess,
    WallClockNote,
    name_file,
)
from brokerproof.run.series import RunSeries
from brokerproof.run.tables import COLUMNS, ROWS
from brokerproof.settings import Settings, from_environment, variable
from brokerproof.suites.query_rules import FUNCTION_GROUPS, MOST_ITEMS
from brokerproof.systems.registry import list_systems, load_system
from engine_calls import fill_table

_NOTE = "`make docs` writes this page from the code; change the code, not the page.\n"


# The class of each kind of record, in the order of a run.
RECORDS: Sequence[type[Record]] = (
    StepSeconds,
    StepProblem,
    ClusterReuse,
    ClustersConfigured,
    TimelineProcess,
    WallClockNote,
    LoadRates,
    PhaseTimes,
    FaultTargets,
    FaultEffective,
    ClientOrder,
    ClientEpochs,
    EarlyEnd,
    FaultsUndone,
    MissedRates,
    ProducerEnd,
    LoadEnd,
    ConsumersStop,
    ConsumerEnd,
    SubscriptionDrains,
    ClientRecordRead,
    ReplicationDrains,
    LogRead,
    LogsRead,
    ObservationsRequested,
    ObservationsWritten,
    ClusterKept,
    ClusterHandover,
    RunReleased,
    TableSeal,
    Judgement,
    JudgingFailure,
    RunSeries,
    Outcome,
    FirstOutcome,
    TablesDeletion,
    NotificationAttempt,
)


def write_pages() -> dict[str, str]:
    """Return the text of each page by file name."""
    home = from_environment().home
    return {
        "scenario-reference.md": _write_page(
            "Fields of a scenario", chain(_describe_model(Scenario.model_json_schema()), _describe_client_settings())
        ),
        "topology-reference.md": _write_page(
            "Fields of a topology",
            chain(_describe_extends(), _describe_model(Topology.model_json_schema()), _describe_policies()),
        ),
        "topologies.md": _write_page("The shipped topologies", _describe_topologies()),
        "anomalies.md": _write_page("Anomalies, and when they are illegal", _tabulate_anomalies()),
        "measurements.md": _write_page("Measurements of placement and recovery", _tabulate_measurements()),
        "faults.md": _write_page("Kinds of fault", _tabulate_faults()),
        "tables.md": _write_page("A run's tables", _tabulate_tables()),
        "report-json.md": _write_page(
            "Fields of a run's report.json", _describe_model(RunDocument.model_json_schema(mode="serialization"))
        ),
        "sql-functions.md": _write_page("Functions that the SQL of a suite may call", _tabulate_functions()),
        "records.md": _write_page("What the steps of a run leave for each other", _tabulate_records()),
        "settings.md": _write_page("Settings of the machine", _tabulate_settings()),
        # Only one table of this page is made.
        "team.md": fill_table((home / "docs" / "team.md").read_text(encoding="utf-8"), home),
    }


def _write_page(title: str, lines: Iterator[str]) -> str:
    return f"# {title}\n\n{_NOTE}\n" + "\n".join(lines) + "\n"


def _describe_extends() -> Iterator[str]:
    yield "A file with `extends: NAME` has everything that `topologies/NAME.yaml` has, and states only the difference."
    yield "Its mappings are merged with those of NAME, key by key and at any depth. Its lists and plain values replace"
    yield "those of NAME, and `null` removes a key. `title` and `description` are always the file's own. NAME may"
    yield "extend another topology. A scenario's `overrides` are applied to the result.\n"
    yield "`settings: {extends: NAME}`, in a topology or in a scenario, does the same with the file"
    yield "`topologies/settings/NAME.yaml`.\n"
    yield "[topologies.md](topologies.md) shows the shipped topologies.\n"
    yield "Both are searched in all directories of `BROKERPROOF_TOPOLOGIES`, so a topology of yours can extend a"
    yield "shipped one.\n"


def _describe_topologies() -> Iterator[str]:
    yield "Each topology is shown as it is after `extends`, with every default. `.venv/bin/brokerproof topologies` also"
    yield "lists your own, and [topology-reference.md](topology-reference.md) has the fields of the files.\n"
    home = from_environment().home
    directories = Directories(paths=(home / "topologies",))
    scenarios = sorted((home / "dags" / "scenarios").glob("*.yaml"))
    for name in directories.list_files():
        summary, topology = summarize_topology(name, directories, scenarios)
        yield f"## {name}\n"
        yield f"{summary.title}.\n"
        yield f"{summary.description}\n"
        facts = {
            "extends": ", then ".join(f"[{base}](#{base})" for base in summary.extends) or "no other topology",
            "system": summary.system,
            "clusters": _list_names(summary.clusters),
            "regions": _list_names(summary.regions),
            "nodes": summary.nodes_in_words,
            **{policy: _list_names(names) for policy, names in summary.policies.items()},
            "used by": _list_names(summary.scenarios) or "no shipped scenario",
        }
        yield from ("| fact | value |", "|---|---|")
        yield from (f"| {fact} | {value} |" for fact, value in facts.items())
        yield f"\n| {' | '.join(NODE_COLUMNS)} |"
        yield f"|{'---|' * len(NODE_COLUMNS)}"
        yield from (f"| {' | '.join(row)} |" for row in list_nodes(topology))
        yield f"\n```yaml\n{dump_policies(topology)}```\n"


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _describe_client_settings() -> Iterator[str]:
    for name in list_systems():
        yield f"# Settings of the clients of `{name}`\n"
        yield "They are the fields of `workload.client`.\n"
        yield from _describe_model(load_system(name).client_settings.model_json_schema())


def _describe_policies() -> Iterator[str]:
    for name in list_systems():
        system = load_system(name)
        yield f"# Policies of a cluster of `{name}`\n"
        roles = ", ".join(f"`{role}`" for role in system.roles)
        yield f"These fields are beside `nodes`, whose roles are {roles}.\n"
        yield from _describe_model(system.policies.model_json_schema())


def _describe_model(schema: Mapping[str, Any]) -> Iterator[str]:
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    for name, model in {schema["title"]: schema, **definitions}.items():
        if "properties" not in model:
            continue
        yield f"## {name}\n"
        yield f"{model.get('description', '').strip().splitlines()[0]}\n"
        yield "| field | type | default | meaning |"
        yield "|---|---|---|---|"
        for field, content in model["properties"].items():
            required = field in model.get("required", [])
            default = "required" if required else f"`{content['default']}`" if "default" in content else ""
            meaning = content.get("description", "")
            yield f"| `{field}` | {_describe_type(content, definitions)} | {default} | {meaning} |"
        yield ""


def _describe_type(content: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "$ref" in content:
        name = content["$ref"].rsplit("/", 1)[1]
        values = definitions.get(name, {}).get("enum")
        return ", ".join(f"`{value}`" for value in values) if values else f"[{name}](#{name.lower()})"
    if "anyOf" in content:
        return " or ".join(_describe_type(one, definitions) for one in content["anyOf"] if one.get("type") != "null")
    if content.get("type") == "array":
        return f"list of {_describe_type(content.get('items', {}), definitions)}"
    if content.get("type") == "object":
        inner = content.get("additionalProperties")
        return f"map of {_describe_type(inner, definitions)}" if isinstance(inner, Mapping) else "map"
    if "enum" in content:
        return ", ".join(f"`{value}`" for value in content["enum"])
    return str(content.get("type", "any"))


def _tabulate_anomalies() -> Iterator[str]:
    yield "A message counts as acked if an attempt of it was acked, as failed if all of them failed, as not sent if"
    yield "there was none, else as unknown."
    yield "A scenario changes the last column by name: `tighten` makes an anomaly illegal, `loosen` makes it legal."
    yield "`unproven` makes the verdict `unknown`.\n"
    yield "| suite | anomaly | message … | illegal under |"
    yield "|---|---|---|---|"
    for anomaly in Anomaly:
        facts = anomaly.facts
        illegal = ", ".join(f"`{one}`" for one in Guarantee if one in facts.illegal_under) or "none"
        order = ", not for Shared" if facts.needs_order else ""
        proof = ", if samples prove that the consumers stayed the same" if facts.needs is Ability.MEMBERSHIP else ""
        yield f"| {facts.suite} | `{anomaly}` | {facts.meaning} | {illegal}{order}{proof} |"


def _tabulate_functions() -> Iterator[str]:
    yield "A query of a [suite](write-a-suite.md#what-a-query-can-see) may call these functions of Spark. Others are"
    yield "refused: they read files, the session or the JVM, give another result each time, or are of no use for"
    yield "a run's tables.\n"
    yield "| about | functions |"
    yield "|---|---|"
    for group, names in FUNCTION_GROUPS.items():
        yield f"| {group} | {_list_names(names.split())} |"
    yield f"\nA literal argument of `range` and of functions that repeat something is at most {MOST_ITEMS:,}."


def _tabulate_measurements() -> Iterator[str]:
    yield "A scenario sets bounds on them under `bounds`, by `metric` or by `metric/subject`.\n"
    yield "| suite | metric | unit | one per | meaning |"
    yield "|---|---|---|---|---|"
    for name, metric in METRICS.items():
        yield f"| {metric.suite} | `{name}` | {metric.unit} | {metric.subject} | {metric.meaning} |"
    yield "\n## States that are worth reaching\n"
    yield "`reached/STATE` is how often a run was in one of these states, which many bugs need. A scenario about a bug"
    yield "bounds it by `min: 1`, so that a run that never was in the state is `unknown`. A search counts the runs that"
    yield "were in each.\n"
    yield "| state | what it is |"
    yield "|---|---|"
    for state, meaning in STATES.items():
        yield f"| `{state}` | {meaning} |"
    yield "\n## When a value is missing\n"
    yield "A value that could not be measured is null, and its evidence says why. With a bound on it, the verdict is"
    yield "`unknown`.\n"
    yield "- A source that gives no answer is unknown: it counts neither as an owner elsewhere nor as an empty backlog."
    yield "- Another fault may cut off a detection, a reassignment, a repair, a drain or an agreement. It then took *at"
    yield "  least* the time until the last sample before that fault took effect. This breaks a shorter maximum, and"
    yield "  meets a shorter minimum that has no maximum beside it."
    yield "- A backlog is high if it is more than twice its highest value between the beginning of the steady phase and"
    yield "  the effect of the run's first fault, and exceeds that value by more than a tenth of its highest rise. A"
    yield "  smaller rise after a drain moves no end; the evidence says how long it lasted."
    yield "- A state at the end needs a proof that every fault was undone, and an answer that was asked for after that."
    yield "- If no node could tell a fault's targets when it was due, it is done to those known last. The story says"
    yield "  so, and each bound on a measurement of that fault is `unknown`."
    yield "- If the injection of a fault began more than 1 s after its time, the story says how late it was. What is"
    yield "  measured of the fault counts from the injection as it was."
    yield "\n## When a value has limits\n"
    yield "If a client itself stood still, or sent late by itself, it may have caused a part of what is measured of"
    yield "it. The columns `at_least` and `at_most` of the table `measurements` then hold what is proven without that"
    yield "part, and the whole. `at_least` alone is the time until a wait was cut off. A bound is broken or held if"
    yield "all values between the limits break or hold it. Otherwise the result is `unknown`.\n"
    yield "- A standstill may have caused what is late from its beginning on, and after its end for the same time"
    yield "  again, because the client then works off what came due meanwhile."
    yield "- A detection, a reassignment, a repair, a drain or an agreement may have ended in a time of more than 5 s"
    yield "  in which the monitor took no sample. If it took none for more than 5 s later, a value may have been high"
    yield "  again until then. If a source gave no answer in the last 5 s, the value is not known."
    yield "- A gap in samples is no failure of the system. A `sampling_gap_s` above its bound is `unknown`."
    yield "- Gaps and first acks count from ack to ack, also in a partition that is sent few messages. Set a bound on"
    yield "  them only if each partition gets messages more often than the bound."
    yield "\n## When a run is worse than those before it\n"
    yield f"{RULE}\n"
    yield "The smallest differences that count are"
    yield ", ".join(f"{change:g} {unit}" for unit, change in MINIMUM_CHANGE.items()) + ". A scenario sets the share"
    yield "and the number of runs under [`regression`](scenario-reference.md#regressionrule). A metric whose usual"
    yield f"spread is over {LARGEST_TELLING_SPREAD:.0%} of its usual value varies too much for a change of {STEP:.0%}"
    yield "to be told: `brokerproof history` says then which change can be. With `--compare RUN RUN` it shows two runs"
    yield "side by side, and which differences are larger than the noise of the runs before."


def _tabulate_faults() -> Iterator[str]:
    yield "| kind | what it does |"
    yield "|---|---|"
    for name, kind in FAULT_KINDS.items():
        yield f"| `{name}` | {(type(kind).__doc__ or '').strip().splitlines()[0]} |"


def _tabulate_records() -> Iterator[str]:
    yield "JSON under `state/` of a run's directory, written whole, with the version of its model. A record that breaks"
    yield "its model is refused. Moments are microseconds since the epoch.\n"
    yield "| file | what it says | fields |"
    yield "|---|---|---|"
    for kind in RECORDS:
        file = name_file(kind, kind.KEY and kind.KEY.upper())
        fields = ", ".join(f"`{field.alias or name}`" for name, field in kind.model_fields.items())
        yield f"| `{file}` | {(kind.__doc__ or '').splitlines()[0]} | {fields} |"
    for title, model in (
        ("What the judgement and the outcome count", Totals),
        ("A measurement", Measurement),
        ("Whether a subscription has drained", SubscriptionDrain),
        ("Whether replication has drained", ReplicationDrain),
        ("What is known before a run: run.json", RunFacts),
        ("TimeAxis", TimeAxis),
    ):
        yield f"\n## {title}\n"
        yield "| field | type | meaning |"
        yield "|---|---|---|"
        schema = model.model_json_schema()
        for name, content in schema["properties"].items():
            written = _describe_type(content, schema.get("$defs", {}))
            yield f"| `{name}` | {written} | {content.get('description', '')} |"


def _tabulate_settings() -> Iterator[str]:
    yield "Each setting is an environment variable. `.venv/bin/brokerproof doctor` shows the directories that count."
    yield "Every command refuses a wrong value with the variable's name and a remedy.\n"
    yield "| variable | meaning | default |"
    yield "|---|---|---|"
    for name, field in Settings.model_fields.items():
        extra = field.json_schema_extra
        yield f"| `{variable(name)}` | {field.description} | {extra['default'] if isinstance(extra, dict) else ''} |"
    yield "| `AIRFLOW_CONN_SPARK_DEFAULT` | the Spark that runs the jobs | local |"
    database = (
        "the database of the embedded Airflow, like `postgresql://user:password@host/airflow`; each needs its own"
    )
    yield f"| `AIRFLOW__DATABASE__SQL_ALCHEMY_CONN` | {database} | SQLite in `var/` |"


def _tabulate_tables() -> Iterator[str]:
    yield "Parquet under `tables/` of a run's directory. Times are UTC timestamps in microseconds. All except"
    yield "`published_at` are of the run's time axis: the machine's monotonic clock, plus the offset that `run.json`"
    yield "has in `time_axis`. So a step of the wall clock does not change them. A process on another machine measures"
    yield "its own offset when it starts. [`BROKERPROOF_CLOCK_ERROR_MS`](settings.md) says by how much the clocks may"
    yield "differ.\n"
    for name, columns in COLUMNS.items():
        yield f"## {name}\n"
        yield f"{ROWS[name]}\n"
        yield "| column | type | meaning |"
        yield "|---|---|---|"
        for column in columns:
            yield f"| `{column.name}` | {column.type} | {column.meaning} |"
        yield ""


def main() -> int:
    """Write the pages. With `--check`, only print the pages that differ from the code, and return 1 if one does."""
    docs = from_environment().home / "docs"
    stale = [name for name, text in write_pages().items() if not _is_current(docs / name, text)]
    if "--check" in sys.argv:
        for name in stale:
            print(f"docs/{name} is not as the code makes it; run `make docs`", file=sys.stderr)
        return 1 if stale else 0
    for name, text in write_pages().items():
        (docs / name).write_text(text, encoding="utf-8")
    return 0


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
