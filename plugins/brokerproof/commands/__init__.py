"""The commands of the command line. `execute_NAME(options, settings)` executes the command NAME, and returns its exit
status.

Only `cli` may import this package. `cli` imports only the module with the command that the user chose, so that `--help`
is quick. The commands must not know a messaging system.
"""
