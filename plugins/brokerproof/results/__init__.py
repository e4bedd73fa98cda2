"""What a run came to: its outcome, the history of all runs, and what got worse.

`orchestration`, the command line and reports may import it. It reads what steps left, and it must not know Airflow,
Spark or a messaging system.
"""
