"""Shared by the tests of the bench."""

import signal
import sys
from collections.abc import Iterator

import cloudpickle
import pytest

# A background job ignores Ctrl-C, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let functions of a test file travel as a notebook's do: no new process can import it."""
    module = sys.modules[request.module.__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)
