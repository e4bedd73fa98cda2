"""What will happen in a run of a scenario that its author may not want, told before anything starts.

Commands and orchestration import it. It refuses nothing, opens no database, and knows a messaging system only by the
seam; the history's own warnings are made in `results/held_rates.py`.
"""
