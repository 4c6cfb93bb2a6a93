"""Reduced tool sets and short descriptions for small windows and small models."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.tools.tool_traits import traits_of

TINY_LIMIT_TOKENS, SMALL_LIMIT_TOKENS, MEDIUM_LIMIT_TOKENS = 4_000, 16_000, 32_000
"""Sizes of effective windows, in tokens, below which certain tools are omitted; see
`ToolTraits.small_window_policy`."""
_BUILTIN_KINDS = ("builtin", "rare")


def tools_for_window(
    specs: Sequence[ToolSpec], window_tokens: int, *, is_small_model: bool = False
) -> tuple[ToolSpec, ...]:
    """Select the tools to offer in an effective window of this size. Servers' tools stay unchanged. The selection never
    changes during a session, because new definitions would invalidate the provider's cache. `is_small_model`: small
    models get the tools of a small window."""
    if window_tokens >= MEDIUM_LIMIT_TOKENS and not is_small_model:
        return tuple(specs)
    return tuple(
        _shorten_spec(spec, is_small_model)
        if spec.kind == "builtin" and (is_small_model or window_tokens < SMALL_LIMIT_TOKENS)
        else spec
        for spec in specs
        if spec.kind not in _BUILTIN_KINDS or not is_omitted(spec.name, window_tokens, is_small_model=is_small_model)
    )


def is_omitted(name: str, window_tokens: int, *, is_small_model: bool = False) -> bool:
    """Whether a built-in tool is omitted in an effective window of this size."""
    traits = traits_of(name)
    policy = traits.small_window_policy
    if is_small_model and traits.small_model_form is None and policy != "always":
        return True
    match policy:
        case "always":
            return False
        case "usually":
            return window_tokens < TINY_LIMIT_TOKENS
        case "optional":
            return window_tokens < SMALL_LIMIT_TOKENS
        case "capable_models":
            return window_tokens < MEDIUM_LIMIT_TOKENS


def _shorten_spec(spec: ToolSpec, is_small_model: bool) -> ToolSpec:
    traits = traits_of(spec.name)
    short_form = (traits.small_model_form if is_small_model else None) or traits.short_form
    parameters = spec.schema.get("properties")
    if short_form is None or not isinstance(parameters, Mapping):
        return spec
    retained_parameters = {name: parameters[name] for name in short_form.parameters if name in parameters}
    return replace(spec, description=short_form.description, schema={**spec.schema, "properties": retained_parameters})
