"""YAML files that extend another file and state only the difference.

`extends: NAME` names the file NAME.yaml in a searched directory. That file may extend another one. Mappings are merged
key by key, at any depth. A list or a plain value replaces the value in NAME.yaml, and `null` removes the key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerproof.directories import Directories
from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import parse_index, read_yaml, suggest_file

_EXTENDS = "extends"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One file with only its own content, without that of the files that it extends."""

    path: Path
    content: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class LayeredFile:
    """A file merged with the files that it extends. `layers` has one layer per file, the extending file first."""

    content: dict[str, Any]
    layers: tuple[Layer, ...]

    def file_of(self, field: str) -> Path:
        """Return the file whose value for a field (a dotted path) counts: the first in `layers` that states the field.

        If no file states the field, the nearest enclosing field counts instead.
        """
        names = field.split(".")
        return max(self.layers, key=lambda layer: _count_found(layer.content, names)).path


def read_layered_file(path: Path, directories: Directories, *, own: Collection[str] = ()) -> LayeredFile:
    """Return the file at `path` merged with the files that it extends.

    Fields named in `own` are never taken from an extended file. Raises InputError if a file is missing or invalid, or
    if files extend each other in a circle.
    """
    layers = _read_layers(path, directories, own)
    content: dict[str, Any] = {}
    for layer in reversed(layers):
        content = merge_mappings(content, layer.content)
    return LayeredFile(content=content, layers=tuple(layers))


def extend_field(content: Mapping[str, Any], field: str, directories: Directories, *, file: Path) -> dict[str, Any]:
    """Return `content`, with the mapping in `field` merged over the file that this mapping `extends`, if any.

    If no file of this name is in `directories`, an InputError names `file`, from which `content` was read.
    """
    value = content.get(field)
    if not isinstance(value, Mapping) or value.get(_EXTENDS) is None:
        return dict(content)
    base = _find_file(value[_EXTENDS], directories, file=file, field=f"{field}.{_EXTENDS}")
    below = read_layered_file(base, directories).content
    return {**content, field: merge_mappings(below, _without(value, [_EXTENDS]))}


def merge_mappings(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `below` that has the values of `above`, merged at any depth. None in `above` removes a key.

    The keys of `below` keep their order and come first.
    """
    merged = dict(below)
    for key, value in above.items():
        if value is None and key in merged:
            del merged[key]
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge_mappings(merged[key], value)
        else:
            merged[key] = value
    return merged


def _read_layers(path: Path, directories: Directories, own: Collection[str]) -> list[Layer]:
    layers: list[Layer] = []
    following: Path | None = path
    while following is not None:
        content = read_yaml(following)
        not_stated = [_EXTENDS, *own] if layers else [_EXTENDS]
        layers.append(Layer(path=following, content=_without(content, not_stated)))
        following = _find_base(content.get(_EXTENDS), [layer.path for layer in layers], directories)
    return layers


def _find_base(name: Any, paths: Sequence[Path], directories: Directories) -> Path | None:
    """Return the file called `name`; None if `name` is None. The last file of `paths` extends it.

    Raises InputError if there is no such file, or if it is itself in `paths`: then files extend each other in a circle.
    """
    if name is None:
        return None
    found = _find_file(name, directories, file=paths[-1], field=_EXTENDS)
    if found in paths:
        circle = " → ".join(path.stem for path in [*paths[paths.index(found) :], found])
        raise InputError(
            f"`{name}` extends itself: {circle}", file=str(paths[-1]), field=_EXTENDS, remedy="extend another file"
        )
    return found


def _find_file(name: Any, directories: Directories, *, file: Path, field: str) -> Path:
    """Return the path of the file called `name`. If it is missing, an InputError names `file` and the `field` in it."""
    found = directories.find(name) if isinstance(name, str) else None
    if found is None:
        searched = " or ".join(dict.fromkeys(f"{path.name}/" for path in directories.paths))
        raise InputError(
            f"no file of {searched} is called `{name}`",
            file=str(file),
            field=field,
            remedy=suggest_file(str(name), directories),
        )
    return found


def _without(content: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in names}


def find_container(content: Any, field: str) -> Any:
    """Return the innermost mapping or list of `content` on the way to a field, a dotted path."""
    container = content
    for name in field.split("."):
        if isinstance(content, list) and (index := parse_index(name, content)) is not None:
            content = content[index]
        elif isinstance(content, Mapping) and name in content:
            content = content[name]
        else:
            break
        container = content if isinstance(content, list | Mapping) else container
    return container


def _count_found(content: Any, names: Sequence[str]) -> int:
    """Return how many of `names`, the parts of a dotted path, exist in `content`, counted from the first."""
    for count, name in enumerate(names):
        if isinstance(content, list) and (index := parse_index(name, content)) is not None:
            content = content[index]
        elif isinstance(content, Mapping) and name in content:
            content = content[name]
        else:
            return count
    return len(names)
