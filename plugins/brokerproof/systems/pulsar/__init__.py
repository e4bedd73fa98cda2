"""Apache Pulsar: its releases, nodes, configuration, policies, administration and clients.

Only `systems.registry` may import this package.
"""
