"""The boundary on macOS, as a profile for `sandbox-exec`. Not tested on a Mac. No I/O."""

from collections.abc import Iterator, Sequence

from ebbtide.tools.sandbox.boundary import Boundary

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
_WRITABLE_DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/tty",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/ptmx",
    "/dev/dtracehelper",
)


def build_seatbelt_command(boundary: Boundary, command: Sequence[str]) -> tuple[str, ...]:
    return (SANDBOX_EXEC, "-p", "\n".join(_profile_rules(boundary)), *command)


def _profile_rules(boundary: Boundary) -> Iterator[str]:
    """Yield the profile. The last matching rule applies, so the rules of inner folders come last."""
    yield "(version 1)"
    yield "(allow default)"
    yield "(deny file-write*)"
    for path in _WRITABLE_DEVICES:
        yield f"(allow file-write* (literal {_quote(path)}))"
    yield f"(allow file-write* (subpath {_quote(boundary.temp_folder)}))"
    for path, access in sorted(boundary.access_by_path.items(), key=lambda item: item[0].split("/")):
        match access:
            case "write":
                yield f"(allow file-read* file-write* (subpath {_quote(path)}))"
            case "read":
                yield f"(allow file-read* (subpath {_quote(path)}))"
                yield f"(deny file-write* (subpath {_quote(path)}))"
            case "hidden folder" | "hidden file" | "locked file":
                yield f"(deny file-read* file-write* (subpath {_quote(path)}))"
    yield f"(allow file-read* file-write* (subpath {_quote(boundary.temp_folder)}))"
    if boundary.network != "open":
        yield "(deny network*)"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
