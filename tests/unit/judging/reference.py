"""The anomalies of a history, found one by one as DESIGN.md's table words them, without Spark and without haste.

It shares nothing with the code it checks but the tables; loops over all pairs where the table speaks of two messages.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise
from typing import Any

from brokerproof.run.records import FaultsUndone

from .history import NAMESPACE, REPLICATED, History, Row

Place = tuple[str, bool, str, str, str | None, Any]
# Illegal under these guarantees only; never; and under every one are those that are not here.
ILLEGAL_UNDER = {
    **{name: {"at_least_once", "effectively_once"} for name in ("lost", "not_replicated", "undelivered", "unreadable")},
    "stored_twice": {"at_most_once", "effectively_once"},
    "delivered_from_two_positions": {"effectively_once"},
    "delivered_twice": set(),
    "redelivered_after_ack": set(),
    "unproven": set(),
}
OF_POSITIONS = ("delivered_from_elsewhere", "delivered_from_two_positions")


def position(row: Row) -> tuple[int, int, int] | None:
    if row.get("segment") is None or row["segment"] < 0:
        return None
    index = row.get("batch_index")
    return row["segment"], row["offset"], -1 if index is None else index


def identity(row: Row) -> Any:
    if row["producer"] is None or row["seq"] is None:
        return ("nobody", row["partition"], position(row), row["producer"], row["seq"])
    return (row["producer"], row["seq"])


def topic_of(row: Row) -> str:
    return str(row["topic"])


class Reference:
    def __init__(self, history: History, clock_error_us: int) -> None:
        self.history, self.error = history, clock_error_us
        self.found: set[Place] = set()
        # (anomaly, outcome of the message, whether it was found at a subscription)
        self.kinds: set[tuple[str, str | None, bool]] = set()
        # The rows of each table, by topic.
        self.rows = {
            table: {
                topic: list(rows) for topic, rows in groupby(sorted(getattr(history, table), key=topic_of), topic_of)
            }
            for table in ("publishes", "stored", "deliveries", "outputs")
        }
        undone = history.records[FaultsUndone]
        self.undone = isinstance(undone, FaultsUndone) and undone.undone

    def say(self, anomaly: str, cluster: str, topic: str, subscription: str | None, message: Any) -> None:
        legal = self.is_legal(anomaly, cluster, topic, subscription, message)
        self.found.add((anomaly, legal, cluster, topic, subscription, message))

    def is_legal(self, anomaly: str, cluster: str, topic: str, subscription: str | None, message: Any) -> bool:
        scenario = self.history.scenario
        of = Topic(self, topic)
        attempts = of.select_rows(of.attempts, message)
        home = attempts[0]["cluster"] if attempts else None
        outcome = of.outcome(message) if attempts else None
        self.kinds.add((anomaly, outcome, subscription is not None))
        if anomaly in scenario.loosen:
            wanted = scenario.loosen[anomaly]  # type: ignore[index]
            pairs = [(wanted.outcome, outcome), (wanted.home, home), (wanted.subscription, subscription)]
            if all(value is None or value == actual for value, actual in pairs):
                return True
        delivered = of.select_rows(of.deliveries, message, cluster)
        received = [row for row in delivered if row["subscription"] == subscription]
        if self.is_excused(anomaly, cluster, attempts) and (
            anomaly in ("lost", "unreadable", "not_replicated")
            or (anomaly in OF_POSITIONS and self.are_old_positions(anomaly, cluster, of, received))
        ):
            return True
        # A message that arrived there, or that its home still has, is missing there although its home was destroyed.
        survived = delivered or of.select_rows(of.stored, message, home)
        if anomaly == "not_replicated" and home != cluster and self.is_excused("lost", home, attempts) and not survived:
            return True
        if anomaly in ("two_active_consumers", "key_on_two_consumers"):
            # It is never illegal without a proof, even if the scenario tightens it.
            return not any(of.are_proven(*turn) for turn in of.turns(anomaly, message, cluster, str(subscription)))
        if anomaly in scenario.tighten:
            return False
        if anomaly == "delivered_out_of_order":
            types = {
                (where, each.name): each.type
                for each in scenario.workload.subscriptions
                for where in each.list_clusters(self.history.topology)
            }
            return types.get((cluster, subscription or "")) == "shared"
        if anomaly in ("output_missing", "output_repeated"):
            commits = {each.name: str(each.commit or each.streaming) for each in scenario.workload.subscriptions}
            allowed = ("before",) if anomaly == "output_missing" else ("after", "foreach")
            return commits[subscription or ""] in allowed
        return anomaly in ILLEGAL_UNDER and str(scenario.guarantee) not in ILLEGAL_UNDER[anomaly]

    def last_destruction(self, cluster: str | None) -> tuple[int | None, int | None]:
        """When the cluster's last destroying fault took effect and when its healing began, as late as can be."""
        if cluster not in self.history.scenario.destroyed:
            return None, None
        # Brokers and metadata stores hold no messages.
        disks = {name for name, node in self.history.topology.clusters[cluster].nodes.items() if node.role == "bookie"}
        effects = [row for row in self.history.faults if row["state"] == "effective" and disks & set(row["targets"])]
        if not effects:
            return None, None
        last = max(effects, key=lambda row: row["at"])
        for row in self.history.faults:
            if row["state"] == "healing" and row["fault"] == last["fault"]:
                return last["at"] + self.error, row["at"] + self.error
        return last["at"] + self.error, None

    def is_excused(self, anomaly: str, cluster: str | None, attempts: list[Row]) -> bool:
        effect, healing = self.last_destruction(cluster)
        if effect is None:
            return False
        acked = [row for row in attempts if row["outcome"] == "acked"]
        if anomaly in ("lost", "unreadable") and healing is not None and any(r["settled_at"] > healing for r in acked):
            # The new log has to keep it.
            return False
        sent = [row["sent_at"] for row in attempts if row["sent_at"] is not None]
        return not sent or (max(row["sent_at"] for row in acked) if acked else min(sent)) < effect

    def are_old_positions(self, anomaly: str, cluster: str, of: Topic, received: list[Row]) -> bool:
        """Whether the positions that a message was delivered from show no more than that the log was made anew."""
        _, healing = self.last_destruction(cluster)
        stored = of.select_rows(of.stored, identity(received[0]), cluster)
        logs = {(row["partition"], position(row)) for row in stored}
        elsewhere = [row for row in received if position(row) and (row["partition"], position(row)) not in logs]
        if anomaly == "delivered_from_elsewhere":
            known = [row for row in elsewhere if of.is_log_read(cluster, row["partition"])]
            return healing is None or all(row["received_at"] <= healing for row in known)
        if healing is None:
            return False
        firsts: dict[Any, int] = {}
        for row in received:
            at = (row["partition"], position(row))
            firsts[at] = min(row["received_at"], firsts.get(at, row["received_at"]))
        old = [at for at, first in firsts.items() if first <= healing]
        return len(firsts) == 2 and len(old) == 1 and old[0] not in logs

    def judge(self) -> set[Place]:
        for topic in sorted({topic for rows in self.rows.values() for topic in rows}):
            Topic(self, topic).judge()
        return self.found


