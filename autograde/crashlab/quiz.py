"""Predictions: the learner commits to a value, an experiment measures it, a check compares."""

from collections.abc import Sequence
from typing import Any


def differs(predicted: Any, measured: Any, labels: Sequence[str] = ()) -> str:
    """Return one sentence that shows prediction and measurement, or "" where they agree.

    Lists and tuples are alike. With `labels`, one for each item of `measured`, the sentence names
    the first item that differs.
    """
    predicted, measured = _plain(predicted), _plain(measured)
    if predicted == measured and isinstance(predicted, bool) == isinstance(measured, bool):
        return ""
    if labels:
        if not isinstance(predicted, list) or len(predicted) != len(measured):
            return (
                f"the answer must be a list or tuple of {len(measured)}, and you gave {predicted!r}"
            )
        for label, mine, found in zip(labels, predicted, measured, strict=True):
            if mine != found:
                return f"{label}: you predicted {mine!r}, the experiment gave {found!r}"
    return f"you predicted {predicted!r}, the experiment gave {measured!r}"


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
