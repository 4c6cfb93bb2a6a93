"""Estimates the tokens of text that no provider has counted yet, for any model. No I/O.

Text is counted by a tokenizer if one is available; otherwise, its bytes are counted by kind. An `Estimator` weights the
counts. The initial weights were measured with current tokenizers on source code, prose and tool output: 0.33 tokens for
an ASCII letter or space, 0.6 for an ASCII digit, newline or symbol, 1.5 for any other character, and 12 for each
message. Each usage report from a provider adjusts the weights (`learn`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from ebbtide.agent.messages import Image, Message, Note, ProviderItem, Reasoning, Text, ToolCall, ToolOutput, User
from ebbtide.agent.tokens.images import ImageRule, image_tokens
from ebbtide.agent.tokens.incremental import memoized
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.tools.lazy import dataclass

LETTER_WEIGHT = 0.33
SYMBOL_WEIGHT = 0.6
OTHER_WEIGHT = 1.5
MESSAGE_WEIGHT = 12

_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \t"
_NOT_ASCII = bytes(range(128, 256))

EstimatedPart: TypeAlias = Text | Note | Image | ToolOutput | Reasoning | ToolCall | ProviderItem
Vector = tuple[float, ...]

INITIAL_WEIGHTS: Vector = (LETTER_WEIGHT, SYMBOL_WEIGHT, OTHER_WEIGHT, 1.0, MESSAGE_WEIGHT, 0.0)
"""Initial weights, in tokens, for a letter, a symbol, any other character, a token counted by a tokenizer, an item, and
a reply that is sent back."""
_MIN_WEIGHTS: Vector = (0.1, 0.15, 0.3, 0.4, 0.0, -100.0)
_MAX_WEIGHTS: Vector = (1.2, 1.8, 4.5, 3.0, 80.0, 100.0)
_WEIGHT_SPREADS: Vector = (0.15, 0.3, 0.6, 0.15, 10.0, 15.0)
"""Standard deviation of each initial weight, without the error common to all kinds of text."""
_SHARED_SPREAD = 0.4
"""Standard deviation of the error common to all kinds of text, as a share of the weight. Some tokenizers produce more
tokens than others for every kind of text."""
_TEXT_WEIGHT_COUNT = 4
"""Number of weights for text; the remaining ones are for items and replies."""
_FORGETTING_SHARE = 0.001
"""Share by which the covariance returns to its initial value with each sample, so that old samples count less."""

MAX_STORED_ERRORS = 100
"""Maximum number of errors that an estimator stores."""
MIN_ERROR_BASE_TOKENS = 40_000
"""Errors are divided by the request's size, or by this many tokens if the request is smaller. Errors matter only near
the end of a window, so errors in small requests get little weight."""


@dataclass(frozen=True, slots=True)
class TextCounts:
    """Counts of text or messages by kind, from which an `Estimator` computes tokens."""

    letters: int = 0
    symbols: int = 0
    others: int = 0
    tokens: float = 0.0
    """Tokens counted by a tokenizer. The fields above do not include text counted this way."""
    items: int = 0
    """Number of messages, plus one for each output in a message after the first."""
    replies: int = 0
    """Number of replies sent back for the first time. The provider has reported the tokens of their content, but not
    the overhead of each message."""
    exact_tokens: int = 0
    """Image tokens, computed exactly from the provider's rule."""

    def __add__(self, other: "TextCounts") -> "TextCounts":
        return TextCounts(
            self.letters + other.letters,
            self.symbols + other.symbols,
            self.others + other.others,
            self.tokens + other.tokens,
            self.items + other.items,
            self.replies + other.replies,
            self.exact_tokens + other.exact_tokens,
        )

    @property
    def vector(self) -> Vector:
        return (self.letters, self.symbols, self.others, self.tokens, self.items, self.replies)


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """How to count a model's text and images."""

    tokenize: Callable[[str], float] | None = None
    """Counts text with a tokenizer. If None, the bytes of the text are counted by kind."""
    images: ImageRule = "area"


BYTE_COUNTER = TokenCounter()


def count_text(text: str, token_counter: TokenCounter = BYTE_COUNTER) -> TextCounts:
    if token_counter.tokenize is not None:
        return TextCounts(tokens=token_counter.tokenize(text))
    if text.isascii():
        ascii_bytes, other_count = text.encode("ascii"), 0
    else:
        ascii_bytes = text.encode("utf-8", "surrogatepass").translate(None, _NOT_ASCII)
        other_count = len(text) - len(ascii_bytes)
    symbol_count = len(ascii_bytes.translate(None, _LETTERS))
    return TextCounts(len(ascii_bytes) - symbol_count, symbol_count, other_count)


@memoized
def count_message(message: Message, token_counter: TokenCounter) -> TextCounts:
    """Count a message. The result is cached for the lifetime of the message."""
    extra_outputs = max(len(message.outputs) - 1, 0) if isinstance(message, User) else 0
    return _count_parts(message.parts, 1 + extra_outputs, token_counter)


@memoized
def count_output(output: ToolOutput, token_counter: TokenCounter) -> TextCounts:
    """Count an output as a separate message."""
    return _count_parts((output,), 1, token_counter)


