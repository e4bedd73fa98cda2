"""The whole emulated network of a run: its listeners, the conditions in force, and its measurements."""

from __future__ import annotations

import time

from brokerproof import clock
from brokerproof.errors import InputError
from brokerproof.experiment.topology import LinkQuality
from brokerproof.experiment.yaml_models import FrozenModel, suggest_name
from brokerproof.network.listener import Listener
from brokerproof.network.plan import Condition, Plan, Route, Shape, matches
from brokerproof.network.poller import Poller
from brokerproof.network.route_direction import AddedDelay, Meter, RateLimiter, RouteDirection

Regions = tuple[str, str]


class Effect(FrozenModel):
    """The evidence that a request took effect: the time (µs), and the number of affected connections and listeners."""

    at: int
    connections: int
    listeners: int


class State(FrozenModel):
    """The conditions in force and the effects of requests, at the time `at` (µs)."""

    at: int
    conditions: list[Condition]
    # {id: effect} of each condition in force, and of each reset.
    effects: dict[str, Effect]
    listeners: int
    # The number of listeners whose route is cut in at least one direction.
    cut_listeners: int
    connections: int


class PairMetrics(FrozenModel):
    """The traffic from one region to another.

    `bytes`, `opened` and `refused` count since the start of the link process. `held_bytes` and `open` are current.
    `added` is the delay, beyond the configured one, of the chunks that arrived since the previous request for metrics.
    """

    sender: str
    receiver: str
    bytes: int
    held_bytes: int
    # Connections that the sender's region opened to the receiver's. `refused` counts those whose target did not accept.
    open: int
    opened: int
    refused: int
    # The delay beyond the one that was set.
    added: AddedDelay


class Metrics(FrozenModel):
    """The measurements of the link process. An interval lasts from one request for metrics to the next."""

    at: int
    # CPU seconds of the link process since its start.
    cpu_s: float
    # The longest time in the interval that a socket had to wait for its turn.
    longest_turn_ms: float
    pairs: list[PairMetrics]


