"""One message's whole life: its rows, its events, what judging found, its sentence, its page and its text."""
