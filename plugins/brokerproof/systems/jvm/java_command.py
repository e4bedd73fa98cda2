"""The command of a node's JVM, the files that the command names, and the text of Java's `key=value` files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from brokerproof.systems.jvm.software import Software

# A JVM's memory outside its heap and its direct memory, in MiB: classes, code, threads and native libraries.
BESIDE_HEAP_MB = 512

# Serial garbage collection and one compiler thread, because nine JVMs share two cores. With the 48 MiB for code that a
# single compiler has by default, Java would collect all garbage after each 7 MiB of new code.
_SMALL = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:CICompilerCount=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-Xss512k",
    "-XX:+ExitOnOutOfMemoryError",
)

_LOG4J = """\
Configuration:
  status: ERROR
  Appenders:
    Console:
      name: Console
      target: SYSTEM_OUT
      PatternLayout:
        Pattern: "%d{ISO8601_OFFSET_DATE_TIME_HHMM} [%t] %-5level %logger{36} - %msg%n"
  Loggers:
    Root:
      level: info
      AppenderRef: {ref: Console}
"""
_LOG4J_ERRORS = "Configuration:\n  status: ERROR\n"


def make_java_command(
    software: Software, *, heap_mb: int, direct_mb: int, class_data: tuple[str, ...], options: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the command of a JVM up to and including the class path. The caller appends the main class.

    The command names files, which the caller makes with `make_java_files`.
    """
    return (
        software.java,
        *class_data,
        f"-Xmx{heap_mb}m",
        f"-XX:MaxDirectMemorySize={direct_mb}m",
        *_SMALL,
        "-Djava.net.preferIPv4Stack=true",
        "-Dlog4j2.is.webapp=false",
        "-Dlog4j.configurationFile={node}/conf/log4j2.yaml",
        # RocksDB and Netty unpack libraries into this directory. A node that is killed cannot remove them.
        "-Djava.io.tmpdir={node}/tmp",
        # This file maps the machine's host name to the node's address, for nodes that look up their own region by it.
        "-Djdk.net.hosts.file={node}/conf/hosts",
        *options,
        *("-cp", software.classpath),
    )


def make_java_files(address: str | None, hosts: Mapping[str, str]) -> dict[str, str]:
    """Return {path: text} of the hosts file and the logging configuration that the options of `make_java_command` name.

    `hosts` is {host: address}. `address` is the node's address. It is None for a program that runs once; such a program
    logs errors only.
    """
    known = {"localhost": "127.0.0.1", **hosts}
    lines = [f"{each} {host}\n" for host, each in known.items()]
    if address is not None:
        # Java also looks up the name of this address. It takes the first line, which must have the machine's host name.
        lines.insert(0, f"{address} {{host}}\n")
    return {"conf/hosts": "".join(lines), "conf/log4j2.yaml": _LOG4J_ERRORS if address is None else _LOG4J}


def fill_properties(shipped: str, settings: Mapping[str, object]) -> str:
    """Return `shipped`, the text of a `key=value` file, with the values of `settings` in it.

    Keys that the text does not have, or has only in comments, are appended.
    """
    unwritten = dict(settings)

    def replace(match: re.Match[str]) -> str:
        key = match[1]
        return f"{key}={unwritten.pop(key)}" if key in unwritten else match[0]

    text = re.sub(r"^([A-Za-z][\w.]*)=.*$", replace, shipped, flags=re.MULTILINE)
    return text + "".join(f"\n{key}={value}" for key, value in unwritten.items()) + "\n"
