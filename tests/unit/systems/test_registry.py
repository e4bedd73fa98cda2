"""The messaging systems that a topology can name, as the environment gives them."""

from __future__ import annotations

import pytest
from brokerproof.errors import InputError
from brokerproof.systems.registry import list_systems, load_system


def test_a_setting_that_names_no_system_is_refused_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "log")
    with pytest.raises(InputError, match="BROKERPROOF_SYSTEMS: `log` names no messaging system"):
        list_systems()


def test_a_changed_setting_counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "log=somewhere:LOG")
    assert list_systems() == ["pulsar", "log"]
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "queue=somewhere:QUEUE")
    assert list_systems() == ["pulsar", "queue"]


def test_a_system_that_cannot_be_imported_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "log=no_such_module:LOG")
    with pytest.raises(InputError, match="cannot be imported from no_such_module:LOG"):
        load_system("log")
