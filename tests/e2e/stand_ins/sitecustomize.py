"""Puts a stand-in for brokerproof.lifecycle into every Python of a test's Airflow; nodes would take minutes."""

import importlib.util
import sys
from pathlib import Path


class _StandIn:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "brokerproof.lifecycle":
            return importlib.util.spec_from_file_location(name, Path(__file__).with_name("stand_in_lifecycle.py"))
        return None


sys.meta_path.insert(0, _StandIn)