def _count_parts(parts: Iterable[EstimatedPart], item_count: int, token_counter: TokenCounter) -> TextCounts:
    texts, exact_tokens = list[str](), 0
    for part in parts:
        match part:
            case Text(text=text) | Note(text=text):
                texts.append(text)
            case Image():
                exact_tokens += image_tokens(part, token_counter.images)
            case ToolOutput(text=text, images=images):
                texts.append(text)
                exact_tokens += sum(image_tokens(image, token_counter.images) for image in images)
            case Reasoning(native=native) | ProviderItem(native=native):
                texts.append(_json_text(native))
            case ToolCall(name=name, arguments=arguments, source=source):
                texts += name, source or _json_text(arguments)
    # Counting the bytes of the joined texts is faster and gives the same result.
    counts = sum_counts(
        count_text(text, token_counter) for text in (texts if token_counter.tokenize is not None else ["".join(texts)])
    )
    return TextCounts(
        counts.letters, counts.symbols, counts.others, counts.tokens, item_count, exact_tokens=exact_tokens
    )


def count_messages(messages: Iterable[Message], token_counter: TokenCounter = BYTE_COUNTER) -> TextCounts:
    return sum_counts(count_message(message, token_counter) for message in messages)


def count_tools(specs: Iterable[ToolSpec], token_counter: TokenCounter = BYTE_COUNTER) -> TextCounts:
    """Count a request's tool definitions as the model sees them. For deferred tools, the model sees only the groups."""
    return sum_counts(count_text(text, token_counter) for text in _tool_texts(specs))


def tool_definitions_text(specs: Iterable[ToolSpec]) -> str:
    """Return the tool definitions as text that is about as long as what the model reads."""
    return "".join(_tool_texts(specs))


def _tool_texts(specs: Iterable[ToolSpec]) -> Iterator[str]:
    seen = set[str]()
    for spec in specs:
        group = spec.deferred_group
        if group is None:
            yield _json_text([spec.name, spec.description, spec.schema])
        elif group.name and group.name not in seen:
            seen.add(group.name)
            yield _json_text([group.name, group.description, {}])


def sum_counts(counts: Iterable[TextCounts]) -> TextCounts:
    total = TextCounts()
    for count in counts:
        total += count
    return total


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _initial_covariance() -> tuple[Vector, ...]:
    shared_spreads = [
        _SHARED_SPREAD * weight if index < _TEXT_WEIGHT_COUNT else 0.0 for index, weight in enumerate(INITIAL_WEIGHTS)
    ]
    return tuple(
        tuple(
            row_spread * column_spread + (_WEIGHT_SPREADS[row] ** 2 if row == column else 0.0)
            for column, column_spread in enumerate(shared_spreads)
        )
        for row, row_spread in enumerate(shared_spreads)
    )


