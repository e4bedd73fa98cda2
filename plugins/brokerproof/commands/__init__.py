"""The commands of the command line, one module each: `execute(options, settings)` does it and returns the exit status.

Only `cli` may import them, and only the one that the user chose, so that `--help` is quick. They must not know a
messaging system.
"""
