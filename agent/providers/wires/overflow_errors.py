"""Recognises error messages about requests that are too large, and extracts the numbers in them."""

import re

# The patterns are plain strings: `re` compiles and caches each one on first use, and most runs never use them.
_NUMBER_PATTERN = r"[\d][\d,]*"
_SIZE_PATTERN, _LIMIT_PATTERN = rf"(?P<size>{_NUMBER_PATTERN})", rf"(?P<limit>{_NUMBER_PATTERN})"

OVERFLOW_PATTERNS = tuple(
    f"(?is){pattern}"
    for pattern in (
        # Patterns with numbers must come first.
        rf"prompt is too long: {_SIZE_PATTERN} tokens > {_LIMIT_PATTERN} maximum",
        rf"prompt is too long: {_SIZE_PATTERN}, model maximum context length: {_LIMIT_PATTERN}",
        rf"exceed context limit: {_SIZE_PATTERN}[ +\d]* > {_LIMIT_PATTERN}",
        rf"maximum context length (?:is|of) {_LIMIT_PATTERN} tokens.{{1,60}}?{_SIZE_PATTERN} (?:input )?tokens",
        rf"input token count \({_SIZE_PATTERN}\) exceeds the maximum number of tokens allowed \({_LIMIT_PATTERN}\)",
        rf"maximum prompt length is {_LIMIT_PATTERN} but the request contains {_SIZE_PATTERN} tokens",
        rf"request \({_SIZE_PATTERN} tokens\) exceeds the available context size \({_LIMIT_PATTERN} tokens\)",
        rf"prompt token count of {_SIZE_PATTERN} exceeds the limit of {_LIMIT_PATTERN}",
        rf"exceeded model token limit: {_LIMIT_PATTERN} \(requested: {_SIZE_PATTERN}\)",
        rf"prompt contains {_SIZE_PATTERN} tokens.{{0,80}}?too large for model with {_LIMIT_PATTERN} "
        "maximum context length",
        rf"prompt \(length {_SIZE_PATTERN}\) is longer than the maximum model length of {_LIMIT_PATTERN}",
        rf"input \({_SIZE_PATTERN} tokens\) is longer than the model's context length \({_LIMIT_PATTERN} tokens\)",
        rf"tokens in the prompt cannot exceed {_LIMIT_PATTERN} - received {_SIZE_PATTERN}",
        rf"`inputs` tokens \+ `max_new_tokens` must be <= {_LIMIT_PATTERN}\. given: {_SIZE_PATTERN} `inputs` tokens",
        rf"first {_SIZE_PATTERN} tokens when context.{{1,80}}?context length of only {_LIMIT_PATTERN} tokens",
        rf"current length is {_SIZE_PATTERN} while limit is {_LIMIT_PATTERN}",
        rf"range of input length should be \[1, {_LIMIT_PATTERN}\]",
        rf"input token count exceeds the maximum number of tokens allowed \(?{_LIMIT_PATTERN}",
        rf"`?inputs`? must have less than {_LIMIT_PATTERN} tokens\. given: {_SIZE_PATTERN}",
        rf"n_keep:? \(?{_SIZE_PATTERN}\)? ?>= ?n_ctx:? \(?{_LIMIT_PATTERN}",
        rf"reached context length of {_LIMIT_PATTERN} tokens",
        rf"prompt_tokens \({_SIZE_PATTERN}\) must be less than max_seq_len \({_LIMIT_PATTERN}",
        rf"(?:input|prompt)[^.]{{0,40}}?{_SIZE_PATTERN}[^.\d]{{0,40}}? "
        r"(?:exceeds?|exceeded|>|greater than|larger than|longer than)"
        rf"[^.\d]{{0,60}}?(?:context|window|input|prompt|model|sequence|token)[^.\d]{{0,40}}?{_LIMIT_PATTERN}",
        # Patterns without numbers.
        r"(?:prompt|input) is too long",
        r"超长",
        r"(?:exceeds?|exceeded|larger than|longer than|greater than) (?:the |its |this |max )*(?:model'?s? )?"
        r"(?:maximum |available )?(?:context|prompt) (?:window|length|size)",
        r"(?:context window|context length) (?:exceeds|exceeded)",
        r"(?:exceed|too large for).{0,40}maximum (?:context|prompt|model) length",
        r"maximum context length is .{1,12} tokens\. however,? you requested",
        r"prompt token count of .{1,12} exceeds the limit",
        r"exceeded model token limit",
        r"too large for model with .{1,12} maximum context length",
        r"(?:prompt|input|message|request)s? (?:length |size |tokens? )?(?:is |are )?(?:exceeds?|exceeded|over|above) "
        r"(?:the )?(?:model'?s? )?(?:max(?:imum)?|allowed) "
        r"(?:input |prompt |allowed |context |sequence )*(?:length|size|tokens?)",
        r"(?:context|prompt) (?:size|window|length|limit) (?:has been |is |was )?"
        r"(?:exceeded|too (?:small|long|large)|overflow)",
        r"(?:too many|too much) (?:input |prompt )?tokens(?! per|, please wait)",
        r"(?:prompt|input|conversation|message|messages) (?:is|are|was) too (?:long|large|big)",
        r"input is too large to process",
        r"exceeds?(?: the)? max(?:imum)? (?:number of )?"
        r"(?:input |prompt |context |sequence |message )*(?:tokens|length)(?! of output)",
        r"greater than the context length|exceeds the context length|too many tokens in (?:the )?prompt",
        r"max_seq_len|max_model_len|maximum sequence length",
        r"reduce (?:the length of )?(?:the|your) (?:messages|prompt|input)",
        r"longer than the model (?:can|supports)|max_total_tokens",
        r"(?:request entity|payload|request body) (?:is )?too large",
        r"token (?:limit|count|length) (?:is |was |has been )?(?:exceeded|too long)",
        r"(?:messages?|prompt|input)s? (?:exceeds?|exceeded) the (?:length |size |token )?limit",
        r"context_length_exceeded|model_context_window_exceeded|ContextWindowExceeded",
        r"^4(?:00|13) status code \(no body\)$",
    )
)

