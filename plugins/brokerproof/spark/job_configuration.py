"""The configuration, the environment and the command-line options of a Spark job.

With a class data archive (Java's application class data sharing, JEP 310 and 350), a job starts in half the time.
`make setup` creates the archive with class_data_dump.py. The archive is in the virtual environment, because it fits
only the jars and the Java of this environment.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from brokerproof.directories import Directories
from brokerproof.experiment.guarantees import Suite
from brokerproof.machine.files import PRIVATE, write_whole
from brokerproof.settings import Settings
from brokerproof.suites.suite_names import list_suites


def locate_archive() -> Path:
    """Return the path of Spark's class data archive, whether or not it exists."""
    return Path(sys.prefix) / "share" / "brokerproof" / "spark.jsa"


def list_java_options() -> list[str]:
    """Return the options that make a JVM use Spark's class data archive; empty if the archive does not exist.

    If the archive does not fit a JVM, the JVM starts without it and prints no warning.
    """
    path = locate_archive()
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:disable"] if path.exists() else []


# Below this number of messages, the JVM's second compiler takes more time than it saves. Measured: without that
# compiler, an almost empty job takes 11 s of CPU instead of 18 s.
_FEW_MESSAGES = 3_000_000
# With the first compiler only, the code cache has 48 MiB by default, and the code that Spark generates would fill it.
_FEW_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:CICompilerCount=1", "-XX:ReservedCodeCacheSize=240m")


# A process that does not know the secret is refused, and what two processes send each other is encrypted.
_AUTHENTICATION = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
}


# Python workers of judging keep freed memory for their next arrays. This saves a third of the kernel's time, which is
# mostly spent on new pages. The first two settings are for the C library, and the third one is for Arrow. By default,
# numpy asks for huge pages. On a virtual machine, these took a second more of each worker than small ones.
KEEP_MEMORY = {
    "spark.executorEnv.MALLOC_MMAP_MAX_": "0",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
    "spark.executorEnv.NUMPY_MADVISE_HUGEPAGE": "0",
}


def build_spark_conf(settings: Settings, temporary: Path, *, local: bool, messages: int = 0) -> dict[str, str]:
    """Return Spark's configuration for a job, as {key: value}.

    `temporary` is the directory for the driver's temporary files. With `local`, driver and executors are one process on
    this machine. `messages` is the number of messages that the job judges, 0 for other jobs.
    """
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # At Spark's default level, a job logs several thousand lines, which Airflow would store.
        "spark.log.level": "WARN",
        # PySpark asks the JVM seven things at each use of a column, to name the line of Python in an error of a query.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        # Cached rows are read once or twice. The search for their best encoding takes longer than it saves.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        "spark.sql.warehouse.dir": str(settings.var / "spark-warehouse"),
    }
    if messages:
        conf |= KEEP_MEMORY
    if local:
        # Without authentication, each user of this machine could send commands to the driver's ports. For a local
        # master, Spark makes a secret of its own.
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", **_AUTHENTICATION}
        # The parallel collector takes a tenth less CPU than the default one, measured on two cores. Without the second
        # option, Java does not compile the methods of more than 8,000 bytes that Spark generates.
        options = ["-XX:+UseParallelGC", "-XX:-DontCompileHugeMethods"]
        own = [f"-Djava.io.tmpdir={temporary}", *list_java_options()]
        if messages < _FEW_MESSAGES:
            # With few rows, starting a task costs more than its work. For larger tables, `verify` uses more parts.
            conf["spark.sql.shuffle.partitions"] = str(min(8, max(2, os.cpu_count() or 2)))
            options += _FEW_OPTIONS
        conf["spark.driver.extraJavaOptions"] = " ".join((*options, *own))
    elif messages < _FEW_MESSAGES:
        conf |= {f"spark.{process}.extraJavaOptions": " ".join(_FEW_OPTIONS) for process in ("driver", "executor")}
    return conf


def build_spark_environment(settings: Settings, temporary: Path, *, local: bool) -> dict[str, str]:
    """Return environment variables with which Spark's programs find this Python, Java and Brokerproof's modules.

    `temporary` is the directory for the job's temporary files. With `local`, the job listens only on loopback.
    """
    # Imported here, because the search for Java is slow and would delay every parse of the DAG files.
    from brokerproof.machine.java import find_spark_java_home

    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "JAVA_HOME": str(find_spark_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": settings.python_path(os.environ.get("PYTHONPATH")),
        "SPARK_LOCAL_DIRS": str(temporary),
        "TMPDIR": str(temporary),
        # Great Expectations reports its use to its makers unless this is off.
        "GX_ANALYTICS_ENABLED": "false",
    }
    if local:
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    elif settings.spark_secret:
        environment["SPARK_CONF_DIR"] = str(_write_spark_configuration(settings.spark_secret, temporary))
    return environment


def _write_spark_configuration(secret: str, temporary: Path) -> Path:
    """Write a directory of Spark's configuration with the secret into `temporary`, and return its path.

    The directory has the files of the environment's SPARK_CONF_DIR too. Spark reads the secret of a standalone cluster
    only from its configuration, and as an option the secret would be visible to each user who lists processes.
    """
    directory = temporary / "configuration"
    if given := os.environ.get("SPARK_CONF_DIR"):
        shutil.copytree(given, directory, dirs_exist_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "spark-defaults.conf"
    defaults = file.read_text(encoding="utf-8") if file.exists() else ""
    values = _AUTHENTICATION | {"spark.authenticate.secret": secret}
    lines = [defaults, *(f"{key} {value}" for key, value in values.items()), ""]
    write_whole(file, "\n".join(lines), permissions=PRIVATE)
    return directory


def list_verify_options(expectations: Directories) -> list[str]:
    """Return the command-line options of the job `verify`: the directories of suites, and the names of users' suites.

    If the file of a named suite is missing when `verify` runs, the suite's verdict is `unknown`. The shipped directory
    is last, because `verify` takes each suite from the first directory that has it.
    """
    in_order = sorted(expectations.paths, key=lambda path: path == expectations.shipped)
    options = [option for path in in_order for option in ("--expectations", str(path))]
    own = [name for name in list_suites(expectations) if name not in list(Suite)]
    return [*options, *(option for name in own for option in ("--suite", name))]
