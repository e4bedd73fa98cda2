"""The commands of the command line: `NAME_command` has `execute(options, settings)`, which returns the exit status.

Only `cli` may import this package. `cli` imports only the command that the user chose, so that `--help` is quick. The
commands must not know a messaging system.
"""
