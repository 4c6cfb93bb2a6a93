"""Lines of real build scripts that only look, as they stand in Makefiles, workflows and shell scripts of well-known
projects (`build_lines.txt`): which of them are proved to look, and why the others are not."""

from pathlib import Path

from ebbtide.tools.commands.line_proof import prove_line
from tests.kit.recorded_bash import SIGN

LINES = Path(__file__).with_name("build_lines.txt").read_text().splitlines()
MAY_DO_MORE = {
    "a file of the project names the toolchain, which may be fetched or lie in the project": [
        "go env GOARCH", "go env GOOS", "go env GOPATH", "go env GOBIN", "go env GOHOSTOS", "go version",
        "go version | awk '{ print $3 }'", "rustup -V", "cargo -V", "rustc -V", "cargo --version", "go list -m",
    ],
    "which files are read stands in a file": ["sha256sum -c SHA256SUMS", "shasum -a 256 -U -c checksums.txt"],
}  # fmt: skip
HARMLESS_AND_ASKED = {
    "it asks a server, which settings choose": ["docker version"],
    "git has a language of its own for such paths": [
        "git ls-files '*.go' ':!:vendor/*' || find . -path ./vendor -prune -o -name '*.go' -print",
    ],
    "beginnings of options are not listed": ["git status --porcelain --untracked=no 2>/dev/null"],
    "the program is in no table": ["unzip -l dist.zip"],
}  # fmt: skip


def test_lines_of_build_scripts_that_look_are_proved_but_for_known_classes() -> None:
    more, asked = ([line for lines in kinds.values() for line in lines] for kinds in (MAY_DO_MORE, HARMLESS_AND_ASKED))
    assert sorted(line for line in LINES if not prove_line(line, SIGN)) == sorted((*more, *asked))
    assert len(LINES) >= 200
    assert len(asked) <= 0.05 * (len(LINES) - len(more))


CI_LINES = Path(__file__).with_name("ci_lines.txt").read_text().splitlines()
CI_ASKED = {
    "patterns, a program or names stand in a file": [
        *(
            f"cat _error.out | grep -f {file} | sed 's/=\\(.*\\)/= {name}(\\1)/'"
            for file, kind in (("_error.grep", "Errno"), ("_signal.grep", "Signal"))
            for name in (kind, f"syscall.{kind}")
        ),
        "cat _error.out | grep -vf _error.grep | grep -vf _signal.grep", "sed -f sed.script", "sha256sum -c checksum",
    ],
    "outside of the project": ["cat ~/old-cmake-path.txt"],
    "what it prints may be secret": ["env >&2", "git var GIT_PAGER"],
    "git has a language of its own for such paths": [
        "git ls-files --others --exclude-standard --directory --no-empty-directory --error-unmatch -- ':/*'"
        " >/dev/null 2>/dev/null",
        "git status --porcelain -- ':!vendor' 'profiles/seccomp/default.json' '**/*.pb.go'",
    ],
    "no such option is listed": [
        "awk --version 2>&1 | head -1 || awk -W version 2>&1 | head -1", "date -j -v-4y +%s",
        "wc -l | command tr -d ' '                   # Count entries",
    ],
}  # fmt: skip
"""Of the lines of curl, git, moby and nvm that only look, those that are asked about."""


def test_few_lines_of_other_projects_are_asked_about() -> None:
    asked = [line for lines in CI_ASKED.values() for line in lines]
    assert sorted(line for line in CI_LINES if not prove_line(line, SIGN)) == sorted(asked)
    assert len(CI_LINES) >= 400
    assert len(asked) <= 0.05 * len(CI_LINES)
