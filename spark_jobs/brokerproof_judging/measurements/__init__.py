"""Takes the measurements of a run, such as times, losses, latencies and the placement of copies.

They are taken from the run's records, the run's tables and the judged messages. `run_judging` and `suites` may import
this package, which must not import `suites`.
"""
