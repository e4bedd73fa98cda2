"""Breaks a real messaging cluster on purpose, and proves for each message whether it was lost, repeated or reordered.

docs/ARCHITECTURE.md says what each package is for. Packages import only from left to right: `commands` and
`orchestration` → `lifecycle` and `results` → `faults`, `systems`, `runtimes` and `network` → `run` → `experiment`.
"""
