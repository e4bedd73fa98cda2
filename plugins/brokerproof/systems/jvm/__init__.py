"""Systems whose nodes are JVMs: their distribution from Maven, a JVM's start, and Java's class data.

Only the packages of such systems may import it. It must not know any of these systems by name.
"""
