"""One session of Spark that judges all runs, one after the other."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement
from local_spark import start_local_spark

ROOT = Path(__file__).resolve().parents[2]


class JudgingSession:
    """Judges runs of any thread; they wait for each other."""

    def __init__(self) -> None:
        self._session = start_local_spark(["-Xms512m"])
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.stop()

    def judge(self, run: Run) -> Judgement:
        """The judgement of a run, by the shipped suites."""
        from brokerproof_judging.run_judging import judge_run
        from brokerproof_judging.suites.evaluation import evaluate

        with self._turn:
            return judge_run(self._session, run, partial(evaluate, data_docs=False), [str(ROOT / "expectations")])
