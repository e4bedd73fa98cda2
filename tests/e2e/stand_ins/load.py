"""Stands in for the Spark jobs of the same name."""

import sys
from pathlib import Path

from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Suite
from brokerproof.run.directory import Run

step = Path(sys.argv[0]).stem
run = Run(sys.argv[1])
print(f"stand-in of {step}")
if f"fails:{step}" in run.scenario.tags:
    raise RunError(f"planted failure of {step}")
if step == "read_back":
    run.write_text("state/read.json", "{}")
if step == "verify" and run.exists("state", "read.json"):
    assert sys.argv[2] == "--expectations"
    verdict = "failed" if "finds_a_loss" in run.scenario.tags else "passed"
    lost = int(verdict == "failed")
    run.leave_state(
        "judgement",
        {
            "verdict": verdict,
            "why": f"{lost} messages were lost",
            "suites": {
                suite: {
                    "verdict": verdict if suite == Suite.COMPLETENESS else "passed",
                    "evaluated": 1,
                    "written": 1,
                    "expectations": [],
                    "why": f"{lost} messages were lost" if suite == Suite.COMPLETENESS else "all of it held",
                }
                for suite in Suite
            },
            "counts": {
                **dict.fromkeys(("publishes", "messages", "acked", "stored", "deliveries"), 1000),
                **dict.fromkeys(("failed", "unknown", "recovered"), 0),
                "legal": {},
                "illegal": {"lost": lost},
            },
            "recovery": {"eu_destroyed": {"rto_s": 52.0, "longest_ack_gap_s": 51.5}},
        },
    )
