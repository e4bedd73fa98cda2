"""Spark's class data archive: Java reads Spark's classes from the archive, so that a job starts in half the time.

This is Java's application class data sharing (JEP 310, JEP 350). The archive is in the virtual environment, because it
fits only the jars and the Java that are installed there. `make setup` creates the archive with class_data_dump.py.
"""

from __future__ import annotations

import sys
from pathlib import Path


def locate_archive() -> Path:
    """Return the path of the archive, whether or not it exists."""
    return Path(sys.prefix) / "share" / "brokerproof" / "spark.jsa"


def list_java_options() -> list[str]:
    """Return the options that make a JVM use the archive; an empty list if the archive does not exist.

    If the archive does not fit a JVM, the JVM starts without it and prints no warning.
    """
    path = locate_archive()
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:disable"] if path.exists() else []
