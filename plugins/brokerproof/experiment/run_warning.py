"""A warning about a run before it begins: what will happen in it that its author may not want. It refuses nothing."""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.errors import InputError


@dataclass(frozen=True, kw_only=True)
class RunWarning:
    """One warning. `field` is a dotted path in the scenario, `what` and `remedy` are parts of a sentence."""

    field: str
    what: str
    remedy: str

    def __str__(self) -> str:
        # Long values of the user's are shortened as in errors.
        return str(InputError(self.what, field=self.field, remedy=self.remedy))
