"""Images under the official tags that docker-compose.yaml and the runtime `docker` name, made on this machine.

Each is Debian with Debian's own package of the program, or with Pulsar's official distribution, and an entry point that
takes what the official image takes. Grafana's is a stub. Brokerproof's image is the real one, built by the real
Dockerfile, from a stand-in of its base image.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import docker
import yaml
from brokerproof.systems.pulsar.provisioning import find_distribution

PROJECT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent / "stand_ins"
PULSAR = "4.0.8"
BASE = "brokerproof-tests/debian:1"
# Of all stand-ins, so that one root file system serves them all.
_PACKAGES = (
    *("ca-certificates", "curl", "haproxy", "iproute2", "openjdk-17-jre-headless"),
    *("postgresql", "prometheus", "python3", "python3-pip", "python3-venv"),
)
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def make_stand_ins(client: docker.APIClient) -> None:
    """Make every image that is not there yet. Raises subprocess.CalledProcessError where a command fails."""
    compose = yaml.safe_load((PROJECT / "docker-compose.yaml").read_text())
    # Written as ${NAME:-image:tag}.
    tags = {
        name: image.split(":-")[1].rstrip("}") for name, image in compose["x-images"].items() if name != "brokerproof"
    }
    _make_base(client)
    for name, tag in tags.items():
        _build(client, tag, HERE / name, {"ca-certificates.crt": _CERTIFICATES})
    distribution = find_distribution(PULSAR)
    distribution.fetch(print)
    _build(client, f"apachepulsar/pulsar:{PULSAR}", HERE / "pulsar", {"distribution": distribution.home})


def make_own_image(host: str) -> None:
    """Brokerproof's image by its Dockerfile, as `make image` does. The build shares this machine's way out."""
    command = ["make", "--silent", "image", "BUILD_OPTIONS=--network host --quiet"]
    subprocess.run(command, cwd=PROJECT, env={**os.environ, "DOCKER_HOST": host}, check=True)


def _make_base(client: docker.APIClient) -> None:
    if _is_there(client, BASE):
        return
    program = shutil.which("mmdebstrap")
    if program is None:
        raise FileNotFoundError("mmdebstrap, which makes the images' root file system; install its package")
    packages = f"--include={','.join(_PACKAGES)}"
    # The root file system is imported and removed, so that no file of it has to survive a loss of power.
    command = [program, "--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io", packages, "bookworm", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as making:
        assert making.stdout is not None
        repository, tag = BASE.split(":")
        client.import_image_from_data(making.stdout, repository, tag)
    if making.returncode:
        raise subprocess.CalledProcessError(making.returncode, command)


def _build(client: docker.APIClient, tag: str, directory: Path, more: Mapping[str, Path]) -> None:
    """Build an image of a directory with a Dockerfile, and of other files and directories under other names."""
    if _is_there(client, tag):
        return
    with tarfile.open(fileobj=(context := io.BytesIO()), mode="w") as tar:
        for file in directory.iterdir():
            tar.add(file, file.name)
        for name, path in more.items():
            if path.exists():
                tar.add(path, name)
    context.seek(0)
    said = client.build(fileobj=context, custom_context=True, tag=tag, network_mode="host", rm=True)
    _raise_for_error(tag, (json.loads(line) for chunk in said for line in chunk.splitlines() if line))


def _raise_for_error(tag: str, said: Iterable[Mapping[str, Any]]) -> None:
    for line in said:
        if "error" in line:
            raise RuntimeError(f"{tag} was not built: {line['error']}")


def _is_there(client: docker.APIClient, tag: str) -> bool:
    return bool(client.images(tag))
