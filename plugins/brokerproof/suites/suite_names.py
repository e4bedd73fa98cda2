"""The suites that judge a run, by name: the five, and each other file in the directories of expectations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

import fsspec

from brokerproof.directories import Directories
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.suite_name import check_suite_name, is_suite_name

ENDING = ".json"


def list_suites(expectations: Directories) -> list[str]:
    """The five and users' own, as the files say without being read. A file with an unusable name is left out."""
    names = [name for name in expectations.list_files(ENDING) if is_suite_name(name)]
    return list(dict.fromkeys([*map(str, Suite), *names]))


def find_suites(directories: Sequence[str]) -> list[str]:
    """The five and users' own, in directories anywhere that fsspec reads.

    Raises InputError for a file whose name is no suite's, and OSError for a directory that cannot be read.
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
