"""An image in which the link process can run, for tests: the programs of this machine that it needs, and no others.

It stands in for the image of the Dockerfile, which takes minutes to build.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker

IMAGE = "brokerproof-tests/link:1"
PROJECT = Path(__file__).resolve().parents[2]
# What the process imports beside Python's own modules.
_PACKAGES = (
    *("annotated_types", "fsspec", "psutil", "pydantic", "pydantic_core"),
    *("typing_extensions.py", "typing_inspection", "yaml"),
)
_CODE = "/opt/brokerproof"


def make_link_image(client: docker.APIClient) -> str:
    """Make the image; its name."""
    standard, site = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))
    programs = [Path(sys.executable).resolve(), Path(str(shutil.which("ip"))).resolve()]
    extensions = [*standard.glob("lib-dynload/*.so")]
    extensions += [file for name in _PACKAGES for file in site.glob(f"{name}/**/*.so")]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for library in sorted({path for program in (*programs, *extensions) for path in list_libraries(program)}):
            tar.add(library.resolve(), str(library))
        tar.add(standard, str(standard), filter=_leave_out_what_nobody_imports)
        for program in programs:
            tar.add(program, str(program))
        for name, target in (("python", programs[0]), ("ip", programs[1])):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, str(target)
            tar.addfile(link)
        for name in _PACKAGES:
            tar.add(site / name, f"{_CODE}/lib/{name}")
        code = PROJECT / "plugins" / "brokerproof"
        tar.add(code, f"{_CODE}/plugins/brokerproof", filter=_leave_out_what_nobody_imports)
    repository, tag = IMAGE.split(":")
    changes = ["ENV PATH=/bin", f"ENV PYTHONPATH={_CODE}/plugins:{_CODE}/lib", "USER 10000"]
    client.import_image_from_data(buffer.getvalue(), repository, tag, changes=changes)
    return IMAGE


def list_libraries(program: Path) -> Iterator[Path]:
    """The shared libraries that a program is linked to, with its loader."""
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    for line in said.splitlines():
        path = line.split("=>")[-1].split("(")[0].strip()
        if path.startswith("/"):
            yield Path(path)


def _leave_out_what_nobody_imports(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    unwanted = ("site-packages", "__pycache__", "/test/", "libpython", "idlelib", "tkinter", "ensurepip", "/config-3")
    return None if any(word in entry.name for word in unwanted) else entry
