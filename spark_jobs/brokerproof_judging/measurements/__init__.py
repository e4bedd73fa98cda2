"""Takes the measurements of a run, such as times, losses, latencies and the placement of copies, with their bounds.

`run_judging` and `suites` may import this package. It reads the run's records and tables, including the judged
messages, and must not know suites.
"""
