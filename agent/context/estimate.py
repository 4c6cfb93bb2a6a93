"""Estimate the tokens of text before a provider has counted it. Pure; independent of any model.

Text is counted by class of byte (or by a tokenizer, if one is available), and an `Estimator` weights the counts. The
initial weights were measured over source code, prose and tool output with current tokenizers: 0.33 token for an ASCII
letter or blank, 0.6 for an ASCII digit, newline or sign, 1.5 for any other character, 12 for each message. Each usage
report of a provider adjusts them (`learn`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from ebbtide.agent.context.images import ImageRule, image_tokens
from ebbtide.agent.context.incremental import memoized
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.messages import Image, Message, Note, ProviderItem, Reasoning, Text, ToolCall, ToolOutput, User
from ebbtide.tools.lazy import dataclass

LETTER, SIGN, OTHER, MESSAGE = 0.33, 0.6, 1.5, 12

_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \t"
_NOT_ASCII = bytes(range(128, 256))

EstimatedPart: TypeAlias = Text | Note | Image | ToolOutput | Reasoning | ToolCall | ProviderItem
Vector = tuple[float, ...]

WEIGHTS: Vector = (LETTER, SIGN, OTHER, 1.0, MESSAGE, 0.0)
"""Initial weights of a letter, a sign, another character, a tokenizer's token, an item, and a reply that is sent
back."""
_MIN_WEIGHTS: Vector = (0.1, 0.15, 0.3, 0.4, 0.0, -100.0)
_MAX_WEIGHTS: Vector = (1.2, 1.8, 4.5, 3.0, 80.0, 100.0)
_SPREAD: Vector = (0.15, 0.3, 0.6, 0.15, 10.0, 15.0)
"""Standard deviation of each initial weight, apart from the error common to all kinds of text."""
_SHARED_SPREAD = 0.4
"""Standard deviation of the error common to all kinds of text, as a share: a tokenizer is coarse or fine for all of
them."""
_TEXT = 4
"""Number of weights that concern text."""
_FADING = 0.001
"""Share of the knowledge about the weights that is forgotten with each request."""

SAMPLES = 100
"""Number of errors that an estimator remembers."""
LARGE = 40_000
"""Errors are shares of a request of at least this size: they only matter near the end of a window."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of text or messages by kind. An `Estimator` turns them into tokens."""

    letters: int = 0
    signs: int = 0
    others: int = 0
    tokens: float = 0.0
    """A tokenizer's count; text counted this way is in none of the classes above."""
    items: int = 0
    """Messages, and outputs beyond the first of a message."""
    replies: int = 0
    """Replies sent back to the model for the first time: their size was reported, the tokens of their frame were
    not."""
    exact: int = 0
    """Tokens known by a rule: images."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.letters + other.letters,
            self.signs + other.signs,
            self.others + other.others,
            self.tokens + other.tokens,
            self.items + other.items,
            self.replies + other.replies,
            self.exact + other.exact,
        )

    @property
    def vector(self) -> Vector:
        return (self.letters, self.signs, self.others, self.tokens, self.items, self.replies)


@dataclass(frozen=True, slots=True)
class Ruler:
    """How text and images are counted for one model."""

    tokenize: Callable[[str], float] | None = None
    """A tokenizer's count of a text; None counts by class of byte."""
    images: ImageRule = "area"


BYTES = Ruler()


def count_text(text: str, ruler: Ruler = BYTES) -> Counts:
    if ruler.tokenize is not None:
        return Counts(tokens=ruler.tokenize(text))
    if text.isascii():
        raw, others = text.encode("ascii"), 0
    else:
        raw = text.encode("utf-8", "surrogatepass").translate(None, _NOT_ASCII)
        others = len(text) - len(raw)
    signs = len(raw.translate(None, _LETTERS))
    return Counts(len(raw) - signs, signs, others)


@memoized
def count_message(message: Message, ruler: Ruler) -> Counts:
    """Count a message; cached for its lifetime."""
    extra = max(len(message.outputs) - 1, 0) if isinstance(message, User) else 0
    return _count_parts(message.parts, 1 + extra, ruler)


@memoized
def count_output(output: ToolOutput, ruler: Ruler) -> Counts:
    """Count a message that contains only this output."""
    return _count_parts((output,), 1, ruler)


