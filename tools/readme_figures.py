"""Writes what the last runs measured into README.md and docs/what-runs-showed.md: `make figures`.

A page marks a table by a comment before it, `<!-- figures: NAME -->`. A run counts for a row if it came to what its
scenario expects, on the scenario and the topology as they are now. A row that no such run is found for stays as it is
and is marked with a star. The rows' order, rows of the page's own, and what happens in a scenario in its own words,
stay too.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from brokerproof.checks import load_scenario
from brokerproof.errors import BrokerproofError, InputError
from brokerproof.experiment.scenario import Scenario
from brokerproof.results.outcome import outcome, read_judgement
from brokerproof.results.publish_latencies import PICTURE
from brokerproof.results.regressions import digest
from brokerproof.run.directory import Run
from brokerproof.settings import Settings, from_environment

PAGES = ("README.md", "docs/what-runs-showed.md")
_SHORT_SESSION_MS = 8000
_BROKERS = {"settings.broker.metadataStoreSessionTimeoutMillis": _SHORT_SESSION_MS}
_BOOKIES = {"settings.bookie.zkTimeout": _SHORT_SESSION_MS}
_BOTH = {**_BROKERS, **_BOOKIES}
_NOTHING = "nothing fails"


class NoRunError(BrokerproofError):
    """No run was found that a row could be taken from."""


@dataclass(frozen=True)
class Measured:
    """A run, by what it came to."""

    run: Run

    @cached_property
    def outcome(self) -> Mapping[str, Any]:
        return outcome(self.run)

    @cached_property
    def values(self) -> Mapping[tuple[str, str], float | None]:
        """The measurements by metric and subject."""
        return {(row.metric, row.subject or ""): row.value for row in read_judgement(self.run).measurements}

    @cached_property
    def evidence(self) -> Mapping[tuple[str, str], str]:
        """What each measurement was read from, by metric and subject."""
        return {(row.metric, row.subject or ""): row.evidence for row in read_judgement(self.run).measurements}

    @property
    def acked(self) -> str:
        return f"{self.outcome['counts']['acked']:,}"

    def found(self, anomaly: str) -> int:
        """How often the anomaly was found, legal or not."""
        counts = self.outcome["counts"]
        return int(counts["legal"][anomaly] + counts["illegal"][anomaly])

    def of_faults(self, metric: str) -> dict[str, float | None]:
        """A metric of recovery, by fault."""
        return {fault: values.get(metric) for fault, values in self.outcome["recovery"].items()}

    def of_fault(self, fault: str, metric: str) -> float | None:
        return self.of_faults(metric)[fault]

    def worst(self, metric: str) -> float | None:
        """The largest one of all faults; None where none was measured."""
        return max((value for value in self.of_faults(metric).values() if value is not None), default=None)

    def lost_everywhere(self) -> int:
        """Acked messages that no cluster holds any more."""
        if not self.outcome["recovery"]:
            return self.found("lost")
        before, after = self.of_faults("rpo_messages"), self.of_faults("lost_later_messages")
        return max(int((before[fault] or 0) + (after[fault] or 0)) for fault in before)


class Runs:
    """The runs in a directory, newest first."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._runs = sorted(
            (Run(str(file.parent)) for file in settings.runs.glob("*/run.json")),
            key=lambda run: str(run.facts["created_at"]),
            reverse=True,
        )

    def scenario(self, name: str, changes: Mapping[str, Any] | None = None) -> Scenario:
        """A scenario as it is now."""
        return load_scenario(self._settings.scenario_file(name), self._settings.topologies, changes)[0]

    def names(self) -> list[str]:
        """All scenarios."""
        return [file.stem for file in self._settings.scenario_files()]

    def last(self, name: str, changes: Mapping[str, Any] | None = None) -> Measured:
        """The last run that counts, with these changes to the scenario. Raises NoRunError."""
        scenario, topology = load_scenario(self._settings.scenario_file(name), self._settings.topologies, changes)
        wanted = digest({"scenario": scenario.model_dump(mode="json"), "topology": topology.model_dump(mode="json")})
        for run in self._runs:
            if run.facts["scenario"]["name"] == name and wanted == digest(
                {"scenario": run.facts["scenario"], "topology": run.facts["topology"]}
            ):
                measured = Measured(run)
                if measured.outcome["met"]:
                    return measured
        said = "".join(f" --set {shlex.quote(f'{path}={json.dumps(to)}')}" for path, to in (changes or {}).items())
        raise NoRunError(f"no run counts, it takes one of: brokerproof run {name}{said}")


