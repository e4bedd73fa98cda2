"""The steps of a run as the operators see them, without a cluster.

What a step should do is planted in the scenario's tags: `slow:STEP` never ends, `fails:STEP` raises a sentence.
"""

import logging
import subprocess
import sys
import time
from pathlib import Path

from brokerproof import clock
from brokerproof.checks import load_scenario
from brokerproof.errors import NodeError
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from brokerproof.run.records import RunReleased, write_record

log = logging.getLogger(__name__)


def reserve(scenario_file, *, directory, run_id, topologies, overrides=None, triggered_at=None):
    scenario, topology = load_scenario(scenario_file, topologies, overrides)
    return Run.create(
        directory, run_id=run_id, scenario=scenario, topology=topology, triggered_at=triggered_at, settings=overrides
    )


def provision(run):
    _act(run, "provision")


def configure(run):
    _act(run, "configure")


def break_it(run):
    LiveStatus(run, "live").show(phase="impact", acked=1234, owner="broker-eu-1")
    _act(run, "break_it")


def release(run):
    _act(run, "release")
    write_record(run, RunReleased(at=clock.now_us()))


def down():
    return []


def _act(run, step):
    log.info("stand-in of %s", step)
    tags = run.scenario.tags
    if f"fails:{step}" in tags:
        raise NodeError(f"planted failure of {step}")
    if f"slow:{step}" in tags:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(run.path(f"child-of-{step}")).write_text(str(child.pid))
        try:
            time.sleep(600)
        finally:
            run.write_text(f"state/unwound-{step}.json", "{}")
