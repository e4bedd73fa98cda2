"""The command-line options of a Spark job."""

from __future__ import annotations

from brokerproof.directories import Directories
from brokerproof.experiment.guarantees import Suite
from brokerproof.suites.suite_names import list_suites


def list_verify_options(expectations: Directories) -> list[str]:
    """Return the options of `verify`: the directories of suites, and the names of the users' suites.

    A named suite is `unknown` if its file is gone by then. The shipped directory is last, because `verify` takes each
    suite from the first directory that has it.
    """
    in_order = sorted(expectations.paths, key=lambda path: path == expectations.shipped)
    options = [option for path in in_order for option in ("--expectations", str(path))]
    own = [name for name in list_suites(expectations) if name not in list(Suite)]
    return [*options, *(option for name in own for option in ("--suite", name))]
