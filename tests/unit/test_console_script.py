from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_console_script_is_the_command_line() -> None:
    script = Path(sys.executable).with_name("brokerproof")
    commands = ([script], [sys.executable, "-m", "brokerproof"])
    by_script, by_module = (
        subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout for command in commands
    )
    assert "destroy a datacenter under load" in by_script
    assert by_script == by_module
