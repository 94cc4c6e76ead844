"""A bar says how much is done of how much, and is silent unless asked for."""

import pytest

from commonground import progress


def test_more_work_than_was_expected_is_never_more_than_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress_bar("working", 2, True) as advance:
        for done in (1, 2, 3, 4):
            advance()
            (task,) = progress._shown[-1].tasks
            assert (task.completed, task.total) == (done, max(done, 2))
    assert "working" in capsys.readouterr().err


def test_silent_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress_bar("working", 2, False) as advance:
        advance()
    assert capsys.readouterr() == ("", "")
