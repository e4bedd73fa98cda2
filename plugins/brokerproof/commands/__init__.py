"""The commands of the command line, one module each; its `execute(options, settings)` returns the exit status.

Only `cli` may import them. It imports only the command that the user chose, so that `--help` is quick. They must not
know a messaging system.
"""
