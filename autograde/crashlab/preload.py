"""What the server that new processes are forked from has loaded, so that each finds it there."""

import gc
import importlib

MODULES = [
    "crashlab.kill",
    "crashlab.world",
    "crashlab.world.script",
    "crashlab.world.toolchain",
    "email.message",
    "email.policy",
    "smtplib",
    "IPython.core.interactiveshell",  # a notebook's `open` is defined there
    "langgraph.checkpoint.sqlite",
    "langgraph.graph",
    "langchain_core.tracers.context",  # a graph imports these two when it first runs
    "langchain_core.tracers.stdout",
]

for module in MODULES:
    importlib.import_module(module)
gc.collect()
gc.freeze()  # a collection in a forked process would copy the pages of all that was loaded
