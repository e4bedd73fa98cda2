"""Spark's class data archive: what Java learned of Spark's classes, kept, so that a job starts in half the time.

Java's application class data sharing (JEP 310, JEP 350). The archive lies in the virtual environment, because it is
fit for just the jars and the Java that are installed there; `make setup` makes it (warm_up.py).
"""

from __future__ import annotations

import sys
from pathlib import Path


def archive() -> Path:
    """Where the archive is, or would be."""
    return Path(sys.prefix) / "share" / "brokerproof" / "spark.jsa"


def java_options() -> list[str]:
    """What makes a JVM use the archive; one that finds it unfit says nothing and starts without it."""
    path = archive()
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:disable"] if path.exists() else []
