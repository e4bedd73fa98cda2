"""Faults that are drawn from a seed: which ones, when, and for how long. A scenario names what may be drawn."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator
from typing import Annotated, Self

from pydantic import Field, model_validator

from brokerproof.errors import InputError
from brokerproof.experiment.fault import Fault, LinkChange, Targets, When
from brokerproof.experiment.states import STATES
from brokerproof.experiment.yaml_models import IDENTIFIER, FrozenModel, suggest_name

Seconds = Annotated[float, Field(ge=0)]
# No fault is drawn that would be healed in this last part of the impact phase.
_END_S = 1.0


class Move(FrozenModel):
    """A fault that may be drawn. It has no times, because these are drawn too."""

    kind: str
    targets: Targets
    link: LinkChange | None = None
    lasts_s: tuple[Seconds, Seconds] | None = Field(
        None, description="least and greatest number of seconds until it is healed; by default, after the load"
    )

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        _check_order(self.lasts_s, "lasts_s")
        return self


class Draw(FrozenModel):
    """A schedule of faults that a seed decides. It has episodes of one or more faults, with rests between them."""

    moves: dict[Annotated[str, Field(pattern=IDENTIFIER)], Move] = Field(min_length=1, description="what may be drawn")
    seed: int | None = Field(
        None,
        ge=0,
        description="the same seed gives the same faults; by default, each run takes the next seed that is likely to "
        "reach the states that the scenario's earlier runs reached least",
    )
    states: list[str] = Field(
        default_factory=lambda: list(STATES), description="the states that the search is for; by default all"
    )
    at_once: int = Field(2, ge=1, description="the largest number of faults of an episode")
    apart_s: float = Field(5, ge=0, description="the faults of an episode begin within this time")
    rest_s: tuple[Seconds, Seconds] = Field((5, 15), description="least and greatest time between two episodes")
    repaired_within_s: float = Field(
        120,
        gt=0,
        description="a fault that wipes data waits until the data of the one before is replicated again, at most this "
        "long; after it, the run is `unknown`",
    )

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        _check_order(self.rest_s, "rest_s")
        for state in self.states:
            if state not in STATES:
                raise InputError(f"no state is called `{state}`", field="states", remedy=suggest_name(state, STATES))
        return self

    @property
    def least_impact_s(self) -> float:
        """The shortest impact phase in which every episode has room."""
        return self.apart_s + max((move.lasts_s[1] for move in self.moves.values() if move.lasts_s), default=0) + _END_S

    def draw_faults(self, seed: int, impact_s: float, destroying: Collection[str]) -> list[Fault]:
        """Return the faults of a seed, in the order of their injections. `destroying` are the kinds that wipe data.

        An episode wipes at most once, and acts at most once on the same nodes or clients, unless these depend on what
        nodes do at that time. The first episode that would outlast the impact phase ends the schedule.
        """
        # A text gives the same numbers in every process and in every version of Python.
        rng = random.Random(f"{seed}")
        faults: list[Fault] = []
        at_s, wipe = 0.0, None
        while True:
            names = rng.sample(sorted(self.moves), rng.randint(1, min(self.at_once, len(self.moves))))
            episode = {name: (at_s + rng.uniform(0, self.apart_s), self._draw_length(rng, name)) for name in names}
            end_s = max(start_s + (lasts_s or 0) for start_s, lasts_s in episode.values())
            if end_s > impact_s - _END_S:
                return faults
            wipes = [name for name in episode if self.moves[name].kind in destroying]
            for name in {*wipes[1:], *self._list_repeated(episode)}:
                del episode[name]
            for name, (start_s, lasts_s) in sorted(episode.items(), key=lambda item: item[1][0]):
                number = sum(each.name.rpartition("_")[0] == name for each in faults) + 1
                when = When(rereplicated=wipe, within_s=self.repaired_within_s) if name in wipes and wipe else None
                fault = self.make_fault(name, number, round(start_s, 1), lasts_s, when)
                wipe = fault.name if name in wipes else wipe
                faults.append(fault)
            at_s = end_s + rng.uniform(*self.rest_s)

    def _list_repeated(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the moves whose targets an earlier one of them has too, such as a pause of a node that was killed."""
        taken: list[Targets] = []
        for name in names:
            targets = self.moves[name].targets
            if targets in taken:
                yield name
            # Other targets are chosen when the fault is due, and are none that another fault keeps down (TargetFinder).
            elif targets.now is None or targets.client is not None:
                taken.append(targets)

    def _draw_length(self, rng: random.Random, name: str) -> float | None:
        lasts_s = self.moves[name].lasts_s
        return None if lasts_s is None else round(rng.uniform(*lasts_s), 1)

    def make_fault(
        self, name: str, number: int = 1, at_s: float = 0, lasts_s: float | None = None, when: When | None = None
    ) -> Fault:
        """Return a fault of a move. Its name has the move's name and a number."""
        move = self.moves[name]
        return Fault(
            name=f"{name}_{number}",
            kind=move.kind,
            targets=move.targets,
            link=move.link,
            at_s=at_s,
            heal_after_s=lasts_s,
            when=when,
        )


def _check_order(times: tuple[float, float] | None, field: str) -> None:
    if times is not None and times[0] > times[1]:
        raise InputError(f"{times[0]:g} is over {times[1]:g}", field=field, remedy="give the smaller one first")
