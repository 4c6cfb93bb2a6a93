"""What a change looks like before it is made: a unified diff of bounded length."""

LONGEST = 400
"""Lines of a diff that are shown."""


def unified(name: str, before: str | None, after: str | None, new_name: str | None = None) -> list[str]:
    """The lines of a unified diff; None stands for a file that is not there."""
    import difflib  # noqa: PLC0415  # deferred: only previews need it

    lines = difflib.unified_diff(
        _lines(before),
        _lines(after),
        "/dev/null" if before is None else f"a/{name}",
        "/dev/null" if after is None else f"b/{new_name or name}",
        lineterm="",
    )
    found = list(lines)
    if not found and new_name is not None:
        return [f"rename {name} to {new_name}"]
    return found


def _lines(text: str | None) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def capped(lines: list[str]) -> str:
    left_out = len(lines) - LONGEST
    shown = lines[:LONGEST] + ([f"… {left_out} more lines of this diff are not shown"] if left_out > 0 else [])
    return "\n".join(shown)
