"""Reduced tool sets and short descriptions for small windows and small models. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ebbtide.agent.context.tool_selection import CALL, SEARCH, ToolSpec

SMALL = 16_000
"""Below this effective window, in tokens, optional tools are left out."""
OPTIONAL_TOOLS = frozenset(
    {
        *("edit_notebook", "web_fetch", "web_search", "todo", "compact_context", "ask_user", "task"),
        *("memory", "repo_map", "symbols", "diagnostics"),
    }
)
"""Tools that work can do without."""
_OURS = ("builtin", "rare")
MIDDLE, PATCH, JOB_TOOLS = 32_000, "apply_patch", frozenset({"bash_output", "bash_kill"})
"""Below `MIDDLE` tokens `apply_patch` is not offered, because such models get its format wrong. Job tools are offered
only once there is a job: such models call them for the output of any command."""
RECALL_TOOLS = frozenset({"read_result", "recall"})
"""Tools offered in a small window once an output is stored that is not shown in full; its text names them with the
reference. A tiny window offers them from the start, because they could not be added later."""
TINY, ESSENTIAL_TOOLS = 4_000, frozenset({"read", "write", "edit", "bash", *RECALL_TOOLS})
"""Below this many tokens only these tools fit."""

SMALL_MODEL_TOOLS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "read": ("Shows a file.", ("path",)),
    "write": ("Writes a file: a new one, or all of a changed one.", ("path", "content")),
    "edit": ("Replaces the text `old`, which stands in a file, by `new`.", ("path", "old", "new", "replace_all")),
    "bash": ("Runs a shell command: also to list, search, run, move, copy or delete files.", ("command",)),
}
"""Tools of a small model, with even shorter descriptions: each further tool is one more to confuse with another."""

_SHORT: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "read": ("Reads a file.", ("path", "offset", "limit")),
    "write": ("Creates a file, or replaces one that was read.", ("path", "content")),
    "edit": ("Replaces `old`, which stands once in a file, by `new`.", ("path", "old", "new")),
    "bash": ("Runs a command with `bash -c` in the working folder.", ("command", "timeout")),
    "grep": ("Lines of files that match a regular expression.", ("pattern", "path", "glob", "limit")),
    "read_result": ('A stored output: `lines` "10-50", or what matches `pattern`.', ("ref_id", "lines", "pattern")),
    "recall": ("Brings back what a reference such as r12 names, or finds what was said.", ("ref_id", "lines", "query")),
}  # fmt: skip
"""Descriptions and listed parameters of some tools in small windows. All their other parameters are accepted as
well."""


def for_window(
    specs: Sequence[ToolSpec],
    effective: int,
    *,
    has_jobs: bool = False,
    has_kept: bool = False,
    is_led: bool = False,
) -> tuple[ToolSpec, ...]:
    """Return the tools offered in an effective window of this size. Tools of servers stay unchanged. `has_jobs`: a
    background job was started; `has_kept`: an output is stored that is not shown in full; `is_led`: the model is a
    small one, whatever its window."""
    if effective >= MIDDLE and not is_led:
        return tuple(specs)
    has = {"has_jobs": has_jobs, "has_kept": has_kept, "is_led": is_led}
    return tuple(
        _shorten_spec(spec, is_led) if spec.kind == "builtin" and (is_led or effective < SMALL) else spec
        for spec in specs
        if spec.kind not in _OURS or not is_omitted(spec.name, effective, **has)
    )


def is_omitted(
    name: str, effective: int, *, has_jobs: bool = False, has_kept: bool = False, is_led: bool = False
) -> bool:
    """Whether a built-in tool is left out in an effective window of this size."""
    if is_led and name not in SMALL_MODEL_TOOLS and name not in (SEARCH, CALL):
        return not ((name in JOB_TOOLS and has_jobs) or (name in RECALL_TOOLS and has_kept))
    if name == PATCH:
        return effective < MIDDLE
    if name in JOB_TOOLS:
        return effective < MIDDLE and not has_jobs
    if name in RECALL_TOOLS:
        return TINY <= effective < SMALL and not has_kept
    is_needed = name in ESSENTIAL_TOOLS or name in (SEARCH, CALL)
    return effective < SMALL and (name in OPTIONAL_TOOLS or (effective < TINY and not is_needed))


def _shorten_spec(spec: ToolSpec, is_led: bool) -> ToolSpec:
    text, names = (SMALL_MODEL_TOOLS if is_led and spec.name in SMALL_MODEL_TOOLS else _SHORT).get(spec.name, ("", ()))
    parameters = spec.schema.get("properties")
    if not text or not isinstance(parameters, Mapping):
        return spec
    kept = {name: parameters[name] for name in names if name in parameters}
    return replace(spec, description=text, schema={**spec.schema, "properties": kept})
