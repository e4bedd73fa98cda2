"""Runtimes, the places where nodes live: protocols, the registry, and one module or package for each runtime.

`lifecycle`, `monitor` and `faults` may import this package. It must not know a messaging system or a fault.
"""
