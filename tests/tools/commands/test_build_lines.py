"""Lines of real build scripts that only look, as they stand in Makefiles, workflows and shell scripts of well-known
projects (`build_lines.txt`): which of them are proved to look, and why the others are not."""

from pathlib import Path

from tools.commands.proof import proved

LINES = Path(__file__).with_name("build_lines.txt").read_text().splitlines()
MAY_DO_MORE = {
    "a file of the project names the toolchain, which may be fetched or lie in the project": [
        "go env GOARCH", "go env GOOS", "go env GOPATH", "go env GOBIN", "go env GOHOSTOS", "go version",
        "go version | awk '{ print $3 }'", "rustup -V", "cargo -V", "rustc -V", "cargo --version", "go list -m",
    ],
    "settings of git may hold passwords": ["git config --get user.email"],
    "which files are read stands in a file": ["sha256sum -c SHA256SUMS", "shasum -a 256 -U -c checksums.txt"],
}  # fmt: skip
HARMLESS_AND_ASKED = {
    "it asks a server, which settings choose": ["docker version"],
    "braces and two dots in a word may be alternatives": [
        "git diff --name-status @{upstream}..", "git log --oneline @{upstream}..",
    ],
    "git has a language of its own for such paths": [
        "git ls-files '*.go' ':!:vendor/*' || find . -path ./vendor -prune -o -name '*.go' -print",
    ],
    "beginnings of options are not listed": ["git status --porcelain --untracked=no 2>/dev/null"],
    "the program is in no table": ["unzip -l dist.zip"],
}  # fmt: skip


def test_lines_of_build_scripts_that_look_are_proved_but_for_known_classes() -> None:
    more, asked = ([line for lines in kinds.values() for line in lines] for kinds in (MAY_DO_MORE, HARMLESS_AND_ASKED))
    assert sorted(line for line in LINES if not proved(line)) == sorted((*more, *asked))
    assert len(LINES) >= 200
    assert len(asked) <= 0.05 * (len(LINES) - len(more))
