"""What the sandbox kept from a command that did not fail, told from what that has printed."""

import pytest

from ebbtide.tools.sandbox.blocked import describe_denial, may_have_been_blocked
from ebbtide.tools.sandbox.boundary import Boundary

BOUNDARY = Boundary({"/project": "write", "/home/me/.ssh": "hidden folder"}, "/scratch", "none")
KEYS = "it cannot see signing keys"
UNSIGNED = "error: gpg failed to sign the data\nfatal: failed to write commit object\n"
UNREADABLE = "error: Couldn't load public key /home/me/.ssh/id.pub: No such file or directory?\n\n" + UNSIGNED
NO_DOCKER = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n"
NO_KEY = "git@github.com: Permission denied (publickey).\nfatal: Could not read from remote repository.\n"


@pytest.mark.parametrize(
    ("command", "printed", "denials"),
    [
        ("git commit -m x 2>&1 | tail -3", UNSIGNED, KEYS),
        ("git commit -m x || true", UNREADABLE, f"{KEYS}; it cannot see `/home/me/.ssh`"),
        ("git add . && git commit -m x; echo $?", f"{UNSIGNED}128\n", KEYS),
        ("docker ps 2>&1 | head", NO_DOCKER, "it cannot reach Docker or Podman"),
        ("git push 2>&1 | tail", NO_KEY, "it cannot see SSH keys and agents"),
        ("ssh x 2>&1 | tail", "ssh: Could not resolve hostname x: Name or service not known\n", "it has no network"),
        ("sudo ls || true", 'sudo: The "no new privileges" flag is set\n', "it cannot become another user"),
        ("cat build.log", UNSIGNED + NO_DOCKER + NO_KEY, ""),
        ("grep -rn docker .", f"a.log:3:{NO_DOCKER}", ""),
        ("git log -p", f"    {UNSIGNED}", ""),
        ("git status", "nothing to commit\n", ""),
    ],
)
def test_what_a_program_complains_of_is_told_whatever_the_exit_code(command: str, printed: str, denials: str) -> None:
    """empathic/clash#255: a commit that is to be signed fails in the sandbox, and nothing says why. Here that held
    where a pipe or `|| true` stood behind it."""
    found = describe_denial(command, printed, BOUNDARY, "/project", lambda _: False, has_failed=False)
    assert found == denials
    assert may_have_been_blocked(printed) or not denials
