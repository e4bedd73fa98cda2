"""Warnings, before a run starts, about effects of its scenario that the author may not want.

Commands and orchestration may import it. It refuses no scenario and opens no database, and knows a messaging system
only by the seam. The warnings that need the history are in `results/held_rates.py`.
"""
