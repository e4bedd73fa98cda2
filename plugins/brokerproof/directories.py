"""Directories that are searched for files by name: the user's own directories and the shipped one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from brokerproof.bounded_reading import MOST_YAML_BYTES, ContentError, read_text
from brokerproof.errors import InputError


@dataclass(frozen=True)
class Directories:
    """The directories with the files of one kind, such as scenarios. A file is found by its name.

    `variable` is the environment variable that lists `paths`. `shipped` is the project's own directory, which `paths`
    may leave out. A name that two directories have cannot be used. But if `replaceable` is true, a file in another
    directory replaces the shipped file of the same name.
    """

    paths: tuple[Path, ...]
    variable: str = ""
    shipped: Path | None = None
    replaceable: bool = False

    def find(self, name: str, ending: str = ".yaml") -> Path | None:
        """Return the file with this name; None if no directory has it.

        Raises InputError if the name cannot be used, or if no file is found and one of the directories cannot be read.
        """
        files = self._search(ending).get(name, [])
        if len(files) > 1:
            raise _refuse_same_name(files)
        if not files:
            self.check_readable()
        return files[0] if files else None

    def list_files(self, ending: str = ".yaml") -> dict[str, Path]:
        """Return {name without the ending: file} for each name that can be used, sorted by name.

        A directory that cannot be read counts as empty.
        """
        return {name: files[0] for name, files in self._search(ending).items() if len(files) == 1}

    def list_problems(self, ending: str = ".yaml") -> list[InputError]:
        """Return an error for each directory that cannot be read, and for each file whose name cannot be used.

        If no directory has such a file, each empty directory is an error too.
        """
        found = self._search(ending)
        same_names = (_refuse_same_name(files) for files in found.values() if len(files) > 1)
        misnamed = (_refuse_ending(file, ending) for path in self.paths for file in _list_misnamed(path, ending))
        # Replaceable files are known by name, so their user reports which of them are missing.
        empty = [] if found or self.replaceable else self.list_empty(ending)
        return [*self._list_unreadable(), *same_names, *misnamed, *empty]

    def list_empty(self, ending: str = ".yaml") -> list[InputError]:
        """Return an error for each of the user's directories without a file of this kind, even a misnamed one.

        A directory with a subdirectory `settings` is not empty: topologies extend these settings.
        """
        left_out = self.shipped is not None and self.shipped not in self.paths
        otherwise = "let it end with `:` to have the shipped ones" if left_out else "take the directory out of the list"
        return [
            InputError(
                f"the directory {path} has no file that ends with `{ending}`",
                field=self.variable,
                remedy=f"put one there, or {otherwise}",
            )
            for path in self.paths
            if path != self.shipped
            and path.is_dir()
            and not any(file.suffix == ending or file.name == "settings" for file in _list_entries(path))
            and not _list_misnamed(path, ending)
        ]

    def find_misnamed(self, name: str, ending: str = ".yaml") -> Path | None:
        """Return a file with this name and an ending that is easily mistaken for `ending`; None if there is none."""
        files = (file for path in self.paths for file in _list_misnamed(path, ending))
        return next((file for file in files if file.stem == name), None)

    def check_readable(self) -> None:
        """Raises InputError if one of the directories cannot be read."""
        for error in self._list_unreadable():
            raise error

    def has_left_out(self, name: str, ending: str = ".yaml") -> bool:
        """Whether the shipped directory has a file with this name, but `paths` leaves the shipped directory out."""
        if self.shipped is None or self.shipped in self.paths:
            return False
        return name in replace(self, paths=(self.shipped,)).list_files(ending)

    def below(self, name: str) -> Directories:
        """Return the subdirectories called `name`. A directory that has none is left out."""
        return Directories(
            paths=tuple(path / name for path in self.paths if (path / name).is_dir()),
            variable=self.variable,
            shipped=self.shipped and self.shipped / name,
        )

    def _search(self, ending: str) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for path in self.paths:
            for file in path.glob(f"*{ending}"):
                found.setdefault(file.stem, []).append(file)
        for name, files in found.items():
            if self.replaceable and len(files) > 1:
                found[name] = [file for file in files if file.parent != self.shipped]
        return dict(sorted(found.items()))

    def _list_unreadable(self) -> Iterator[InputError]:
        for path in self.paths:
            try:
                with os.scandir(path):
                    pass
            except OSError as error:
                yield InputError(
                    f"the directory {path} cannot be read: {error.strerror}",
                    field=self.variable,
                    remedy="correct the path, or take it out of the list",
                )


def make_directories(place: Path | Directories) -> Directories:
    """Return `place` if it is a `Directories` already, else a `Directories` with only the path `place`."""
    return place if isinstance(place, Directories) else Directories(paths=(place,))


def _list_entries(path: Path) -> list[Path]:
    """Return the files and subdirectories of a directory, except hidden ones. It is empty if it cannot be read."""
    try:
        return sorted(file for file in path.iterdir() if not file.name.startswith("."))
    except OSError:
        return []


def _list_misnamed(path: Path, ending: str) -> list[Path]:
    """Return the files that are probably meant to have this ending."""
    return [file for file in _list_entries(path) if file.suffix != ending and _is_misnamed(file, ending)]


def _is_misnamed(file: Path, ending: str) -> bool:
    kind = file.suffix.lower()
    if kind == ending or (kind, ending) == (".yml", ".yaml"):
        return file.is_file()
    if ending != ".json" or kind not in (".yaml", ".yml"):
        return False
    # A directory may hold scenarios beside suites, so only the content shows that a YAML file is meant as a suite.
    try:
        return re.search(r"^expectations *:", read_text(file, MOST_YAML_BYTES), re.MULTILINE) is not None
    except (OSError, ContentError):
        return False


def _refuse_ending(file: Path, ending: str) -> InputError:
    right = file.with_suffix(ending)
    remedy = f"rename it to {right.name}" if not right.exists() else "delete it, or give it another name"
    if ending == ".json":
        remedy = f"write it as JSON, and name it {right.name}"
    return InputError(f"is not read, because its name does not end with `{ending}`", file=str(file), remedy=remedy)


def _refuse_same_name(files: list[Path]) -> InputError:
    first, *others = files
    return InputError(
        f"has the same name as {' and '.join(map(str, others))}", file=str(first), remedy="rename all but one"
    )
