"""Apache Pulsar: its distribution, nodes, configuration, policies, administration and clients.

Only `systems.registry` may import this package.
"""
