"""The names of the suites that judge a run: the five shipped suites, and the suites that users add.

A user adds a suite as a file in a directory of expectations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

import fsspec

from brokerproof.directories import Directories
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.suite_name import check_suite_name, is_suite_name

ENDING = ".json"


def list_suites(expectations: Directories) -> list[str]:
    """Return the names of the five shipped suites, then those of the users' suites in the directories.

    The names are those of the files, which are not read. A file whose name cannot be a suite's name is left out.
    """
    names = [name for name in expectations.list_files(ENDING) if is_suite_name(name)]
    return list(dict.fromkeys([*map(str, Suite), *names]))


def find_suites(directories: Sequence[str]) -> list[str]:
    """Return the names of the five shipped suites, then those of the users' suites in the directories.

    A directory is any location that fsspec reads. Raises InputError if a file's name cannot be a suite's name, and
    OSError if a directory cannot be read.
    """
    names = [str(suite) for suite in Suite]
    for directory in directories:
        filesystem, path = fsspec.url_to_fs(directory)
        files = sorted(file for file in filesystem.ls(path, detail=False) if file.endswith(ENDING))
        for file in files:
            name = PurePosixPath(file).name.removesuffix(ENDING)
            check_suite_name(name, file)
            names.append(name)
    return list(dict.fromkeys(names))