Row = Callable[[], Sequence[str]]
Rows = Mapping[str, Row]


def scenarios(runs: Runs) -> Rows:
    """A row a scenario; the second cell, what happens, is the page's own where there is one."""

    def row(name: str) -> Sequence[str]:
        run, scenario = runs.last(name), runs.scenario(name)
        everywhere = run.lost_everywhere()
        at_home = run.found("lost") - everywhere
        gap, rto = run.worst("longest_ack_gap_s"), run.worst("rto_s")
        return (
            scenario.title,
            _expected(scenario),
            run.acked,
            f"{everywhere:,}" + (f", and {at_home:,} at home only" if at_home else ""),
            _NOTHING if gap is None else _seconds(gap),
            _NOTHING if rto is None else f"{rto:.0f} s",
            _copied(run),
        )

    return {f"`{name}`": lambda name=name: row(name) for name in runs.names()}  # type: ignore[misc]


def _expected(scenario: Scenario) -> str:
    least = (f"{number:,} or more `{anomaly}`" for anomaly, number in scenario.expect.at_least.items())
    return ", ".join([str(scenario.expect.verdict), *least])


def _copied(run: Measured) -> str:
    """When nothing was under-replicated any more, after each fault that left something so."""
    after = run.of_faults("rereplicate_s")
    if not after:
        return _NOTHING
    left = run.values.get(("under_replicated_ledgers", "end_of_run"))
    last = list(after)[-1]
    said = {fault: _seconds(value) for fault, value in after.items() if value is not None}
    if left and after[last] is None:
        said[last] = "never"
    if not said:
        return "nothing to copy"
    return ", ".join(said.values()) if len(after) == 1 else ", ".join(f"{said[one]} (`{one}`)" for one in said)


def datacenter_loss(runs: Runs) -> Rows:
    """One run of `sync_datacenter_loss`, a figure a row."""

    def of(read: Callable[[Measured], str]) -> Row:
        return lambda: (read(runs.last("sync_datacenter_loss")),)

    def recovery(metric: str) -> Callable[[Measured], str]:
        return lambda run: _seconds(run.worst(metric))

    def out_of_order(run: Measured) -> str:
        return f"{run.found('stored_out_of_order') + run.found('delivered_out_of_order'):,}"

    return {
        "messages published / acked": of(lambda run: f"{run.outcome['counts']['messages']:,} / {run.acked}"),
        "lost": of(lambda run: f"{run.found('lost'):,}"),
        "stored twice (legal under at-least-once)": of(lambda run: f"{run.found('stored_twice'):,}"),
        "delivered twice (legal)": of(lambda run: f"{run.found('delivered_twice'):,}"),
        "out of order": of(out_of_order),
        "longest gap in acks": of(recovery("longest_ack_gap_s")),
        "RTO (effect until the rate was held again)": of(lambda run: f"{run.worst('rto_s'):.0f} s"),
        "failure detected / topic reassigned": of(
            lambda run: f"{recovery('detect_s')(run)} / {recovery('reassign_s')(run)}"
        ),
        "time to re-replicate": of(recovery("rereplicate_s")),
        "longest time between two samples": of(lambda run: _seconds(run.values["sampling_gap_s", "run"])),
        "wall time, of which phases": of(
            lambda run: f"{run.outcome['seconds']['total']:.0f} s, {run.outcome['seconds']['phases']:.0f} s"
        ),
    }


def second_architecture(runs: Runs) -> Rows:
    """What is left when a datacenter is destroyed with its disks: three runs side by side."""
    names = ("geo_datacenter_destroyed", "control_geo_datacenter_destroyed_behind", "active_active_region_loss")

    def of(read: Callable[[Measured], str]) -> Row:
        return lambda: [read(runs.last(name)) for name in names]

    def fault(run: Measured, metric: str) -> float:
        return run.of_fault("eu_destroyed", metric) or 0

    return {
        "acked": of(lambda run: run.acked),
        "RPO: acked, and no cluster holds it any more": of(
            lambda run: f"{fault(run, 'rpo_messages'):,.0f} messages, {fault(run, 'rpo_s'):.1f} s"
        ),
        "verdict": of(lambda run: str(run.outcome["verdict"])),
        "stored twice": of(lambda run: f"{run.found('stored_twice'):,}"),
        "longest gap in acks": of(lambda run: _seconds(run.worst("longest_ack_gap_s"))),
    }


