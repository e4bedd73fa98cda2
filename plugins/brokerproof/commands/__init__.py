"""The commands of the command line. Each module has `execute(options, settings)`, which returns the exit status.

Only `cli` may import the commands. It imports only the command that the user chose, so that `--help` is quick. The
commands must not know a messaging system.
"""
