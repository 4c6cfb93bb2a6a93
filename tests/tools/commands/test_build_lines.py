"""Lines of real build scripts that only look, as they stand in Makefiles, workflows and shell scripts of well-known
projects (`build_lines.txt`): which of them are asked about, and why."""

from pathlib import Path

from ebbtide.tools.commands.line_proof import prove_line
from ebbtide.tools.commands.looks import parse_probably_read_only

LINES = Path(__file__).with_name("build_lines.txt").read_text().splitlines()
MAY_DO_MORE = {
    "a file of the project names the toolchain, which may be fetched or lie in the project": [
        "go env GOARCH", "go env GOOS", "go env GOPATH", "go env GOBIN", "go env GOHOSTOS", "go version",
        "go version | awk '{ print $3 }'", "rustup -V", "cargo -V", "rustc -V", "cargo --version", "go list -m",
    ],
    "the program is not known": ["shasum -a 256 -U -c checksums.txt"],
}  # fmt: skip
HARMLESS_AND_ASKED = {"the program is not known": ["docker version", "unzip -l dist.zip"]}
"""Lines that are asked about even where a sandbox stands."""


def asked(lines: list[str]) -> list[str]:
    """Those that are neither proved nor tried where they can only look."""
    return sorted(line for line in lines if not prove_line(line) and parse_probably_read_only(line) is None)


def test_lines_of_build_scripts_that_look_are_proved_or_tried_but_for_known_classes() -> None:
    more, others = ([line for lines in kinds.values() for line in lines] for kinds in (MAY_DO_MORE, HARMLESS_AND_ASKED))
    assert asked(LINES) == sorted((*more, *others))
    assert len(LINES) >= 200
    assert sum(not prove_line(line) for line in LINES) <= 0.15 * len(LINES)


CI_LINES = Path(__file__).with_name("ci_lines.txt").read_text().splitlines()
CI_ASKED = ["env >&2", "git var GIT_PAGER", "sed -f sed.script"]
"""Of the lines of curl, git, moby and nvm that only look, those that are asked about even where a sandbox stands."""


def test_few_lines_of_other_projects_are_asked_about() -> None:
    assert asked(CI_LINES) == sorted(CI_ASKED)
    assert len(CI_LINES) >= 400
    assert sum(not prove_line(line) for line in CI_LINES) <= 0.15 * len(CI_LINES)
