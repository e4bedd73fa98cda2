"""Runtimes, which run the nodes of a run's clusters as processes or as containers: protocols, registry, and modules.

`systems`, `faults`, `checks`, `monitor`, `lifecycle` and `orchestration` import this package. It must not know a
messaging system or a fault.
"""
