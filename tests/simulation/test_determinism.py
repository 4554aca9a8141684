"""`check_deterministic`: the errors of lives in other processes."""

import gc

import pytest

from agentrail.testing import simulation as sim


def test_a_life_that_raised_is_told_by_its_traceback_alone(tmp_path, monkeypatch):
    """The message begins with it, also where warnings are errors. The other process has ended, and its pipes are closed."""
    (tmp_path / "own_world_that_raises.py").write_text(
        "def lives(world):\n    raise LookupError('of mine')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from own_world_that_raises import lives  # type: ignore[import-not-found] # noqa: PLC0415 - made above

    for warnings in ("default", "error::RuntimeWarning"):
        monkeypatch.setenv("PYTHONWARNINGS", warnings)
        with pytest.raises(RuntimeError, match=r"\ATraceback (?s:.*)LookupError: of mine"):
            sim.check_deterministic(lives, seeds=1, nodes=1, hours=0.003)
        gc.collect()  # a process or a pipe that is still open warns, and a warning fails the test
