"""What follows from the answers of hooks."""

import pytest

from agent.context.heard import Heard, not_heard, what_follows
from tools.listener import Answer


@pytest.mark.parametrize(
    ("answer", "heard"),
    [
        (Answer(0, b"", b"debug"), Heard()),
        (Answer(0, b" \n", b""), Heard()),
        (Answer(0, b"\x1b[31m3 warnings\x1b[0m\n", b""), Heard("[A hook of the user for `bash` notes:]\n3 warnings")),
        (
            Answer(2, b"ignored", b"no tests ran\n"),
            Heard("[A hook of the user for `bash` objects; take it into account:]\nno tests ran"),
        ),
        (Answer(2, b"", b""), Heard(told="the hook for `bash` exited with 2; the output goes on without it")),
        (
            Answer(1, b"x", b"Traceback\nmore"),
            Heard(told="the hook for `bash` exited with 1: Traceback; the output goes on without it"),
        ),
        (Answer(-9, b"", b""), Heard(told="the hook for `bash` was killed by signal 9; the output goes on without it")),
        (
            Answer(None, b"x", b""),
            Heard(told="the hook for `bash` was ended after 9 s; the output goes on without it"),
        ),
    ],
)
def test_what_the_model_is_shown_and_the_user_is_told(answer: Answer, heard: Heard) -> None:
    assert what_follows("bash", answer, 9) == heard


def test_of_a_long_answer_ten_thousand_characters_are_shown() -> None:
    shown = what_follows("bash", Answer(0, "ä".encode() * 10_001, b""), 60).shown
    assert shown == f"[A hook of the user for `bash` notes:]\n{'ä' * 10_000}… [cut]"
    assert what_follows("bash", Answer(0, b"a" * 10_000, b""), 60).shown.endswith("aaa")


def test_a_hook_that_cannot_be_run_is_told_of() -> None:
    assert not_heard("bash", "no such file") == Heard(
        told="the hook for `bash` could not be run: no such file; the output goes on without it"
    )