def find_by_reference(history: History) -> set[tuple[str, bool, str, str | None, Any, Any]]:
    """(anomaly, legal, cluster, subscription, producer, seq) of each anomaly, as `Judged.anomalies` returns them."""
    found = Reference(history, history.facts.get("clock_error_us", 0)).judge()
    return {(anomaly, legal, cluster, where, *who) for anomaly, legal, cluster, _, where, who in found}


class Topic:
    def __init__(self, reference: Reference, topic: str) -> None:
        self.r, self.name, self.h = reference, topic, reference.history
        self.attempts, self.stored, self.deliveries, self.outputs = (
            reference.rows[table].get(topic, []) for table in ("publishes", "stored", "deliveries", "outputs")
        )
        self.published = {identity(row) for row in self.attempts}
        # Where a subscription is in the end, its name, and where it was before.
        self.subscriptions = [
            (each.list_clusters(self.h.topology)[-1], each.name, (each.cluster or "main") if each.moves else None)
            for each in self.h.scenario.workload.subscriptions
        ]

    def select_rows(
        self, rows: list[Row], message: Any, cluster: str | None = None, subscription: str | None = None
    ) -> list[Row]:
        return [
            row
            for row in rows
            if identity(row) == message
            and (cluster is None or row["cluster"] == cluster)
            and (subscription is None or row["subscription"] == subscription)
        ]

    def outcome(self, message: Any) -> str:
        outcomes = [row["outcome"] for row in self.select_rows(self.attempts, message)]
        if "acked" in outcomes:
            return "acked"
        if all(outcome == "not_sent" for outcome in outcomes):
            return "not_sent"
        # A message that one process failed to write for certain and that another one did not send is not written.
        return "failed" if set(outcomes) <= {"failed", "not_sent"} else "unknown"

    def judge(self) -> None:
        undrained = self.h._undrained
        for message in self.published:
            home = self.select_rows(self.attempts, message)[0]["cluster"]
            attempts = self.select_rows(self.attempts, message)
            hashes, keys = {row["payload_hash"] for row in attempts}, {row["key"] for row in attempts}
            seen = self.select_rows(self.stored, message) + self.select_rows(self.deliveries, message)
            outcome = self.outcome(message)
            places = list(self.h.topology.clusters) if f"/{REPLICATED}/" in self.name else [home]
            for cluster in self.h.topology.clusters:
                copies = self.select_rows(self.stored, message, cluster)
                exists = outcome == "acked" or (outcome == "unknown" and bool(seen))
                if exists and cluster in places and not copies:
                    missing = self.missing_at_home(message, home) if cluster == home else "not_replicated"
                    if not self.r.undone or (cluster != home and not self.is_replicated(message, home, cluster)):
                        missing = "unproven"
                    self.r.say(missing, cluster, self.name, None, message)
                if outcome in ("failed", "not_sent") and copies:
                    self.r.say("failed_but_stored", cluster, self.name, None, message)
                if any(row["payload_hash"] not in hashes or row["key"] not in keys for row in copies):
                    self.r.say("corrupted", cluster, self.name, None, message)
                for where, subscription, before in self.subscriptions:
                    got = self.select_rows(self.deliveries, message, cluster, subscription)
                    if before is not None:
                        got = got + self.select_rows(self.deliveries, message, before, subscription)
                    if where == cluster and copies and not got:
                        drained = (cluster, self.name, subscription) not in undrained
                        first, end = self.first_stored(message, cluster), self.ends.get((cluster, subscription))
                        if end is not None and first is not None and first[1][:2] >= end:
                            drained = False
                        drained = drained and self.r.undone and first is not None
                        drained = drained and first[0] in self.partitions  # type: ignore[index]
                        self.r.say("undelivered" if drained else "unproven", cluster, self.name, subscription, message)
            acks = {
                (row["partition"], position(row))
                for row in self.select_rows(self.attempts, message)
                if row["outcome"] == "acked"
            }
            acks = {ack for ack in acks if ack[1] is not None}
            there = {(row["partition"], position(row)) for row in self.select_rows(self.stored, message, home)}
            read = self.is_read(message, home) or self.is_read_past_acks(message, home)
            if acks and there and not acks & there and read:
                self.r.say("position_mismatch", home, self.name, None, message)
            for row in self.select_rows(self.deliveries, message):
                place = (row["cluster"], self.name, row["subscription"], message)
                copies = self.select_rows(self.stored, message, row["cluster"])
                held = {(copy["partition"], position(copy)) for copy in copies}
                if row["payload_hash"] not in hashes or row["key"] not in keys:
                    self.r.say("corrupted", *place)
                if outcome in ("failed", "not_sent"):
                    self.r.say("failed_but_delivered", *place)
                read = self.is_log_read(row["cluster"], row["partition"])
                if held and position(row) and (row["partition"], position(row)) not in held and read:
                    self.r.say("delivered_from_elsewhere", *place)
                same = self.select_rows(self.deliveries, message, row["cluster"], row["subscription"])
                if len({(each["partition"], position(each)) for each in same if position(each)}) > 1:
                    self.r.say("delivered_from_two_positions", *place)
        for row in self.stored:
            if identity(row) not in self.published:
                self.r.say("phantom", row["cluster"], self.name, None, identity(row))
        for row in self.deliveries:
            if identity(row) not in self.published:
                self.r.say("phantom", row["cluster"], self.name, row["subscription"], identity(row))
        self.twice()
        self.processed()
        self.held()
        self.conflicts()
        for cluster in self.h.topology.clusters:
            self.order(cluster)
        self.regressed()

    @property
    def ends(self) -> dict[tuple[str, ...], tuple[int, int]]:
        """The ends up to which drains of the topic prove something."""
        return {place[1:]: end for place, end in self.h._drained_to.items() if place[0] == self.name}

    @property
    def partitions(self) -> set[int]:
        """The partitions that were published to, whose logs a reader read."""
        return self.h.partitions[self.name]

    def partition_of(self, message: Any, cluster: str) -> int | None:
        """Where it was acked, or else stored in a cluster, or else seen; the lowest one."""
        stored = self.select_rows(self.stored, message)
        here = [row for row in stored if row["cluster"] == cluster]
        for rows in (self.acked_attempts(message), here, stored, self.select_rows(self.deliveries, message)):
            if rows:
                return min(row["partition"] for row in rows)
        return None

    def is_log_read(self, cluster: str, partition: int | None) -> bool:
        return partition in self.partitions and (cluster, self.name, partition) not in self.h.unread

    def is_read(self, message: Any, home: str) -> bool:
        """Whether the logs of its home were read that it was acked in."""
        acked = [row["partition"] for row in self.acked_attempts(message)]
        return all(self.is_log_read(home, partition) for partition in acked or [self.partition_of(message, home)])

    def is_replicated(self, message: Any, home: str, cluster: str) -> bool:
        partition = self.partition_of(message, cluster)
        if not self.is_log_read(cluster, partition):
            return False
        got = self.select_rows(self.deliveries, message, cluster)
        if got and all(self.is_log_read(cluster, row["partition"]) for row in got):
            # It had got there.
            return True
        if (self.name, home, cluster) in self.h._unreplicated:
            return False
        first, end = self.first_stored(message, home), self.ends.get((home, cluster))
        acked = [position(row) for row in self.acked_attempts(message) if row["partition"] == partition]
        at = first[1] if first else max(filter(None, acked), default=None)
        if at is None:
            return end is None or self.is_log_read(home, partition)
        return end is None or at[:2] < end

    def missing_at_home(self, message: Any, home: str) -> str:
        if self.is_read(message, home) or self.is_read_past_acks(message, home):
            return "lost"
        return "unreadable" if self.unreadable_acks(message, home) else "unproven"

    def unreadable_acks(self, message: Any, home: str) -> bool:
        for row in self.acked_attempts(message):
            log, ack = self.h.unread.get((home, self.name, row["partition"]), {}), position(row)
            if ack and any(part.start <= ack[:2] < part.end for part in log.get("unreadable", ())):
                return True
        return False

    def is_read_past_acks(self, message: Any, home: str) -> bool:
        acks = self.acked_attempts(message)
        if not acks or self.unreadable_acks(message, home):
            return False
        return all(position(row) and self.is_passed(home, row) for row in acks)

    def is_passed(self, home: str, ack: Row) -> bool:
        place = position(ack)
        passed = self.h.unread.get((home, self.name, ack["partition"]), {}).get("passed")
        return self.is_log_read(home, ack["partition"]) or bool(passed and place and place[:2] < passed)

    def acked_attempts(self, message: Any) -> list[Row]:
        return [row for row in self.select_rows(self.attempts, message) if row["outcome"] == "acked"]

    def twice(self) -> None:
        for message, cluster in {(identity(row), row["cluster"]) for row in self.stored}:
            if len({(row["partition"], position(row)) for row in self.select_rows(self.stored, message, cluster)}) > 1:
                self.r.say("stored_twice", cluster, self.name, None, message)

        def copy(row: Row) -> str:
            return repr((row["cluster"], row["subscription"], identity(row), row["partition"], position(row)))

        for _, group in groupby(sorted(self.deliveries, key=copy), key=copy):
            rows = sorted(group, key=lambda row: (row["received_at"], row["arrival"]))
            for index, row in enumerate(rows[1:], start=1):
                acks = [each["acknowledged_at"] for each in rows[:index] if each["acknowledged_at"] is not None]
                confirmed = any(ack + self.r.error < row["received_at"] for ack in acks)
                anomaly = "redelivered_after_ack" if confirmed else "delivered_twice"
                self.r.say(anomaly, row["cluster"], self.name, row["subscription"], identity(row))

    def processed(self) -> None:
        writing = [
            (each.find_home(self.h.topology), each.name)
            for each in self.h.scenario.workload.subscriptions
            if each.commit or each.streaming
        ]
        for cluster, subscription in writing:
            got = [row for row in self.deliveries if (row["cluster"], row["subscription"]) == (cluster, subscription)]
            for message in {identity(row) for row in got}:
                written = self.select_rows(self.outputs, message, cluster, subscription)
                got_here = [row for row in got if identity(row) == message]
                copies = Counter((row["partition"], position(row)) for row in written)
                if any(count > 1 for count in copies.values()):
                    self.r.say("output_repeated", cluster, self.name, subscription, message)
                if written:
                    continue
                first = min(got_here, key=lambda row: (row["received_at"], row["arrival"]))
                place, end = position(first), self.ends.get((cluster, subscription))
                drained = self.r.undone and (cluster, self.name, subscription) not in self.h._undrained
                drained = drained and first["partition"] in self.partitions
                drained = drained and (end is None or place is None or place[:2] < end)
                self.r.say("output_missing" if drained else "unproven", cluster, self.name, subscription, message)

    def held(self) -> None:
        types = {"two_active_consumers": ("exclusive", "failover"), "key_on_two_consumers": ("key_shared",)}
        for anomaly, kinds in types.items():
            for each in self.h.scenario.workload.subscriptions:
                for cluster in each.list_clusters(self.h.topology) if each.type in kinds else ():
                    got = [row for row in self.deliveries if row["cluster"] == cluster]
                    for message in {identity(row) for row in got if row["subscription"] == each.name}:
                        if self.turns(anomaly, message, cluster, each.name):
                            self.r.say(anomaly, cluster, self.name, each.name, message)

    def turns(self, anomaly: str, message: Any, cluster: str, subscription: str) -> list[tuple[Row, Row, Row]]:
        """The deliveries of a message, each between two deliveries to another incarnation of a consumer."""
        same = ("partition", "key") if anomaly == "key_on_two_consumers" else ("partition",)
        found = []
        for m in self.select_rows(self.deliveries, message, cluster, subscription):
            others = [
                row
                for row in self.deliveries
                if (row["cluster"], row["subscription"]) == (cluster, subscription)
                and all(row[name] == m[name] is not None for name in same)
                and (row["consumer"], row["incarnation"]) != (m["consumer"], m["incarnation"])
            ]
            found += [
                (a, m, b)
                for a in others
                for b in others
                if (a["consumer"], a["incarnation"]) == (b["consumer"], b["incarnation"])
                and a["received_at"] + self.r.error < m["received_at"]
                and m["received_at"] + self.r.error < b["received_at"]
            ]
        return found

    def are_proven(self, *deliveries: Row) -> bool:
        """Whether nothing changed in the samples from before the messages were due until after they were received."""
        attempts = [self.select_rows(self.attempts, identity(row)) for row in deliveries]
        if not all(attempts):
            return False
        received = [row["received_at"] for row in deliveries]
        start = min(*received, *(row["scheduled_at"] for rows in attempts for row in rows)) - self.r.error
        end = max(received) + self.r.error
        cluster, partition = deliveries[0]["cluster"], deliveries[0]["partition"]
        source = f"topic:{self.name}" + (f"@{cluster}" if len(self.h.topology.clusters) > 1 else "")
        number = "" if partition < 0 else str(partition)
        metric = f"consumers:{deliveries[0]['subscription']}" + (f"/{number}" if number else "")
        seen = sorted((row["at"], row["value"]) for row in self.samples(source, metric))
        before, after = [at for at, _ in seen if at <= start], [at for at, _ in seen if at >= end]
        if not before or len(after) < 2:
            return False
        # What the first sample after the end shows may be older than the end.
        within = [(at, value) for at, value in seen if before[-1] <= at <= after[1]]
        if len({value for _, value in within}) > 1:
            return False
        if any(later - earlier > 1_000_000 for (earlier, _), (later, _) in pairwise(within)):
            return False
        owners = sorted((row["at"], row["value"]) for row in self.samples(source, f"owner:{number}".rstrip(":")))
        known = [value for at, value in owners if at <= before[-1]][-1:]
        return bool(known and known[0]) and all(
            value == known[0] for at, value in owners if before[-1] <= at <= after[1]
        )

    def samples(self, source: str, metric: str) -> list[Row]:
        return [row for row in self.h.observations if (row["source"], row["metric"]) == (source, metric)]

    def conflicts(self) -> None:
        acked = [row for row in self.attempts if row["outcome"] == "acked"]
        in_log = [row for row in self.stored + acked if position(row)]
        delivered = [row for row in self.deliveries if position(row)]

        def place(row: Row) -> Any:
            return row["cluster"], row["partition"], position(row)

        known = {(place(row), identity(row)) for row in in_log}
        for one in in_log + delivered:
            if any(place(one) == place(x) and identity(one) != identity(x) for x in in_log + delivered):
                # A message that is stored or was acked there has the conflict in the log.
                subscription = None if (place(one), identity(one)) in known else one["subscription"]
                self.r.say("position_conflict", one["cluster"], self.name, subscription, identity(one))

    def first_stored(self, message: Any, cluster: str) -> tuple[int, tuple[int, int, int]] | None:
        """In the partition where it was acked, the lowest one, or else in the lowest one."""
        copies = [(row["partition"], position(row)) for row in self.select_rows(self.stored, message, cluster)]
        acked = min((row["partition"] for row in self.acked_attempts(message)), default=None)
        return min([copy for copy in copies if copy[0] == acked] or copies, default=None)

    def order(self, cluster: str) -> None:
        firsts = {message: self.first_stored(message, cluster) for message in self.published}
        # An earlier copy may be in a part that cannot be read.
        parts = {
            partition: log.get("unreadable", ())
            for (where, topic, partition), log in self.h.unread.items()
            if (where, topic) == (cluster, self.name)
        }
        stored = {
            message: first
            for message, first in firsts.items()
            if first and not any(part.start <= first[1][:2] for part in parts.get(first[0], ()))
        }
        keys = {message: self.select_rows(self.attempts, message)[0]["key"] for message in self.published}

        def related(m: Any, x: Any) -> bool:
            return m[0] == x[0] and x[1] > m[1] and keys[m] == keys[x] and stored[m][0] == stored[x][0]

        for m in stored:
            if any(related(m, x) and stored[x] < stored[m] for x in stored):
                self.r.say("stored_out_of_order", cluster, self.name, None, m)
        for subscription in {row["subscription"] for row in self.deliveries if row["cluster"] == cluster}:
            got = {}
            for m in stored:
                rows = self.select_rows(self.deliveries, m, cluster, subscription)
                places = {(where, name): before for where, name, before in self.subscriptions}
                before = places.get((cluster, subscription))
                if before is not None and self.select_rows(self.deliveries, m, before, subscription):
                    # The subscription had got it before it moved here.
                    continue
                # The first delivery to each incarnation is the first to arrive.
                incarnations = {(row["consumer"], row["incarnation"]) for row in rows}
                firsts_of_incarnations = [
                    min(
                        (row for row in rows if (row["consumer"], row["incarnation"]) == each),
                        key=lambda row: row["arrival"],
                    )
                    for each in incarnations
                ]
                if rows:
                    got[m] = min(firsts_of_incarnations, key=lambda row: (row["received_at"], row["arrival"]))
            for m in got:
                if any(related(m, x) and stored[x] > stored[m] and self.before(got[x], got[m]) for x in got):
                    self.r.say("delivered_out_of_order", cluster, self.name, subscription, m)

    def before(self, x: Row, m: Row) -> bool:
        if (x["consumer"], x["incarnation"]) == (m["consumer"], m["incarnation"]):
            return bool(x["arrival"] < m["arrival"])
        return x["received_at"] + self.r.error < m["received_at"]

    def regressed(self) -> None:
        # An attempt that was settled before it was sent was recorded while the clock was set back.
        acks = [
            row
            for row in self.attempts
            if row["outcome"] == "acked" and position(row) and row["settled_at"] >= row["sent_at"]
        ]
        for m in acks:
            for y in acks:
                same = all(m[name] == y[name] for name in ("cluster", "partition"))
                earlier = y["settled_at"] < m["sent_at"] - self.r.error
                if same and earlier and position(y) >= position(m):  # type: ignore[operator]
                    self.r.say("position_regressed", m["cluster"], self.name, None, identity(m))


__all__ = ["NAMESPACE", "Reference"]
