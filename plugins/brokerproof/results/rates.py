"""How often repeated runs fail, with the interval of this rate, and whether two such rates differ.

The interval is that of Clopper and Pearson (1934): it has the true rate in at least 95 of 100 cases. Two rates are
compared by Barnard's exact test (1945), two-sided, which counts a difference that is only chance in at most 5 of 100
cases. Only runs that passed or failed count, because the others do not show what the cluster did.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from math import ceil

from brokerproof.experiment.verdict import DECISIVE, Verdict
from brokerproof.run.strict_model import StrictModel

LEVEL = 0.05
# A difference is to be found in at least this share of the comparisons of two groups.
POWER = 0.8
# Numbers of runs that are tried in `count_runs_needed`. Where more are needed, a user gives up.
_SIZES = (*range(2, 13), 15, 20)
RATE_RULE = (
    "A rate is of the runs that passed or failed, with the 95 % interval of Clopper and Pearson. Two rates differ if "
    f"Barnard's exact test gives at most {LEVEL:g}. With the runs needed of each, a difference as large as this is "
    f"found in {POWER:.0%} of the tries."
)


class Rate(StrictModel):
    """In how many of `n` judged runs the verdict was `failed`. `low` and `high` are the ends of its interval."""

    failed: int
    n: int
    low: float
    high: float

    @property
    def share(self) -> float | None:
        return self.failed / self.n if self.n else None

    def __str__(self) -> str:
        if not self.n:
            return "no run was judged"
        return f"failed in {self.failed} of {self.n} ({self.low:.0%} to {self.high:.0%})"


class RateDifference(StrictModel):
    """Whether two rates differ. `probability` is that of a difference as large as theirs by chance.

    `runs_needed` is the number of judged runs that each of two groups with these rates needs; None if the rates are
    equal, or if more are needed than the last of `_SIZES`.
    """

    differs: bool
    probability: float
    runs_needed: int | None

    def __str__(self) -> str:
        # Rounded up, so that the last digits, which differ between machines, do not show.
        chance = f"by chance in at most {ceil(self.probability * 1000 - 1e-6) / 1000:g}"
        if self.differs:
            return f"differs, {chance}"
        needed = "" if self.runs_needed is None else f"; {self.runs_needed} runs of each needed"
        return f"not told apart, {chance}{needed}"


def compute_rate(verdicts: Iterable[Verdict | str]) -> Rate:
    counts = Counter(Verdict(verdict) for verdict in verdicts)
    n, failed = sum(counts[verdict] for verdict in DECISIVE), counts[Verdict.FAILED]
    return _make_rate(failed, n)


@cache
def _make_rate(failed: int, n: int) -> Rate:
    if not n:
        return Rate(failed=0, n=0, low=0.0, high=1.0)
    # These imports take a second, and most commands do without them.
    from scipy.stats import binomtest

    interval = binomtest(failed, n).proportion_ci(confidence_level=1 - LEVEL, method="exact")
    return Rate(failed=failed, n=n, low=float(interval.low), high=float(interval.high))


def compare_rates(first: Rate, second: Rate) -> RateDifference | None:
    """Return whether two rates differ; None if one of them is of no run."""
    if first.share is None or second.share is None:
        return None
    probability = _compute_probability(first.failed, first.n, second.failed, second.n)
    differs = probability <= LEVEL
    needed = None if differs else count_runs_needed(first.share, second.share)
    return RateDifference(differs=differs, probability=probability, runs_needed=needed)


def count_runs_needed(first: float, second: float) -> int | None:
    """Return how many runs each of two groups needs for their rates to be told apart in `POWER` of the comparisons.

    `first` and `second` are the true rates. The result is None if they are equal, or if more runs than the greatest of
    `_SIZES` are needed.
    """
    if first == second:
        return None
    # The power grows with the number of runs, so each trial halves the range.
    found = bisect_left(_SIZES, POWER, key=lambda n: _compute_power(first, second, n))
    return _SIZES[found] if found < len(_SIZES) else None


def _compute_power(first: float, second: float, n: int) -> float:
    """Return the share of comparisons of two groups of `n` runs with these true rates that tell them apart."""
    from scipy.stats import binom

    chances = [[float(binom.pmf(k, n, rate)) for k in range(n + 1)] for rate in (first, second)]
    return sum(chances[0][a] * chances[1][b] for a, b in _list_told_apart(n))


@cache
def _compute_probability(failed_a: int, n_a: int, failed_b: int, n_b: int) -> float:
    if failed_a * n_b == failed_b * n_a:
        return 1.0
    from scipy.stats import barnard_exact

    table = [[failed_a, failed_b], [n_a - failed_a, n_b - failed_b]]
    return float(barnard_exact(table).pvalue)


@cache
def _list_told_apart(n: int) -> Sequence[tuple[int, int]]:
    """Return the numbers of failed runs of two groups of `n` runs that count as different."""
    found: list[tuple[int, int]] = []
    limit = 0
    for greater in range(1, n + 1):
        # Numbers that are further apart differ more. So a limit for one number is one for each greater number.
        while limit < greater and _compute_probability(greater, n, limit, n) <= LEVEL:
            limit += 1
        found += [pair for less in range(limit) for pair in ((greater, less), (less, greater))]
    return found


class RateRow(StrictModel):
    """A group of runs: how many there are, how often one failed, and whether this differs from the first group."""

    name: str
    runs: int
    rate: Rate
    difference: RateDifference | None

    @property
    def sentence(self) -> str:
        """The rate, and whether it differs from that of the first group."""
        unjudged = f", and {self.runs - self.rate.n} without a verdict" if self.runs > self.rate.n else ""
        difference = f"; {self.difference}" if self.difference is not None else ""
        return f"{self.rate}{unjudged}{difference}"

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}"


def list_rates(runs: Iterable[tuple[str, Verdict | str]]) -> list[RateRow]:
    """Return a row for each group of runs, in the order of the first runs. A run is given as (its group, its verdict).

    Each group is compared with the first one.
    """
    verdicts: dict[str, list[Verdict | str]] = {}
    for name, verdict in runs:
        verdicts.setdefault(name, []).append(verdict)
    rates = [compute_rate(found) for found in verdicts.values()]
    return [
        RateRow(
            name=name,
            runs=len(found),
            rate=rate,
            difference=compare_rates(rates[0], rate) if number else None,
        )
        for number, ((name, found), rate) in enumerate(zip(verdicts.items(), rates, strict=True))
    ]
