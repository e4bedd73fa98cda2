"""The commands of the command line. `execute_NAME(options, settings)` executes NAME, and returns its exit status.

Only `cli` may import this package. So that `--help` is quick, `cli` imports only the module of the command that the
user chose. The commands must not know a messaging system.
"""
