"""What happened to one message in a run: its events and the results of judging, as a sentence, a page and text."""
