"""Breaks a real messaging cluster on purpose and proves, message by message, what it kept.

docs/ARCHITECTURE.md says what each package is for. Packages import in one direction: `commands` and `orchestration`
import `lifecycle` and `results`. `lifecycle` and `results` import `faults`, `systems`, `runtimes` and `network`, which
import `run`. `run` imports `experiment`.
"""
