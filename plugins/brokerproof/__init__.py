"""Breaks a real messaging cluster on purpose and proves, message by message, what it kept.

docs/ARCHITECTURE.md says what each package is for. Packages import in one direction: `commands` and `orchestration`
use `lifecycle` and `results`, these use `faults`, `systems`, `runtimes` and `network`, these use `run`, and `run` uses
`experiment`.
"""
