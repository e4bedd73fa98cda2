"""The waits for the consumers and for the target rate before the steady phase, and the reasons if they fail."""

from __future__ import annotations

from collections.abc import Callable

from brokerproof.errors import AdminError, DeadlineError, RunError
from brokerproof.experiment.numbers import join_names
from brokerproof.experiment.workload import ClientRole
from brokerproof.faults.stage import Stage
from brokerproof.run.directory import Run
from brokerproof.run.live_status import read_every_live_status, read_live_status
from brokerproof.run.load_rate import find_target_rate
from brokerproof.run.records import ConsumerEnd, LoadEnd, StepProblem, read_record

_TIMEOUT_S = 180.0
# A consumer waits at most this many seconds for the cluster, beside its own start.
_SERVE_S = 120.0

# The load counts as steady after `STEADY_S` seconds in a row at `STEADY_SHARE` of the target rate.
STEADY_S, STEADY_SHARE = 3, 0.9
# The first words of the problem that a run records if its load is too high. The history searches for them.
NEVER_HELD = "the topic never held"
# A rate has stalled if it has not grown by the factor `_GROWTH` in `_STALLED_S` seconds. A cluster is slow for half a
# minute after its start, while its programs are compiled.
_GROWTH, _STALLED_S = 1.05, 45.0
# The processors limit the rate if they are busy for at least this percentage of the time.
BUSY_PERCENT = 90.0
# Waiting for answers limits the rate if a producer waits in more than this share of the samples.
_OFTEN = 0.5


class SteadyLoad:
    """Compares the rate at which the topic receives messages with the target rate, sample by sample."""

    def __init__(self, target: float, started_s: float, *, max_pending: int) -> None:
        """`target` is in messages a second. All times are seconds of the monotonic clock.

        A producer with `max_pending` pending messages counts as waiting for answers.
        """
        self._target, self._started_s, self._now_s = target, started_s, started_s
        self._last: tuple[float, int] | None = None
        self._held = 0
        self._best, self._best_s = 0.0, started_s
        # The utilization of this machine's processors, in percent, for each sample with messages.
        self._utilization: list[float] = []
        self._max_pending = max_pending
        # The number of samples with messages, and of such samples in which a producer waited for answers.
        self._samples, self._waits = 0, 0

    def add(self, count: int, now_s: float, utilization: float, *, pending: int) -> float | None:
        """Add a sample of the load. Returns the rate since the previous sample, in messages a second.

        `count` is the topic's counter of messages. The result is None for the first sample, and if the counter has
        started again from 0. `utilization` of the processors is in percent. `pending` is the number of pending messages
        of the producer that has the most.
        """
        self._now_s = now_s
        last, self._last = self._last, (now_s, count)
        # The counter begins again at 0 with each owner of the topic.
        if last is None or count < last[1]:
            self._held = 0
            return None
        rate = (count - last[1]) / (now_s - last[0])
        if rate:
            self._utilization.append(utilization)
            self._samples += 1
            self._waits += pending >= self._max_pending
        if rate > _GROWTH * self._best:
            self._best, self._best_s = rate, now_s
        self._held = self._held + 1 if rate >= self._target else 0
        return rate

    @property
    def is_steady(self) -> bool:
        """Whether each of the last `STEADY_S` samples reached the target rate."""
        return self._held >= STEADY_S

    @property
    def has_stalled(self) -> bool:
        """Whether messages arrive, but below the target rate, and the rate has not grown for `_STALLED_S` seconds."""
        return self._best > 0 and self._held == 0 and self._now_s - self._best_s > _STALLED_S

    def describe_shortfall(self) -> str:
        """Return a sentence with the best rate that was reached, the reason why it was not higher, and the remedy."""
        after_s = self._now_s - self._started_s
        what = f"{NEVER_HELD} {self._target:.0f} messages/s for {STEADY_S} s in {after_s:.0f} s"
        if not self._utilization:
            return f"{what}; not one was acknowledged: see the load job's log"
        busy = sum(self._utilization) / len(self._utilization)
        if busy >= BUSY_PERCENT:
            why, remedy = f"this machine can do no more: its processors were {busy:.0f} % busy", "lower workload.rate"
        elif self._waits > _OFTEN * self._samples:
            # The rate is the number of pending messages divided by the time of an answer. Either may be the cause.
            why = (
                f"its producers waited for answers with {self._max_pending} messages unanswered each, with this "
                f"machine's processors {busy:.0f} % busy"
            )
            remedy = "raise workload.client.max_pending; if that changes nothing, lower workload.rate"
        else:
            why = f"the cluster takes in no more, with this machine's processors {busy:.0f} % busy"
            remedy = "lower workload.rate"
        return f"{what}; the best rate was {self._best:.0f}/s, and {why}; {remedy}"