class EmulatedNetwork:
    """Listens for the connections of all routes. Conditions can be added and removed while the network runs."""

    def __init__(self, plan: Plan, poller: Poller) -> None:
        """Begin to listen for all routes. Raises MachineError if an address or port is taken."""
        self._plan, self._poller = plan, poller
        self._conditions: dict[str, Condition] = {}
        self._effects: dict[str, Effect] = {}
        self._shapes = {(shape.sender, shape.receiver): shape for shape in plan.shapes}
        self._meters: dict[Regions, Meter] = {}
        # {(cause of the limit, regions): limiter}. The cause is a condition's id, or None for the shape of the regions.
        self._limiters: dict[tuple[str | None, Regions], RateLimiter] = {}
        self._directions: list[RouteDirection] = []
        self._listeners: list[Listener] = []
        most_held = int(plan.buffer_mib * 2**20)
        for route in plan.routes:
            there = self._make_direction(route.viewer, route.target, (route.viewer_region, route.target_region))
            back = self._make_direction(route.target, route.viewer, (route.target_region, route.viewer_region))
            for port in route.ports:
                self._listeners.append(
                    Listener(
                        (route.listen_address, port),
                        (route.target_address, port),
                        there,
                        back,
                        poller,
                        most_held=most_held,
                        redial_s=route.redial_s,
                    )
                )
        self._apply()

    def routes(self) -> list[Route]:
        return self._plan.routes

    def add(self, condition: Condition) -> Effect:
        """Put a condition in force. Raises InputError if its id is in use or the condition concerns no route."""
        if condition.id in self._conditions:
            raise InputError(f"condition `{condition.id}` is in force already", remedy="remove it or choose another id")
        concerned = self._find_listeners(condition.senders, condition.receivers, condition.both_ways)
        self._conditions[condition.id] = condition
        self._apply()
        self._effects[condition.id] = _measure_effect(concerned)
        return self._effects[condition.id]

    def remove(self, condition_id: str) -> Effect:
        """End a condition. Raises InputError if no condition has this id."""
        if condition_id not in self._conditions:
            raise InputError(
                f"no condition is called `{condition_id}`", remedy=suggest_name(condition_id, self._conditions)
            )
        condition = self._conditions.pop(condition_id)
        del self._effects[condition_id]
        self._apply()
        self._limiters = {key: limiter for key, limiter in self._limiters.items() if key[0] != condition_id}
        return _measure_effect(self._find_listeners(condition.senders, condition.receivers, condition.both_ways))

    def reset(self, id: str, senders: list[str], receivers: list[str], both_ways: bool) -> Effect:
        """Close, by a RST, every connection between one of the senders and one of the receivers.

        Both ends get the RST at once, even across a cut. Raises InputError if no route lies between the senders and the
        receivers, or if `id` is the id of a condition in force.
        """
        if id in self._conditions:
            raise InputError(f"condition `{id}` is in force", remedy="choose another id")
        concerned = self._find_listeners(senders, receivers, both_ways)
        connections = [connection for listener in concerned for connection in listener.connections]
        for connection in connections:
            connection.reset()
        self._effects[id] = Effect(at=clock.now_us(), connections=len(connections), listeners=len(concerned))
        return self._effects[id]

    def count_bytes(self, senders: list[str], receivers: list[str], both_ways: bool) -> int:
        """Return the number of bytes that reached the receivers from the senders since the link process was started.

        With `both_ways`, bytes in the opposite direction count too. Raises InputError if no route lies between the
        senders and the receivers.
        """
        self._find_listeners(senders, receivers, both_ways)
        return sum(
            direction.bytes_delivered
            for direction in self._directions
            if matches(senders, receivers, both_ways, direction.sender, direction.receiver)
        )

    def state(self) -> State:
        return State(
            at=clock.now_us(),
            conditions=list(self._conditions.values()),
            effects=self._effects,
            listeners=len(self._listeners),
            cut_listeners=sum(listener.there.cut or listener.back.cut for listener in self._listeners),
            connections=sum(len(listener.connections) for listener in self._listeners),
        )

    def metrics(self) -> Metrics:
        """Return the measurements. Some of them cover only the interval since the last call. A new interval begins."""
        open_connections = dict.fromkeys(self._meters, 0)
        held = dict.fromkeys(self._meters, 0)
        for listener in self._listeners:
            open_connections[listener.there.regions] += len(listener.connections)
            for connection in listener.connections:
                for pipe in connection.pipes:
                    held[pipe.direction.regions] += pipe.held_bytes()
        metrics = Metrics(
            at=clock.now_us(),
            cpu_s=time.process_time(),
            longest_turn_ms=self._poller.longest_turn_s * 1000,
            pairs=[
                PairMetrics(
                    sender=regions[0],
                    receiver=regions[1],
                    bytes=meter.bytes,
                    held_bytes=held[regions],
                    open=open_connections[regions],
                    opened=meter.opened,
                    refused=meter.refused,
                    added=meter.added_delays.take(),
                )
                for regions, meter in self._meters.items()
            ],
        )
        self._poller.longest_turn_s = 0.0
        return metrics

    def _make_direction(self, sender: str, receiver: str, regions: Regions) -> RouteDirection:
        direction = RouteDirection(sender, receiver, regions, self._meters.setdefault(regions, Meter()))
        self._directions.append(direction)
        return direction

    def _apply(self) -> None:
        """Compute cut, delay, jitter and limiters of both directions of each route, and pass changes to listeners."""
        was_cut: dict[RouteDirection, bool] = {}
        for direction in self._directions:
            conditions = [
                each for each in self._conditions.values() if each.holds(direction.sender, direction.receiver)
            ]
            shape = self._shapes.get(direction.regions) or Shape(
                sender=direction.regions[0], receiver=direction.regions[1]
            )
            qualities: list[tuple[str | None, LinkQuality]] = [(None, shape), *((each.id, each) for each in conditions)]
            before = direction.cut
            if direction.set(
                cut=any(condition.cut for condition in conditions),
                delay_s=sum(quality.delay_ms for _, quality in qualities) / 1000,
                jitter_s=sum(quality.jitter_ms for _, quality in qualities) / 1000,
                limiters=tuple(
                    self._find_limiter(origin, direction.regions, quality.bandwidth_mbit)
                    for origin, quality in qualities
                    if quality.bandwidth_mbit is not None
                ),
            ):
                was_cut[direction] = before
        for listener in self._listeners:
            if listener.there in was_cut or listener.back in was_cut:
                listener.reshape(
                    there_was_cut=was_cut.get(listener.there, listener.there.cut),
                    back_was_cut=was_cut.get(listener.back, listener.back.cut),
                )

    def _find_limiter(self, origin: str | None, regions: Regions, bandwidth_mbit: float) -> RateLimiter:
        key = (origin, regions)
        if key not in self._limiters:
            self._limiters[key] = RateLimiter(bandwidth_mbit, self._poller)
        return self._limiters[key]

    def _find_listeners(self, senders: list[str], receivers: list[str], both_ways: bool) -> list[Listener]:
        """Return the listeners of routes between the senders and the receivers. Raises InputError if there is none."""
        found = [
            listener
            for listener in self._listeners
            if any(
                matches(senders, receivers, both_ways, direction.sender, direction.receiver)
                for direction in (listener.there, listener.back)
            )
        ]
        if not found:
            names = sorted({direction.sender for direction in self._directions})
            raise InputError(
                f"no route leads from {', '.join(senders)} to {', '.join(receivers)}",
                remedy=f"routes are between {', '.join(names)}",
            )
        return found


def _measure_effect(listeners: list[Listener]) -> Effect:
    connections = sum(len(listener.connections) for listener in listeners)
    return Effect(at=clock.now_us(), connections=connections, listeners=len(listeners))
