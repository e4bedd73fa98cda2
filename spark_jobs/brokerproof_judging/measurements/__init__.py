"""Takes the measurements of a run, such as times, losses, latencies and the placement of copies.

They come from the run's records and tables, with the judged messages. `run_judging` and `suites` may import this
package, which must not import `suites`.
"""
