"""Files that are written whole: a reader sees the old content or the new, never half of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from brokerproof.errors import MachineError
from brokerproof.machine.files import PRIVATE, remove_abandoned_files, stage_file, stage_object, write_whole


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "one")
    write_whole(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_text() == "two"
    assert names(tmp_path) == ["a"]


def test_a_private_file_is_nobody_elses_from_the_first_byte_on(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_whole(tmp_path / "secret", "x", permissions=PRIVATE)
        write_whole(tmp_path / "program", "x", permissions=0o755)
    finally:
        os.umask(before)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "program").stat().st_mode & 0o777 == 0o755


def test_a_writer_that_is_killed_leaves_the_old_content(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "whole")
    code = f"""
import os, signal
from pathlib import Path
from brokerproof.machine.files import stage_file
with stage_file(Path({str(tmp_path / "a")!r})) as unfinished:
    unfinished.write_text("hal")
    # Java writes to a file of this name first.
    unfinished.with_name(unfinished.name + ".temp").write_text("ha")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "a").read_text() == "whole"


def test_a_block_that_fails_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "whole")

    def fail() -> None:
        with stage_file(tmp_path / "a") as unfinished:
            unfinished.write_text("hal")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "a").read_text() == "whole"
    assert names(tmp_path) == ["a"]


def test_a_file_that_cannot_be_written_is_reported_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match=r"file/a cannot be written: Not a directory; free space"):
        write_whole(tmp_path / "file" / "a", "x")


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_an_object_gets_its_name_when_it_is_whole_and_its_directory_is_made(tmp_path: Path, scheme: str) -> None:
    location = tmp_path / "new" / "part.parquet"
    with stage_object(f"{scheme}{location}", "wb") as file:
        file.write(b"x")
        # Spark would read any other name.
        (staged,) = names(location.parent)
        assert staged.startswith(".")
    assert names(location.parent) == ["part.parquet"]


def test_an_object_of_memory_is_written_whole_too() -> None:
    import fsspec

    with stage_object("memory://brokerproof-test/a.json", "w") as file:
        file.write("{}")
    memory = fsspec.filesystem("memory")
    assert memory.cat("/brokerproof-test/a.json") == b"{}"
    assert memory.ls("/brokerproof-test", detail=False) == ["/brokerproof-test/a.json"]
    memory.rm("/brokerproof-test", recursive=True)


def test_an_object_that_fails_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    def fail(error: Exception) -> None:
        with stage_object(str(tmp_path / "a"), "w") as file:
            file.write("hal")
            raise error

    with pytest.raises(MachineError, match="a cannot be written: it is so; free space"):
        fail(OSError("it is so"))
    with pytest.raises(ValueError, match="in the middle"):
        fail(ValueError("in the middle"))
    assert names(tmp_path) == []


def test_what_killed_writers_left_is_removed_and_what_is_being_written_stays(tmp_path: Path) -> None:
    below = tmp_path / "state"
    below.mkdir()
    code = f"""
import os, signal
from pathlib import Path
from brokerproof.machine.files import stage_file
with stage_file(Path({str(below / "a")!r})) as unfinished:
    unfinished.write_text("hal")
    # Java writes to a file of this name first.
    unfinished.with_name(unfinished.name + ".temp").write_text("ha")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert len(names(below)) == 2
    for other in (".hidden", ".part-1.parquet", "b.json"):
        (below / other).touch()
    with stage_file(below / "c") as unfinished:
        unfinished.write_text("not yet")
        remove_abandoned_files(tmp_path)
        assert set(names(below)) == {unfinished.name, ".hidden", ".part-1.parquet", "b.json"}
    assert (below / "c").read_text() == "not yet"


def test_a_file_that_another_host_writes_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory may be shared, and the process of another host is not among the processes of this one."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("socket.gethostname", lambda: "elsewhere")
        elsewhere.setattr("os.getpid", lambda: 2**22 + 1)
        there = stage_file(tmp_path / "a")
        unfinished = there.__enter__()
    unfinished.write_text("not yet")
    remove_abandoned_files(tmp_path)
    assert names(tmp_path) == [unfinished.name]
    unfinished.rename(unfinished.with_name(unfinished.name.replace("elsewhere", socket.gethostname())))
    remove_abandoned_files(tmp_path)
    assert names(tmp_path) == []
