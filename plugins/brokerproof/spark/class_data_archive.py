"""Spark's class data archive: Java reads the classes of Spark from it, so that a job starts in half the time.

It is Java's application class data sharing (JEP 310, JEP 350). The archive lies in the virtual environment, because it
fits only the jars and the Java that are installed there. `make setup` dumps it (class_data_dump.py).
"""

from __future__ import annotations

import sys
from pathlib import Path


def locate_archive() -> Path:
    """The path of the archive, whether or not it exists."""
    return Path(sys.prefix) / "share" / "brokerproof" / "spark.jsa"


def list_java_options() -> list[str]:
    """The options that make a JVM use the archive. A JVM that it does not fit starts without it, and prints nothing."""
    path = locate_archive()
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:disable"] if path.exists() else []
