"""Runtimes, the places where nodes live: protocols, the registry, and one module or package for each runtime.

`lifecycle`, `monitor` and `faults` may import it. It must not know a messaging system or a fault.
"""
