"""The measurements of placement and recovery, with the bounds that the scenario sets on them.

`run_judging` may import it. It reads samples, fault times and judged messages; it must not know suites.
"""
