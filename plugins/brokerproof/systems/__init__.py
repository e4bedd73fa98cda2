"""The seam between each messaging system and the rest of Brokerproof (the core): protocols, the registry, the systems.

The core imports the modules of this folder. It never imports a system's own package, because only that package knows
the system's names. `registry` loads the package when a topology names the system.
"""
