"""What the command lines of campaigns have in common: how many seeds, how many at a time, and where runs are kept."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path


def add_campaign_options(parser: argparse.ArgumentParser, *, count: int, at_once: int) -> None:
    """Add the options, with the defaults of a campaign."""
    parser.add_argument("--count", type=int, default=count, help="so many runs, each of a seed of its own")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--at-once", type=int, default=at_once, help="so many runs at a time")
    parser.add_argument("--directory", type=Path, help="where the runs are kept; by default in a temporary directory")


def list_seeds(options: argparse.Namespace) -> range:
    """The seeds that were asked for."""
    return range(options.seed, options.seed + options.count)


def make_directory(options: argparse.Namespace, name: str) -> Path:
    """The directory that was asked for, else a temporary one."""
    directory: Path = (options.directory or Path(tempfile.mkdtemp(prefix=f"{name}-"))).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def conclude(options: argparse.Namespace, directory: Path, bad: str) -> int:
    """The exit status: 1 where `bad` says what was wrong, which is printed and the directory kept; 0 otherwise."""
    if bad:
        print(f"{bad}: see {directory}")
        return 1
    if options.directory is None:
        shutil.rmtree(directory)
    return 0
