"""The rule for names of suites, shipped or the users' own: an identifier that is not the name of a step of a run."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import IDENTIFIER

SuiteName = Annotated[str, Field(pattern=IDENTIFIER)]

# The tasks of a run's DAG that are not suites. Each suite is a task too, so no suite can have one of these names.
STEPS = (
    *("reserve", "provision", "configure", "load", "consume", "break_it", "read_back"),
    *("verify", "release", "record", "verdict"),
)


def is_suite_name(name: str) -> bool:
    """Whether a suite may have this name: whether it is an identifier and not one of `STEPS`."""
    return bool(re.fullmatch(IDENTIFIER, name)) and name not in STEPS


def check_suite_name(name: str, file: str) -> None:
    """Raises InputError, which names `file`, if no suite may have this name."""
    if name in STEPS:
        raise InputError(f"a suite cannot be called `{name}`, as a task is", file=file, remedy="rename the file")
    if not is_suite_name(name):
        raise InputError(
            f"`{name}` is no name of a suite",
            file=file,
            remedy="rename the file: small letters, digits and `_`, beginning with a letter",
        )
