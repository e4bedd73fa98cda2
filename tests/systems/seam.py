"""The protocols between the core and a messaging system, found by looking, so that no test misses a new one."""

from __future__ import annotations

from types import ModuleType

from brokerproof.systems import abilities, clients, protocols


def list_protocols(module: ModuleType) -> list[type]:
    return [
        value
        for value in vars(module).values()
        if getattr(value, "_is_protocol", False) and value.__module__ == module.__name__
    ]


MANDATORY = [*list_protocols(protocols), *list_protocols(clients)]
OPTIONAL = list_protocols(abilities)


def list_members(protocol: type) -> list[str]:
    return [name for name in vars(protocol) if not name.startswith("_")]


def list_methods(part: object, protocol: type) -> list[str]:
    """The methods of a part from its mandatory protocol, and from the optional ones that it implements."""
    implemented = [protocol, *(one for one in OPTIONAL if isinstance(part, one))]
    return [name for one in implemented for name in list_members(one)]
