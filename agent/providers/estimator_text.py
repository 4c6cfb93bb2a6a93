"""What was learned of a model's tokens, as text and back."""

import json

from agent.context.estimate import (
    WEIGHTS,
    Estimator,
)


def encode_estimator(estimator: Estimator) -> str:
    body = {
        "weights": [round(weight, 6) for weight in estimator.weights],
        "doubt": [[float(f"{entry:.6g}") for entry in row] for row in estimator.doubt],
        "samples": estimator.samples,
        "errors": [round(error, 6) for error in estimator.errors],
    }
    return json.dumps(body, separators=(",", ":"))


def decode_estimator(text: str | None) -> Estimator:
    """What was learned, or a new estimator where that cannot be read."""
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
