"""Expected differences between sandboxed commands and plain bash. Each has a reason, and a pattern for the output that
says what was blocked. Pure."""

import re
from dataclasses import dataclass

ADVICE_TO_ALLOW = re.compile(r"--allow '?(?:network|outside)\(|--no-sandbox|--add-dir|`web\.private`")
"""Pattern for advice on how to allow the blocked access."""


@dataclass(frozen=True, slots=True)
class ExpectedDifference:
    """One kind of difference."""

    name: str
    reason: str
    pattern: str
    """A pattern for the output that says what was blocked."""


EXPECTED_DIFFERENCES = (
    ExpectedDifference(
        "network",
        "what a command reads could leave the machine: hosts are opened one by one",
        r"was not reached: |it has no network|only programs that use `HTTPS_PROXY`",
    ),
    ExpectedDifference(
        "servers of this machine",
        "databases, container engines and other agents do whatever they are asked, without the user's question",
        r"it can reach only those servers|cannot reach Docker or Podman",
    ),
    ExpectedDifference(
        "files outside",
        "a command writes in the working folder, in /tmp and in caches; elsewhere other programs would obey it",
        r"it may not (?:write|remove or rename)|it may write only|may not be created, and was removed"
        r"|cannot see `[^`]*/tmp/|files cannot be linked",
    ),
    ExpectedDifference("keys", "keys of the user are not for the model", r"it cannot see"),
    ExpectedDifference(
        "rights",
        "a command keeps the rights that it has, and gives files to nobody else",
        r"cannot become another user|may not create namespaces|cannot use devices|cannot give files to other users",
    ),
    ExpectedDifference(
        "other programs",
        "what else runs here is seen, and can be ended, by nothing that the model runs",
        r"it sees only this session's",
    ),
)


def explain_difference(output: str) -> tuple[str, str]:
    """Return the kind of difference that an output explains, and a problem if the explanation lacks advice. Both are
    empty if it explains no difference."""
    name = next((kind.name for kind in EXPECTED_DIFFERENCES if re.search(kind.pattern, output)), "")
    return name, "" if not name or ADVICE_TO_ALLOW.search(output) else "it does not say how to open it"