def settings(runs: Runs) -> Rows:
    """What decides how long a lost datacenter is felt."""

    def row(name: str, changes: Mapping[str, Any]) -> Row:
        def read() -> Sequence[str]:
            values = runs.last(name, changes).outcome["recovery"]["eu_destroyed"]
            metrics = ("detect_s", "reassign_s", "first_ack_s", "rto_s", "rereplicate_s")
            return [f"{values[one]:.0f} s" if one == "rto_s" else _seconds(values.get(one)) for one in metrics]

        return read

    return {
        "Pulsar's own (`sync_datacenter_loss`)": row("sync_datacenter_loss", {}),
        "metadata session of the brokers 8 s instead of 30": row("sync_datacenter_loss", _BROKERS),
        "metadata session of the bookies 8 s instead of 30": row("sync_datacenter_loss", _BOOKIES),
        "both (`sync_datacenter_loss_tuned`)": row("sync_datacenter_loss_tuned", {}),
        "Pulsar's own, brokers of us started by a monitor (`sync_datacenter_loss_cold`)": row(
            "sync_datacenter_loss_cold", {}
        ),
        "both, brokers of us started by a monitor": row("sync_datacenter_loss_cold", _BOTH),
    }


def standby(runs: Runs) -> Rows:
    """The same failure with all brokers running, and with those of the other region to be started."""

    def of(run: Measured) -> str:
        return f"{run.worst('rto_s'):.0f} s, {_seconds(run.worst('longest_ack_gap_s'))}"

    def pair(*given: tuple[str, Mapping[str, Any]]) -> Row:
        return lambda: [of(runs.last(name, changes)) for name, changes in given]

    return {
        "`sync_datacenter_loss`": pair(("sync_datacenter_loss", {}), ("sync_datacenter_loss_cold", {})),
        "`active_active_region_loss`": pair(("active_active_region_loss", {}), ("active_active_region_loss_cold", {})),
        "`sync_datacenter_loss_tuned`": pair(("sync_datacenter_loss_tuned", {}), ("sync_datacenter_loss_cold", _BOTH)),
    }


def moves(runs: Runs) -> Rows:
    """What a consumer got twice and never got that went on in the other datacenter."""
    names = ("geo_replicated_subscription", "geo_unreplicated_subscription")

    def of(metric: str) -> Row:
        return lambda: [f"{runs.last(name).values[metric, 'mover'] or 0:,.0f}" for name in names]

    def before(run: Measured) -> str:
        # Only told beside the measurement: "…, of 29353 that were delivered before it moved".
        told = re.search(r"of (\d+) that were delivered before", run.evidence["repeated_by_move", "mover"])
        return f"{int(told[1]):,}" if told else "–"

    return {
        "got before it moved": lambda: [before(runs.last(name)) for name in names],
        "got again": of("repeated_by_move"),
        "never got": of("missed_by_move"),
    }


def latencies(runs: Runs) -> Rows:
    """What a copy far away costs a publish, at the middle and at the 99th percentile in milliseconds."""

    def row(subject: str) -> Row:
        def read() -> Sequence[str]:
            told = runs.last("sync_write_latency").outcome
            found, added = told["latency"][subject], told["link"][subject]["eu>us"]
            return [
                *(f"{each['p50_ms']:.1f} and {each['p99_ms']:.0f}" for each in found.values()),
                f"{added['p50_ms']:.2f} and {added['p99_ms']:.0f}",
            ]

        return read

    distances = {"5 ms": "at_5_ms", "20 ms": "at_20_ms", "50 ms": "at_50_ms"}
    # In its first phase the system is still cold; in its last one the link is without delay again.
    return {"0 ms": row("recovery")} | {name: row(subject) for name, subject in distances.items()}


