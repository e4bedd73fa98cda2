"""The life of one message: its rows, its events, the results of judging, and its sentence, page and text."""
