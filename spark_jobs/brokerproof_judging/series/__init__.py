"""What a run's page draws: rates, latencies and samples over time.

`verify` uses it after the judgement. It judges nothing, and nothing judges by it.
"""
