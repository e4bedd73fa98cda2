"""SIGINT and SIGTERM as exceptions, and the question that the user answers after a Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType, TracebackType
from typing import Self

from brokerproof.orchestration.follow.progress import Progress

_QUESTION = "Stop the run and its cluster (s), only stop watching (w), or go on (Enter)? "


class TerminationRequest(KeyboardInterrupt):
    """SIGTERM came. Unlike after Ctrl-C, the user is not asked, and the run is stopped."""


class Choice(Enum):
    """The user's choice after a Ctrl-C."""

    STOP = "s"
    STOP_WATCHING = "w"
    GO_ON = ""
    # A second Ctrl-C instead of an answer.
    STOP_AND_LEAVE = "^C"


class SignalHandler:
    """Raises KeyboardInterrupt on SIGINT and TerminationRequest on SIGTERM, within a `with` block.

    A signal that this process inherited as ignored stays ignored. Outside the main thread, the block has no effect.
    """

    def __init__(self) -> None:
        self._holding = False
        self._held: KeyboardInterrupt | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Delay the exception of a first signal until the block ends. A second signal interrupts the block."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._held is not None:
            held, self._held = self._held, None
            raise held

    def _interrupt(self, number: int, _: FrameType | None) -> None:
        error = TerminationRequest() if number == signal.SIGTERM else KeyboardInterrupt()
        if self._holding and self._held is None:
            self._held = error
            return
        raise error


def ask_for_choice(interrupt: KeyboardInterrupt, progress: Progress) -> Choice:
    """Ask the user what to do after a signal. Without a terminal, or after SIGTERM, return `STOP` without asking."""
    if isinstance(interrupt, TerminationRequest) or not _is_terminal():
        return Choice.STOP
    try:
        with progress.pause():
            # Text that was typed before the question is no answer to it.
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
            while True:
                sys.stderr.write(f"\n{_QUESTION}")
                sys.stderr.flush()
                # The end of the input counts as Enter.
                answer = sys.stdin.readline().strip().lower()
                if answer in (Choice.STOP.value, Choice.STOP_WATCHING.value, Choice.GO_ON.value):
                    return Choice(answer)
    except TerminationRequest:
        return Choice.STOP
    except KeyboardInterrupt:
        return Choice.STOP_AND_LEAVE


def _is_terminal() -> bool:
    """Whether a terminal shows the question, and this process may read the answer from it."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        # The process has no standard input, or its terminal has gone.
        return False