def await_consumers(stage: Stage) -> None:
    """Wait until every consumer has subscribed. A fault would spare a consumer that subscribes later.

    Raises DeadlineError if this takes too long, and RunError if a consumer ends or their job fails.
    """
    missing: list[str] = []
    run = stage.run
    consumers = run.scenario.workload.list_clients(run.topology, ClientRole.CONSUMER)
    timeout_s = _SERVE_S + max((each.start_s for each in consumers), default=0)

    def has_every_consumer() -> bool:
        require_load(run, "before every consumer had subscribed")
        missing[:] = list_missing_consumers(run)
        stage.show(text=f"waiting for {join_names(missing)} to subscribe" if missing else "")
        return not missing

    try:
        stage.clock.wait_until(has_every_consumer, timeout_s=timeout_s, what="consumers", every_s=0.5)
    except DeadlineError:
        why = f"{join_names(missing)} did not subscribe in {timeout_s:.0f} s: see the log of the step consume"
        raise DeadlineError(why) from None


def list_missing_consumers(run: Run) -> list[str]:
    """Return the names of the clients that have yet to subscribe.

    Raises RunError if one of them has ended, or if the consumers' job has failed.
    """
    if (failed := read_record(run, StepProblem, "consume")) is not None:
        raise RunError(f"the consumers failed before they had subscribed: {failed.problem}")
    missing = []
    for client in run.scenario.workload.list_clients(run.topology, ClientRole.CONSUMER):
        # A consumer on standby begins only when a fault starts it.
        if not client.standby and not read_live_status(run, client.client).get("subscribed"):
            if (end := read_record(run, ConsumerEnd, client.number)) is not None:
                raise RunError(f"a consumer ended before it had subscribed: {end.problem or end.consumer}")
            missing.append(client.label)
    return missing


def await_steady_load(stage: Stage, measure_utilization: Callable[[], float]) -> None:
    """Wait until the load is steady.

    Raises DeadlineError, with the reason, if it does not become steady in time, and RunError if the load ends.
    """
    workload = stage.run.scenario.workload
    rate = find_target_rate(stage.run)
    if rate is None:
        raise RunError("the load has not found its rate")
    target = rate * STEADY_SHARE
    load = SteadyLoad(target, stage.clock.monotonic_s(), max_pending=workload.client.max_pending)

    def is_steady() -> bool:
        require_load(stage.run, "before the rate was held")
        try:
            count = stage.observation.count_published()
        except AdminError:
            return False  # The topic does not exist before its first producer.
        pending = max((each.get("pending", 0) for each in read_every_live_status(stage.run).values()), default=0)
        rate = load.add(count, stage.clock.monotonic_s(), measure_utilization(), pending=pending)
        if rate is not None:
            stage.show(text=f"{rate:,.0f} of {target:,.0f} messages/s")
        if load.has_stalled:
            raise DeadlineError(load.describe_shortfall())
        return load.is_steady

    try:
        stage.clock.wait_until(is_steady, timeout_s=_TIMEOUT_S, what="the target rate", every_s=1.0)
    except DeadlineError:
        raise DeadlineError(load.describe_shortfall()) from None
    stage.show(text="")


def require_load(run: Run, when: str, *, ends_at: int | None = None) -> None:
    """Raises RunError if the load has failed or ended, because faults would then meet no new messages.

    `ends_at` is the planned end of the load, as Unix time in µs. A load that finished then or later is no error.
    `when` completes the error's sentence "the load ended …" or "the load failed …".
    """
    if (failed := read_record(run, StepProblem, "load")) is not None:
        raise RunError(f"the load failed {when}: {failed.problem}")
    ended = read_record(run, LoadEnd)
    if ended is not None and not (ended.finished and ends_at is not None and ended.at >= ends_at):
        raise RunError(f"the load ended {when}: {ended.why or 'its record gives no reason'}")
