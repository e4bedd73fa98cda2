from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.errors import MachineError
from brokerproof.runtimes.process_runtime import ProcessRuntime
from brokerproof.systems.jvm.software import ImageSoftware, LocalSoftware
from brokerproof.systems.pulsar.provisioning import PulsarProvisioning, find_distribution, provide_software
from brokerproof.systems.pulsar.roles import Role
from brokerproof.systems.pulsar.system import PULSAR
from builders import make_run


class Images(ProcessRuntime):
    """A runtime of images, as far as software is asked for."""

    def __init__(self, nodes: Path) -> None:
        super().__init__(nodes)
        self.read: list[tuple[str, str]] = []

    def read_image_file(self, image: str, path: str) -> str:
        self.read.append((image, path))
        if not path.endswith("broker.conf"):
            raise MachineError(f"{image} holds no {path}")
        return "clusterName=\n"


def test_where_a_runtime_runs_images_the_official_one_holds_everything(tmp_path: Path) -> None:
    runtime = Images(tmp_path)
    software = provide_software("4.0.8", runtime)
    assert isinstance(software, ImageSoftware)
    assert (software.image, software.java, software.classpath) == ("apachepulsar/pulsar:4.0.8", "java", "/pulsar/lib/*")
    assert software.list_class_data_options(Role.BROKER, 256) == ()
    assert [software.read_shipped("broker.conf") for _ in range(2)] == ["clusterName=\n"] * 2
    assert runtime.read == [("apachepulsar/pulsar:4.0.8", "/pulsar/conf/broker.conf")]
    with pytest.raises(MachineError, match="holds no"):
        software.read_shipped("zookeeper.conf")


def test_the_image_is_in_the_registry_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_REGISTRY", "registry.example.com:5000/mirror")
    image = "registry.example.com:5000/mirror/apachepulsar/pulsar:4.0.8"
    software = provide_software("4.0.8", Images(tmp_path))
    assert isinstance(software, ImageSoftware)
    assert software.image == image
    # The step that fetches images fetches the same one.
    assert PULSAR.list_images("4.0.8") == [image]


def test_a_run_makes_one_archive_of_class_data_and_that_of_the_brokers_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a run waits for it."""
    run, asked = make_run(tmp_path / "run", "sync_nominal"), list[tuple[str, int]]()

    def dump(path: Path, *, java: Path, pid: int) -> bool:
        asked.append((path.name.split("-")[2], pid))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return True

    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("brokerproof.systems.jvm.software.dump", dump)
    provisioning = PulsarProvisioning(run)
    monkeypatch.setattr(
        PulsarProvisioning, "_software", LocalSoftware(find_distribution(run.scenario.version)), raising=False
    )
    pids = {name: number for number, name in enumerate(run.topology.nodes)}
    for made in (1, 2, 3, 3):
        provisioning.learn(pids)
        assert len(asked) == made
    assert [role for role, _ in asked] == ["broker", "bookie", "metadata"]
    assert [run.topology.nodes[list(pids)[pid]].role for _, pid in asked] == ["broker", "bookie", "metadata"]
