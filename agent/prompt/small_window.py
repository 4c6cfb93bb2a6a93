"""Reduced tool sets and short descriptions for small windows and small models. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.tools.tool_traits import SmallWindowPolicy, builtin_traits, traits_of

TINY_LIMIT_TOKENS, SMALL_LIMIT_TOKENS, MEDIUM_LIMIT_TOKENS = 4_000, 16_000, 32_000
"""Sizes of effective windows, in tokens, below which certain tools are omitted; see `ToolTraits.small_windows`."""
_OWN_KINDS = ("builtin", "rare")


@cache
def tools_in_small_windows(when: SmallWindowPolicy) -> tuple[str, ...]:
    """Return the names of the tools that have this value of `ToolTraits.small_windows`."""
    return tuple(name for name, traits in builtin_traits().items() if traits.small_windows == when)


def tools_for_window(
    specs: Sequence[ToolSpec],
    effective: int,
    *,
    has_jobs: bool = False,
    has_stored_outputs: bool = False,
    is_small_model: bool = False,
) -> tuple[ToolSpec, ...]:
    """Return the tools offered in an effective window of this size. Tools of servers stay unchanged. `has_jobs`: a
    background job has been started; `has_stored_outputs`: an output is stored that is not shown in full;
    `is_small_model`: the model is a small one, which counts like a small window."""
    if effective >= MEDIUM_LIMIT_TOKENS and not is_small_model:
        return tuple(specs)
    has = {"has_jobs": has_jobs, "has_stored_outputs": has_stored_outputs, "is_small_model": is_small_model}
    return tuple(
        _shorten_spec(spec, is_small_model)
        if spec.kind == "builtin" and (is_small_model or effective < SMALL_LIMIT_TOKENS)
        else spec
        for spec in specs
        if spec.kind not in _OWN_KINDS or not is_omitted(spec.name, effective, **has)
    )


def is_omitted(
    name: str, effective: int, *, has_jobs: bool = False, has_stored_outputs: bool = False, is_small_model: bool = False
) -> bool:
    """Whether a built-in tool is omitted in an effective window of this size."""
    traits = traits_of(name)
    when = traits.small_windows
    if is_small_model and traits.small_model_form is None and when != "always":
        return not ((when == "with_jobs" and has_jobs) or (when == "with_stored_outputs" and has_stored_outputs))
    match when:
        case "always":
            return False
        case "usually":
            return effective < TINY_LIMIT_TOKENS
        case "optional":
            return effective < SMALL_LIMIT_TOKENS
        case "capable_models":
            return effective < MEDIUM_LIMIT_TOKENS
        case "with_jobs":
            return effective < MEDIUM_LIMIT_TOKENS and not has_jobs
        case "with_stored_outputs":  # a tiny window always has them, because they cannot be added later
            return TINY_LIMIT_TOKENS <= effective < SMALL_LIMIT_TOKENS and not has_stored_outputs


def _shorten_spec(spec: ToolSpec, is_small_model: bool) -> ToolSpec:
    traits = traits_of(spec.name)
    short = (traits.small_model_form if is_small_model else None) or traits.short_form
    parameters = spec.schema.get("properties")
    if short is None or not isinstance(parameters, Mapping):
        return spec
    retained_parameters = {name: parameters[name] for name in short.parameters if name in parameters}
    return replace(spec, description=short.description, schema={**spec.schema, "properties": retained_parameters})
