"""What a step leaves about its end."""

from contextlib import suppress
from pathlib import Path

from brokerproof import clock
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import RunReleased, StepProblem, read_record, write_record
from brokerproof.run.step_record import record_step
from builders import make_run


def fail_after(run: Run, release_at: int | None, step: str = "load") -> str:
    with suppress(RunError), record_step(run, step):
        if release_at is not None:
            write_record(run, RunReleased(at=release_at))
        raise RunError("p0 was ended by SIGKILL")
    problem = read_record(run, StepProblem, step)
    assert problem is not None
    return problem.problem


def test_a_problem_that_follows_the_runs_release_says_so(tmp_path: Path) -> None:
    said = "the run was released before the step had ended: p0 was ended by SIGKILL"
    assert fail_after(make_run(tmp_path), clock.now_us() + 1_000_000) == said


def test_no_other_problem_is_put_down_to_a_release(tmp_path: Path) -> None:
    assert fail_after(make_run(tmp_path / "running"), None) == "p0 was ended by SIGKILL"
    # A step such as `verify` may be repeated after the run was released.
    assert fail_after(make_run(tmp_path / "released"), clock.now_us() - 1_000_000) == "p0 was ended by SIGKILL"
    # The step that releases the run has failed by itself.
    released_at = clock.now_us() + 1_000_000
    assert fail_after(make_run(tmp_path / "releasing"), released_at, "release") == "p0 was ended by SIGKILL"


def test_a_release_that_cannot_be_read_hides_no_problem(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write_record(run, RunReleased(at=clock.now_us() + 1_000_000))
    (record,) = (tmp_path / "state").glob("run_released*")
    record.write_text("{")
    assert fail_after(run, None) == "p0 was ended by SIGKILL"
