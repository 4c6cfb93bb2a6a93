"""Everything that the program writes to a terminal, byte for byte, while all that is shown wants to steer it."""

import json
import os
from pathlib import Path

from tests.kit.every_screen import SCREENS
from tests.kit.files import write_file
from tests.kit.hostile_text import PAYLOADS
from tests.kit.pty_terminal import left_behind, ready, running
from tests.kit.terminal_bytes import foreign, modes

PLAYED = "from tests.kit.hostile_session import main; main()"


def test_the_parser_finds_every_payload_and_takes_nothing_of_ours_for_one() -> None:
    for name, payload in PAYLOADS.items():
        assert foreign(f"text{payload}text".encode("utf-8", "replace"), 80, 24) or name == "halves"


def test_of_a_session_full_of_hostile_texts_only_our_own_sequences_reach_the_terminal(tmp_path: Path) -> None:
    with running(tmp_path, "", start=PLAYED, flags=["shown.json"]) as terminal:
        terminal.until("[end of conversation; press Enter to return]")
        terminal.child.send("\r")
        terminal.until_it_ends()
        assert terminal.child.exitstatus == 0, terminal.text
        assert terminal.is_given_back()
        assert json.loads((tmp_path / "project" / "shown.json").read_text()) == [
        *(screen.name for screen in SCREENS), "turn", "end",
    ]  # fmt: skip
    assert foreign(terminal.sent, 80, 24) == []
    switched = modes(terminal.sent)
    assert [switched[f"\x1b[?{mode}{way}"] for mode in (1049, 25, 2004, 1004, 7) for way in "hl"] == [2] * 10


STEERING = r"\u001b]0;owned\u0007 \u001b[2J \u009b31m \u202e \u001bPq\u001b\\"
NAMES = f"""
[[reply]]
text = "go {STEERING}"
reasoning = "{STEERING}"
calls = [
  {{ name = "bash", arguments = {{ command = 'printf "\\033]0;owned\\007\\033Pq\\302\\23331m\\r over\\377"; ls' }} }},
  {{ name = "write", arguments = {{ path = "n\\u001b]0;owned\\u0007.txt", content = "{STEERING}" }} }},
  {{ name = "{STEERING}", arguments = {{}} }},
]
[[reply]]
text = "The end."
[[reply]]
error = "bad_request"
"""
BRANCH = "日本מרחבa\ufe00"
"""As far as git lets it be: what cannot be printed is not shown at all."""
LOOKS = {
    "@x": "x␛]0;owned␇�y.py",
    "/diff session\r": "changed in this session",
    "/sessions\r": "Sessions",
    "/archive\r": "Archive",
    "/model \x1b]0;owned\x07\r": "Models",
    "/context\r": "tokens  share",
}
"""What is typed, and what is on the screen only then."""


def test_real_names_outputs_and_a_branch_are_drawn_and_do_not_steer(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write_file(project / ".git" / "HEAD", f"ref: refs/heads/{BRANCH}\n")
    (project / "x\x1b]0;owned\x07\u202ey.py").write_text("a")
    (project / "mean\ning\x9b31m.py").write_text("a")
    (project / os.fsdecode(b"bytes\xff\x9b.py")).write_text("a")
    with ready(tmp_path, NAMES, 160, flags=["--permission-mode", "auto"]) as terminal:
        terminal.until("日本מרחבa�")
        terminal.send("\x1b[200~go \x1b]0;owned\x07\x1b[201~\r", until="The end.")
        terminal.send("fail\r", until="the script says")
        for typed, words in LOOKS.items():
            assert words not in terminal.text
            terminal.send(typed, until=words)
            terminal.child.send("\x1b")
            while words in terminal.text:
                terminal.read_more(f"without {words}")
            terminal.child.send("\x15")
        left = left_behind(terminal)
        assert foreign(terminal.sent, 160, 24) == []
        assert foreign(left, 160, 24) == []
    assert modes(terminal.sent)["\x1b[?1049l"] == 1
