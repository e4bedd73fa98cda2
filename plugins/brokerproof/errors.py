"""The exceptions that a person is meant to read; each message says what is wrong, where, and what to do."""


class BrokerproofError(Exception):
    """Base of every error that Brokerproof raises on purpose."""


class InputError(BrokerproofError, ValueError):
    """A scenario, topology or option cannot be used. Nothing was started.

    `file` and `field` say where (field as a dotted path, list items by index), `remedy` what to write instead. It is a
    ValueError so that pydantic takes it for a validator's finding.
    """

    def __init__(self, problem: str, *, file: str = "", field: str = "", remedy: str = "") -> None:
        self.problem, self.file, self.field, self.remedy = problem, file, field, remedy
        where = ": ".join(part for part in (file, field) if part)
        super().__init__((f"{where}: " if where else "") + problem + (f" ({remedy})" if remedy else ""))


class NodeError(BrokerproofError):
    """A node did not start, did not become healthy, or died; the message ends with its last log lines."""


class MachineError(BrokerproofError):
    """This machine lacks something: a port, an address, disk space, Java, the distribution."""


class AdminError(BrokerproofError):
    """The cluster refused or did not take a setting."""


class DeadlineError(BrokerproofError):
    """A condition did not come true in time."""


class RunError(BrokerproofError):
    """A run's directory is missing, damaged, or not in the state that a step needs."""
