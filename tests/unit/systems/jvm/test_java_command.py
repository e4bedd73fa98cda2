from __future__ import annotations

from brokerproof.systems.jvm.java_command import fill_properties, make_java_command, make_java_files
from brokerproof.systems.jvm.software import ImageSoftware


def test_a_jvm_reads_the_files_that_are_made_for_it() -> None:
    command = make_java_command(
        ImageSoftware("image", "/home", lambda image, path: ""),
        heap_mb=64,
        direct_mb=32,
        class_data=("-XX:SharedArchiveFile=a.jsa",),
        options=("-Down=1",),
    )
    assert command[:4] == ("java", "-XX:SharedArchiveFile=a.jsa", "-Xmx64m", "-XX:MaxDirectMemorySize=32m")
    assert command[-3:] == ("-Down=1", "-cp", "/home/lib/*")
    files = make_java_files("127.0.0.2", {"other": "127.0.0.3"})
    assert {part.split("={node}/")[1] for part in command if "={node}/conf/" in part} == set(files)
    assert files["conf/hosts"] == "127.0.0.2 {host}\n127.0.0.1 localhost\n127.0.0.3 other\n"


def test_shipped_configuration_is_replaced_key_by_key() -> None:
    shipped = "# a comment\na=1\n# b=2\nb.c=\n"
    text = fill_properties(shipped, {"a": 5, "b.c": "x", "new": True})
    assert text.splitlines()[:4] == ["# a comment", "a=5", "# b=2", "b.c=x"]
    assert "new=True" in text.splitlines()