_EXCEEDS_RATE_PATTERN = rf"(?is)tokens per.{{0,60}}?limit:? {_LIMIT_PATTERN}\b.{{0,40}}?requested:? {_SIZE_PATTERN}\b"
"""Matches a request that is larger than the token limit per minute. Waiting does not help, but a smaller request
does."""
_STRING_TOO_LONG_PATTERN = (
    r"(?is)\b(?:input|messages|contents?|system|instructions)\b[^ ]*?: string too long.{0,60}?maximum length"
)
_RATE_PATTERN = r"(?i)rate.?limit|tokens per (?:min|day|hour)|requests per (?:min|day|hour)|too many requests"


def is_overflow(text: str) -> bool:
    """Whether the text is about the size of a request, rather than about a rate limit."""
    if exceeds_rate_limit(text):
        return True
    return not re.search(_RATE_PATTERN, text) and any(
        re.search(pattern, text) for pattern in (*OVERFLOW_PATTERNS, _STRING_TOO_LONG_PATTERN)
    )


def exceeds_rate_limit(text: str) -> bool:
    """Whether a single request exceeds a rate limit's tokens per minute or day."""
    match = re.search(_EXCEEDS_RATE_PATTERN, text)
    return match is not None and _parse_number(match["size"]) > _parse_number(match["limit"])


def parse_size_and_limit(text: str) -> tuple[int | None, int | None]:
    """Parse the size of the request and the limit. Each is None if the text does not state it."""
    for pattern in (*OVERFLOW_PATTERNS, _EXCEEDS_RATE_PATTERN):
        if match := re.search(pattern, text):
            groups = match.groupdict()
            size, limit = groups.get("size"), groups.get("limit")
            return _parse_number(size) if size else None, _parse_number(limit) if limit else None
    return None, None


def _parse_number(text: str) -> int:
    return int(text.replace(",", ""))
