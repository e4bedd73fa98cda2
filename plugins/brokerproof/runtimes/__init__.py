"""Runtimes, which start, change and end the nodes of a run: protocols, the registry, and one module for each runtime.

`systems`, `faults`, `checks`, `monitor`, `lifecycle` and `orchestration` import this package. It must not know a
messaging system or a fault.
"""
