"""The plan that a link process starts with: routes, and delay, jitter and bandwidth between regions (the shapes)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import FrozenModel, suggest_name
from brokerproof.network.routes import Route
from brokerproof.network.shape import Shape


class Plan(FrozenModel):
    """All routes of a run. Between two regions without a shape, bytes are passed on at once."""

    routes: list[Route] = Field(min_length=1)
    shapes: list[Shape] = Field(default_factory=list)
    buffer_mib: float = Field(
        8,
        gt=0,
        description="largest amount of data under way in one direction of one connection. It limits the throughput: "
        "8 MiB at 50 ms one way let 1.3 Gbit/s through",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_addresses_are_unique()
        self._check_shapes_have_routes()
        return self

    def _check_addresses_are_unique(self) -> None:
        taken: dict[tuple[str, int], int] = {}
        for number, route in enumerate(self.routes):
            for port in route.ports:
                other = taken.setdefault((route.listen_address, port), number)
                if other != number or route.ports.count(port) > 1:
                    raise InputError(
                        f"{route.listen_address}:{port} is listened on twice, for {route.viewer} → {route.target} "
                        f"and for {self.routes[other].viewer} → {self.routes[other].target}",
                        field=f"routes.{number}.listen_address",
                        remedy="give each viewer and target an address of their own",
                    )

    def _check_shapes_have_routes(self) -> None:
        regions = {region for route in self.routes for region in (route.viewer_region, route.target_region)}
        seen: set[Sequence[str]] = set()
        for number, shape in enumerate(self.shapes):
            for side in ("sender", "receiver"):
                if (region := getattr(shape, side)) not in regions:
                    raise InputError(
                        f"no route touches region `{region}`",
                        field=f"shapes.{number}.{side}",
                        remedy=suggest_name(region, regions),
                    )
            pair = (shape.sender, shape.receiver)
            if pair in seen:
                raise InputError(
                    f"{shape.sender} → {shape.receiver} has two shapes", field=f"shapes.{number}", remedy="keep one"
                )
            seen.add(pair)
