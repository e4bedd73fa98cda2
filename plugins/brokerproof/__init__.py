"""Breaks a real messaging cluster on purpose, and proves for each message whether it was lost, repeated or reordered.

docs/ARCHITECTURE.md says what each package is for. A package imports only packages to its right: `commands` and
`orchestration` → `lifecycle` and `results` → `faults`, `systems`, `runtimes` and `network` → `run` → `experiment`.
"""
