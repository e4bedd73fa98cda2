"""The common part of systems whose nodes are JVMs: their distribution from Maven, a JVM's command, class data archives.

Only the packages of such systems may import this package. It must not know any of these systems by name.
"""
