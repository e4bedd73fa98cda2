"""Pulsar's releases: the versions that can be used, their distributions and their images."""

from __future__ import annotations

from collections.abc import Mapping

from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.runtimes.protocols import Runtime
from brokerproof.systems.jvm import software
from brokerproof.systems.jvm.distribution import Distribution

# {version: SHA-512 of `pulsar-server-distribution-<version>-bin.tar.gz`}. Only these versions can be used.
CHECKSUMS: Mapping[str, str] = {
    "4.0.8": "65b769b10696cdfebf7fc5bcdc95dd663702e27051e616c1a13cb100e9127952"
    "5be35352171befe7b0011176330aab29bd0a6c8a0f2f0646641af46d2e33cbd6"
}


def find_distribution(version: str) -> Distribution:
    """Return the distribution of a version. Raises InputError for a version without a pinned checksum."""
    if version not in CHECKSUMS:
        raise InputError(
            f"no checksum of Pulsar {version} is pinned", field="version", remedy=suggest_name(version, CHECKSUMS)
        )
    return Distribution(
        system="pulsar",
        version=version,
        group="org.apache.pulsar",
        artifact="pulsar-server-distribution",
        sha512=CHECKSUMS[version],
        directory=f"apache-pulsar-{version}",
        size_mb=240,
    )


def name_image(version: str) -> str:
    """Return the official image of a version, by name and tag."""
    return f"apachepulsar/pulsar:{version}"


def provide_software(version: str, runtime: Runtime) -> software.LocalSoftware | software.ImageSoftware:
    """Return the programs of a runtime's nodes: the official image if the runtime runs images, else the distribution.

    A missing distribution is fetched. Raises InputError for an unknown version, MachineError if the distribution cannot
    be fetched.
    """
    return software.provide_software(
        find_distribution(version), image=name_image(version), home_in_image="/pulsar", runtime=runtime
    )
