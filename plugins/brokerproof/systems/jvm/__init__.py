"""Systems whose nodes are JVMs: their distribution from Maven, a JVM's start, and Java's class data.

Only the packages of such systems may import this package. It must not know any of these systems by name.
"""