@dataclass(frozen=True, slots=True)
class Estimator:
    """One model's weights, with their covariance and the latest errors."""

    weights: Vector = INITIAL_WEIGHTS
    covariance: tuple[Vector, ...] = _initial_covariance()
    """Covariance of the weights. It is large where samples have given little information."""
    sample_count: int = 0
    errors: Vector = ()
    """The most recent errors, as shares of the request."""

    def estimate(self, counts: TextCounts) -> int:
        """Return the estimated tokens, rounded up."""
        letter_weight, symbol_weight, other_weight, token_weight, item_weight, reply_weight = self.weights
        estimate = (
            letter_weight * counts.letters + symbol_weight * counts.symbols + other_weight * counts.others
            + token_weight * counts.tokens + item_weight * counts.items + reply_weight * counts.replies
        )  # fmt: skip
        return counts.exact_tokens - int(-max(estimate, 0.0) // 1)

    @property
    def error(self) -> float | None:
        """Return the 95th percentile of the errors, as a share of the request; None if there are fewer than 20."""
        if len(self.errors) < 20:
            return None
        ordered = sorted(self.errors)
        return ordered[-(-95 * len(ordered) // 100) - 1]

    @property
    def is_precise(self) -> bool:
        """Whether the estimates are accurate enough for a smaller reserve."""
        return self.error is not None and self.error < 0.01


def update_estimator(
    estimator: Estimator,
    counts: TextCounts,
    reported_tokens: int,
    request_tokens: int,
    *,
    is_full_request: bool = False,
) -> Estimator:
    """Update the weights with a provider's report: `reported_tokens` tokens for the text in `counts`, in a request of
    `request_tokens` tokens.

    Uses recursive least squares with forgetting: a sample mostly adjusts the weights that it involves and that are
    still uncertain. `is_full_request`: whether the sample is an entire request, whose tool definitions take more tokens
    than their text. Implausible reports are ignored. If there are images, reports that are off by more than three
    standard deviations are also ignored, because a server may count more tokens for images than the rule predicts.
    """
    expected, measured = estimator.estimate(counts), reported_tokens - counts.exact_tokens
    if reported_tokens <= 0 or measured <= 0 or not is_plausible_count(reported_tokens, expected):
        return estimator
    estimate = max(expected - counts.exact_tokens, 1)
    noise = counts.exact_tokens**2 + ((0.15 * measured) ** 2 if is_full_request else (0.03 * estimate) ** 2 + 3.0**2)
    values = counts.vector
    covariance = [
        [
            entry + _FORGETTING_SHARE * (initial_entry - entry)
            for entry, initial_entry in zip(row, initial_row, strict=True)
        ]
        for row, initial_row in zip(estimator.covariance, UNTRAINED_ESTIMATOR.covariance, strict=True)
    ]
    effects = [sum(entry * value for entry, value in zip(row, values, strict=True)) for row in covariance]
    variance = sum(value * effect for value, effect in zip(values, effects, strict=True))
    residual = measured - sum(weight * value for weight, value in zip(estimator.weights, values, strict=True))
    if counts.exact_tokens and residual * residual > 9 * (variance + noise):
        return estimator
    # An error beyond three standard deviations is more likely due to unusual text than to a wrong weight, so it is
    # given less weight.
    spread = variance + max(noise, residual * residual / 9 - variance)
    gains = [effect / spread for effect in effects]
    weights = tuple(
        min(max(weight + gain * residual, min_weight), max_weight)
        for weight, gain, min_weight, max_weight in zip(
            estimator.weights, gains, _MIN_WEIGHTS, _MAX_WEIGHTS, strict=True
        )
    )
    new_covariance = tuple(
        tuple(entry - gain * effect for entry, effect in zip(row, effects, strict=True))
        for row, gain in zip(covariance, gains, strict=True)
    )
    errors = estimator.errors
    if not is_full_request or request_tokens >= MIN_ERROR_BASE_TOKENS:
        errors = (*errors, abs(reported_tokens - expected) / max(request_tokens, MIN_ERROR_BASE_TOKENS))[
            -MAX_STORED_ERRORS:
        ]
    return Estimator(weights, new_covariance, estimator.sample_count + 1, errors)


def is_plausible_count(reported_tokens: int, expected_tokens: int) -> bool:
    """Whether a reported token count is between a tenth of the expected count and ten times that count, with a
    tolerance of 200 tokens."""
    return expected_tokens / 10 - 200 <= reported_tokens <= 10 * expected_tokens + 200


UNTRAINED_ESTIMATOR = Estimator()
"""The initial estimator, without samples."""


def estimate_text(text: str) -> int:
    """Estimate the tokens of text for an unknown model, rounded up; 0 for empty text."""
    return UNTRAINED_ESTIMATOR.estimate(count_text(text))


def estimate_message(message: Message) -> int:
    """Estimate the tokens of a message with all its parts."""
    return UNTRAINED_ESTIMATOR.estimate(count_message(message, BYTE_COUNTER))


def estimate_output(output: ToolOutput) -> int:
    """Estimate the tokens of an output as a separate message."""
    return UNTRAINED_ESTIMATOR.estimate(count_output(output, BYTE_COUNTER))


def estimate_messages(messages: Sequence[Message]) -> int:
    return sum(estimate_message(message) for message in messages)


def estimate_tools(specs: Sequence[ToolSpec]) -> int:
    """Estimate the tokens of a request's tool definitions."""
    return sum(UNTRAINED_ESTIMATOR.estimate(count_text(text)) for text in _tool_texts(specs))


def estimate_by_chars(text: str, chars_per_token: float = 4.0) -> int:
    """Estimate the tokens of text at `chars_per_token` characters per token, rounded up."""
    return -int(-len(text) // chars_per_token)


def encode_estimator(estimator: Estimator, server_digest: str = "") -> str:
    """Encode an estimator as JSON. Numbers are not rounded, so that a decoded estimator gives identical estimates.
    `server_digest`: digest of the model server's address."""
    fields: dict[str, object] = {
        "weights": estimator.weights,
        "doubt": estimator.covariance,
        "samples": estimator.sample_count,
        "errors": estimator.errors,
        **({"server": server_digest} if server_digest else {}),
    }
    return json.dumps(fields, separators=(",", ":"))


def server_digest_from_encoded(text: str | None) -> str:
    """Return the server digest stored with an encoded estimator; empty if there is none or it cannot be read."""
    try:
        fields = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return ""
    return str(fields.get("server", "")) if isinstance(fields, dict) else ""


def decode_estimator(text: str | None) -> Estimator:
    """Decode an estimator; return a new one if it cannot be read."""
    if text is None:
        return Estimator()
    try:
        fields = json.loads(text)
        weights = tuple(float(weight) for weight in fields["weights"])
        covariance = tuple(tuple(float(entry) for entry in row) for row in fields["doubt"])
        errors = tuple(float(error) for error in fields["errors"])
        estimator = Estimator(weights, covariance, int(fields["samples"]), errors)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Estimator()
    weight_count = len(INITIAL_WEIGHTS)
    has_valid_shape = (
        len(weights) == weight_count
        and len(covariance) == weight_count
        and all(len(row) == weight_count for row in covariance)
    )
    numbers = (*weights, *errors, *(entry for row in covariance for entry in row))
    return estimator if has_valid_shape and all(abs(number) < 1e6 for number in numbers) else Estimator()
