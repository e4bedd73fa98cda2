"""A warning before a run about an effect that its author may not want. A warning does not stop the run."""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.errors import InputError


@dataclass(frozen=True, kw_only=True)
class RunWarning:
    """One warning. `field` is a dotted path in the scenario. `what` and `remedy` are parts of one sentence."""

    field: str
    what: str
    remedy: str

    def __str__(self) -> str:
        # `InputError` shortens long values that the user wrote.
        return str(InputError(self.what, field=self.field, remedy=self.remedy))
