"""`brokerproof run` fetches software while Airflow starts, and reports what is wrong with a version before."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from brokerproof import lifecycle
from brokerproof.commands.scenario_commands import _prepare_meanwhile
from brokerproof.errors import InputError, MachineError

ANY: Any = object()


def test_an_error_before_the_first_slow_part_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(*_: object) -> None:
        raise InputError("no such version")

    monkeypatch.setattr(lifecycle, "prepare", prepare)
    with pytest.raises(InputError, match="no such version"):
        _prepare_meanwhile(ANY, ANY, print)


def test_what_needs_no_time_is_done_when_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "prepare", lambda *_: None)
    assert _prepare_meanwhile(ANY, ANY, print).done()


@pytest.mark.parametrize("error", [None, MachineError("the download failed")])
def test_a_slow_part_goes_on_meanwhile(monkeypatch: pytest.MonkeyPatch, error: MachineError | None) -> None:
    has_returned, sentences = Event(), []

    def prepare(_: object, __: object, say: Callable[[str], None]) -> None:
        say("fetching")
        assert has_returned.wait(60)
        if error:
            raise error

    monkeypatch.setattr(lifecycle, "prepare", prepare)
    prepared = _prepare_meanwhile(ANY, ANY, sentences.append)
    has_returned.set()
    assert prepared.exception(60) is error
    assert sentences == ["fetching"]
