"""The seam between the core and a messaging system: protocols, the registry, and one package for each system.

The core imports `protocols`, `abilities`, `clients` and `registry`. Only a system's own package knows the system's
names.
"""