def replication(runs: Runs) -> Rows:
    """How far replication was behind in the last phase, eu to us and us to eu."""

    def row(name: str, changes: Mapping[str, Any]) -> Row:
        def read() -> Sequence[str]:
            run = runs.last(name, changes)
            return [*(_lag(run, which) for which in ("p50", "p99", "max")), _seconds(run.worst("agree_s")), _rpo(run)]

        return read

    return {
        "`geo_nominal`": row("geo_nominal", {}),
        "the same, published on eu only": row("geo_nominal", {"workload.produce_on": ["cluster-eu"]}),
        "the same, published on us only": row("geo_nominal", {"workload.produce_on": ["cluster-us"]}),
        "`geo_datacenter_loss_and_return`": row("geo_datacenter_loss_and_return", {}),
        "`geo_link_cut`, 10 ms each way": row("geo_link_cut", {}),
        "`geo_datacenter_destroyed`": row("geo_datacenter_destroyed", {}),
        "`active_active_region_loss`": row("active_active_region_loss", {}),
    }


def _lag(run: Measured, which: str) -> str:
    ways = ("cluster-eu>cluster-us", "cluster-us>cluster-eu")
    found = [run.values.get((f"replication_lag_{which}_ms", f"{way}/recovery")) for way in ways]
    return " and ".join(_milliseconds(value) for value in found if value is not None)


def _rpo(run: Measured) -> str:
    messages, seconds = run.worst("rpo_messages"), run.worst("rpo_s")
    return _NOTHING if messages is None else f"{messages:,.0f} messages, {seconds or 0:.1f} s"


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"


def _milliseconds(value: float) -> str:
    return f"{value:.0f} ms" if value < 1000 else f"{value / 1000:.1f} s"


TABLES: Mapping[str, Callable[[Runs], Rows]] = {
    "scenarios": scenarios,
    "datacenter_loss": datacenter_loss,
    "second_architecture": second_architecture,
    "settings": settings,
    "standby": standby,
    "moves": moves,
    "latencies": latencies,
    "replication": replication,
}
_MARK = re.compile(r"<!-- figures: (\w+) -->")


def filled(text: str, runs: Runs, say: Callable[[str], None]) -> str:
    """The page with its tables filled. Raises InputError for a mark of no table and for a row twice."""
    lines: list[str] = []
    rest: Iterator[str] = iter(text.splitlines())
    for line in rest:
        lines.append(line)
        if mark := _MARK.fullmatch(line):
            if mark[1] not in TABLES:
                raise InputError(f"`{mark[1]}` is no table of figures", remedy=f"use one of {', '.join(TABLES)}")
            lines += [next(rest), next(rest)]
            kept: dict[str, list[str]] = {}
            after: list[str] = []
            for row in rest:
                if not row.startswith("|"):
                    after = [row]
                    break
                cells = [cell.strip() for cell in row.strip("|").split(" | ")]
                label = cells[0].removesuffix(" *")
                if label in kept:
                    raise InputError(f"the table `{mark[1]}` has two rows `{label}`", remedy="remove one of them")
                kept[label] = cells[1:]
            lines += _table(kept, TABLES[mark[1]](runs), own=1 if mark[1] == "scenarios" else 0, say=say)
            lines += after
    return "\n".join(lines) + "\n"


def _table(kept: Mapping[str, Sequence[str]], rows: Rows, *, own: int, say: Callable[[str], None]) -> Iterator[str]:
    """The rows in the page's order, then those that it lacks; `own` cells after the first are the page's."""
    for name in [*kept, *(name for name in rows if name not in kept)]:
        before = kept.get(name)
        if name not in rows:
            yield f"| {' | '.join([name, *kept[name]])} |"
            continue
        try:
            cells = rows[name]()
        except NoRunError as missing:
            say(str(missing))
            if before is None:
                continue
            yield f"| {' | '.join([f'{name} *', *before])} |"
        else:
            yield f"| {' | '.join([name, *(before or cells)[:own], *cells[own:]])} |"


def main() -> int:
    """Fill the pages' tables; exit status 1 where a row had no run to be taken from."""
    found = from_environment()
    runs = Runs(found)
    said: list[str] = []
    for page in PAGES:
        path = found.home / page
        path.write_text(filled(path.read_text(encoding="utf-8"), runs, said.append), encoding="utf-8")
    try:
        picture = runs.last("sync_write_latency").run.path(PICTURE)
        shutil.copyfile(Path(picture), found.home / "docs" / "publish-latency.svg")
    except NoRunError:
        pass  # said above, in the rows of the same run
    for sentence in dict.fromkeys(said):
        print(sentence, file=sys.stderr)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