def _count_parts(parts: Iterable[EstimatedPart], items: int, ruler: Ruler) -> Counts:
    texts, exact = list[str](), 0
    for part in parts:
        match part:
            case Text(text=text) | Note(text=text):
                texts.append(text)
            case Image():
                exact += image_tokens(part, ruler.images)
            case ToolOutput(text=text, images=images):
                texts.append(text)
                exact += sum(image_tokens(image, ruler.images) for image in images)
            case Reasoning(native=native) | ProviderItem(native=native):
                texts.append(_json(native))
            case ToolCall(name=name, arguments=arguments, source=source):
                texts += name, source or _json(arguments)
    # The bytes of all texts are counted together: the result is the same, and it is faster.
    said = total(count_text(text, ruler) for text in (texts if ruler.tokenize is not None else ["".join(texts)]))
    return Counts(said.letters, said.signs, said.others, said.tokens, items, exact=exact)


def count_messages(messages: Iterable[Message], ruler: Ruler = BYTES) -> Counts:
    return total(count_message(message, ruler) for message in messages)


def count_tools(specs: Iterable[ToolSpec], ruler: Ruler = BYTES) -> Counts:
    """Count the tool definitions of a request as the model sees them; deferred tools count by their groups."""
    return total(count_text(text, ruler) for text in _tool_texts(specs))


def tools_text(specs: Iterable[ToolSpec]) -> str:
    """Return the tool definitions as text of about the size they have for the model."""
    return "".join(_tool_texts(specs))


def _tool_texts(specs: Iterable[ToolSpec]) -> Iterator[str]:
    told = set[str]()
    for spec in specs:
        group = spec.deferred
        if group is None:
            yield _json([spec.name, spec.description, spec.schema])
        elif group.name and group.name not in told:
            told.add(group.name)
            yield _json([group.name, group.about, {}])


def total(counts: Iterable[Counts]) -> Counts:
    whole = Counts()
    for count in counts:
        whole += count
    return whole


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _first_doubt() -> tuple[Vector, ...]:
    shared = [_SHARED_SPREAD * weight if index < _TEXT else 0.0 for index, weight in enumerate(WEIGHTS)]
    return tuple(
        tuple(a * b + (_SPREAD[i] ** 2 if i == j else 0.0) for j, b in enumerate(shared)) for i, a in enumerate(shared)
    )


