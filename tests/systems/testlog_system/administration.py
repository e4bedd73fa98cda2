"""Changes clusters of the log server: makes the workload's topic, and moves it to another owner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from brokerproof.errors import AdminError
from brokerproof.run.directory import Run
from testlog.client import LogAdmin, RequestError, UnavailableError

from testlog_system.cluster import cluster_of, partition_numbers


class TestlogAdministration:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._admin = LogAdmin(cluster_of(run))
        self._topic = run.scenario.workload.topic

    def configure(self) -> None:
        """Create the topic."""
        with admin_errors("create the topic"):
            self._admin.create_topic(self._topic, len(partition_numbers(self._run)))

    def check_configuration(self) -> None:
        """Raises AdminError if the topic has another number of partitions than the workload."""
        with admin_errors("read the topic back"):
            found = len(self._admin.log_ends(self._topic))
        if found != (wanted := len(partition_numbers(self._run))):
            raise AdminError(f"the topic {self._topic} has {found} partitions, not {wanted}")

    def reassign(self, cluster: str | None = None) -> None:
        """Move the leadership to another server."""
        with admin_errors("take the topic from its owner"):
            self._admin.reassign()


@contextmanager
def admin_errors(purpose: str) -> Iterator[None]:
    """Turn the library's errors into AdminError. `purpose` completes the sentence "cannot …".

    The library does not check answers, so an unexpected answer raises one of Python's own errors that are caught here.
    """
    try:
        yield
    except (UnavailableError, RequestError) as error:
        raise AdminError(f"the log server cannot {purpose}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise AdminError(f"the log server cannot {purpose}, and answered something else: {error!r}") from None
