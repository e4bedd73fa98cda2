"""The measurements of placement and recovery, with the bounds that the scenario sets on them.

`run_judging` and `suites` may import it. It reads samples, fault times and judged messages, and must not know suites.
"""
