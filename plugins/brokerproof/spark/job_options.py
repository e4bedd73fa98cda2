"""The options of a Spark job on its command line."""

from __future__ import annotations

from brokerproof.directories import Directories
from brokerproof.experiment.guarantees import Suite
from brokerproof.suites.suite_names import list_suites


def list_verify_options(expectations: Directories) -> list[str]:
    """The options of `verify`: the directories, and the suites of users, which must still be there when it judges.

    It takes a suite from the first directory that has it, so the shipped one comes last.
    """
    in_order = sorted(expectations.paths, key=lambda path: path == expectations.shipped)
    options = [option for path in in_order for option in ("--expectations", str(path))]
    own = [name for name in list_suites(expectations) if name not in list(Suite)]
    return [*options, *(option for name in own for option in ("--suite", name))]
