"""The interface between messaging systems and the rest of Brokerproof (the core): protocols, registry, and systems.

The core imports the modules of this folder, but never the package of a system. So the terms of a system, such as the
roles of its nodes, stay in its package. `registry` loads the package when a topology names the system.
"""
