"""What the server that new processes are forked from has loaded, so that each finds it there."""

import contextlib
import gc
import importlib

MODULES = [
    "crashlab.kill",
    "crashlab.world",
    "IPython.core.interactiveshell",  # a notebook's `open` is defined there
    "langgraph.checkpoint.sqlite",
    "langgraph.graph",
]

for module in MODULES:
    with contextlib.suppress(ImportError):  # a learner's first part needs the standard library only
        importlib.import_module(module)
gc.collect()
gc.freeze()  # a collection in a forked process would copy the pages of all that was loaded
