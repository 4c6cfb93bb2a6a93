"""Arguments before they are parsed."""

import pytest

from tui.cli.arguments import make_parser, with_resume


@pytest.mark.parametrize(
    ("arguments", "pick", "words"),
    [
        (["-r"], "", []),
        (["-r", "beef12", "go", "on"], "beef12", ["go", "on"]),
        (["-r", "fix", "it"], "", ["fix", "it"]),
        (["--resume", "fix"], "fix", []),
        (["-r", "zzz", "-m", "scripted/x"], "zzz", []),
        (["-m", "scripted/x", "-r", "zzz"], "zzz", []),
        (["-r", "go on with the parser"], "", ["go on with the parser"]),
        (["-p", "go", "-r", "my-session"], "my-session", []),
        (["-r", "fix", "-pgo"], "fix", []),
        (["-r", "-p", "go"], "", []),
        (["--prompt=go", "-r", "--", "fix"], "", ["fix"]),
        (["--", "-r", "beef12"], None, ["-r", "beef12"]),
    ],
)
def test_the_word_after_resume_is_an_id_or_a_prompt(arguments: list[str], pick: str | None, words: list[str]) -> None:
    options = make_parser().parse_args(with_resume(arguments))
    assert (options.pick, options.words) == (pick, words)