@dataclass(frozen=True, slots=True)
class Estimator:
    """The weights for one model, their uncertainty, and their recent errors."""

    weights: Vector = WEIGHTS
    doubt: tuple[Vector, ...] = _first_doubt()
    """Covariance of the weights: large where samples have said little."""
    samples: int = 0
    errors: Vector = ()
    """The last errors, as shares of the request."""

    def tokens(self, counts: Counts) -> int:
        """Estimated tokens, rounded up."""
        letter, sign, other, token, item, reply = self.weights
        found = (
            letter * counts.letters + sign * counts.signs + other * counts.others
            + token * counts.tokens + item * counts.items + reply * counts.replies
        )  # fmt: skip
        return counts.exact - int(-max(found, 0.0) // 1)

    @property
    def error(self) -> float | None:
        """The 95th percentile of the errors as a share of the request; None before 20 samples."""
        if len(self.errors) < 20:
            return None
        ordered = sorted(self.errors)
        return ordered[-(-95 * len(ordered) // 100) - 1]

    @property
    def is_precise(self) -> bool:
        """Whether a smaller reserve for errors is enough."""
        return self.error is not None and self.error < 0.01


def learn(estimator: Estimator, counts: Counts, reported: int, request: int, *, whole: bool = False) -> Estimator:
    """Return the estimator updated by a provider's report for the counted text, in a request of `request` tokens.

    Recursive least squares with forgetting: each sample moves the weights that it can distinguish, the more the less
    was known of them. `whole`: the sample is an entire request, whose tool definitions take more than their text.
    Implausible reports are ignored, and so are samples with pictures that are far off, because a server may count more
    for pictures than the rule says.
    """
    expected, found = estimator.tokens(counts), reported - counts.exact
    if reported <= 0 or found <= 0 or not is_plausible(reported, expected):
        return estimator
    estimate = max(expected - counts.exact, 1)
    noise = counts.exact**2 + ((0.15 * found) ** 2 if whole else (0.03 * estimate) ** 2 + 3.0**2)
    values = counts.vector
    doubt = [
        [entry + _FADING * (first - entry) for entry, first in zip(row, first_row, strict=True)]
        for row, first_row in zip(estimator.doubt, COLD.doubt, strict=True)
    ]
    effect = [sum(entry * value for entry, value in zip(row, values, strict=True)) for row in doubt]
    unsure = sum(value * reach for value, reach in zip(values, effect, strict=True))
    miss = found - sum(weight * value for weight, value in zip(estimator.weights, values, strict=True))
    if counts.exact and miss * miss > 9 * (unsure + noise):
        return estimator
    # A miss beyond three standard deviations is more likely unusual text than a wrong weight, so it counts for less.
    spread = unsure + max(noise, miss * miss / 9 - unsure)
    gain = [reach / spread for reach in effect]
    weights = tuple(
        min(max(weight + g * miss, low), high)
        for weight, g, low, high in zip(estimator.weights, gain, _MIN_WEIGHTS, _MAX_WEIGHTS, strict=True)
    )
    left = tuple(
        tuple(entry - g * reach for entry, reach in zip(row, effect, strict=True))
        for row, g in zip(doubt, gain, strict=True)
    )
    errors = estimator.errors
    if not whole or request >= LARGE:
        errors = (*errors, abs(reported - expected) / max(request, LARGE))[-SAMPLES:]
    return Estimator(weights, left, estimator.samples + 1, errors)


def is_plausible(reported: int, expected: int) -> bool:
    """Whether a reported number is plausible: within ten times the expected one, give or take 200."""
    return expected / 10 - 200 <= reported <= 10 * expected + 200


COLD = Estimator()
"""Estimator without any samples."""


def estimate_text(text: str) -> int:
    """Estimated tokens of a text for an unknown model, rounded up; 0 for an empty text."""
    return COLD.tokens(count_text(text))


def estimate_message(message: Message) -> int:
    """Estimated tokens of a message with all its parts."""
    return COLD.tokens(count_message(message, BYTES))


def output_size(output: ToolOutput) -> int:
    """Estimated tokens of an output as a message of its own."""
    return COLD.tokens(count_output(output, BYTES))


def estimate_messages(messages: Sequence[Message]) -> int:
    return sum(estimate_message(message) for message in messages)


def estimate_tools(specs: Sequence[ToolSpec]) -> int:
    """Estimated tokens of the tool definitions of a request."""
    return sum(COLD.tokens(count_text(text)) for text in _tool_texts(specs))


def chars_estimate(text: str, per_token: float = 4.0) -> int:
    """Estimated tokens by a fixed number of characters per token, rounded up."""
    return -int(-len(text) // per_token)


def encode_estimator(estimator: Estimator, server: str = "") -> str:
    """Encode an estimator as JSON. `server`: digest of the address at which the model answered. Nothing is rounded, so
    a decoded estimator gives identical estimates."""
    body: dict[str, object] = {
        "weights": estimator.weights,
        "doubt": estimator.doubt,
        "samples": estimator.samples,
        "errors": estimator.errors,
        **({"server": server} if server else {}),
    }
    return json.dumps(body, separators=(",", ":"))


def server_in(text: str | None) -> str:
    """Return the server digest encoded with an estimator; empty if there is none or it cannot be read."""
    try:
        body = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return ""
    return str(body.get("server", "")) if isinstance(body, dict) else ""


def decode_estimator(text: str | None) -> Estimator:
    """Decode an estimator; return a new one if it cannot be read."""
    if text is None:
        return Estimator()
    try:
        body = json.loads(text)
        weights = tuple(float(weight) for weight in body["weights"])
        doubt = tuple(tuple(float(entry) for entry in row) for row in body["doubt"])
        errors = tuple(float(error) for error in body["errors"])
        estimator = Estimator(weights, doubt, int(body["samples"]), errors)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Estimator()
    size = len(WEIGHTS)
    fits = len(weights) == size and len(doubt) == size and all(len(row) == size for row in doubt)
    numbers = (*weights, *errors, *(entry for row in doubt for entry in row))
    return estimator if fits and all(abs(number) < 1e6 for number in numbers) else Estimator()
