# The two commands of the course, and those of its authors. GNU make 3.81 or newer.
#
#   PYTHON  the Python that a venv is made of; `make clean` first, to change it
#   TOOL    conda, mamba, micromamba or venv; by default the first of them that is there
#   NB      one notebook for `make course` and `make class`, as in NB=02_checkpoint
PYTHON ?= python3
TOOL ?=
NB ?=
LAB_ARGS ?=

# Written before each command, because make 3.81 itself looks a command up on the PATH it was given.
# nbgrader starts alembic, so naming the commands by their path would not be enough.
IN_ENV = PATH="$(CURDIR)/.venv/bin:$$PATH"
RUFF = $(IN_ENV) ruff
PYTEST = $(IN_ENV) python -m pytest -c autograde/pyproject.toml --rootdir .
ALLOW_ROOT = $(if $(filter 0,$(shell id -u)),--allow-root)

.DEFAULT_GOAL := help
.PHONY: help environment lab test quick style course release class bench figure pins clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

environment:  ## make .venv, or bring it up to date; every command below does so first
	@$(PYTHON) autograde/environment.py $(if $(TOOL),--tool $(TOOL))

lab: environment  ## open the course in JupyterLab (LAB_ARGS for its options)
	$(IN_ENV) jupyter lab --ServerApp.root_dir="$(CURDIR)" \
		--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb $(ALLOW_ROOT) $(LAB_ARGS)

test: style  ## run every test, style included
	$(PYTEST)

quick: style  ## run the tests that take less than a minute together
	$(PYTEST) -m "not heavy and not browser"

style: environment
	$(RUFF) check --config autograde/pyproject.toml .
	$(RUFF) format --check --config autograde/pyproject.toml .

course: environment  ## run the solution notebooks and show the points (NB=02_checkpoint for one)
	$(IN_ENV) crashlab course $(NB)

release: environment  ## make the solution and student notebooks from their sources
	$(IN_ENV) crashlab release

class: environment  ## grade the sample class and compare its scores (NB=02_checkpoint for one)
	$(IN_ENV) crashlab class $(NB)

bench: environment  ## measure kills per second
	$(IN_ENV) python autograde/bench.py

figure: environment  ## draw the picture of the README
	$(IN_ENV) python -m crashlab.figures.readme

pins:  ## renew autograde/constraints.txt (needs PYTHON to be 3.11)
	$(PYTHON) autograde/environment.py --pins

clean:  ## remove the environment, caches and the sample class; never submissions or the gradebook
	rm -rf .venv .pytest_cache .ruff_cache autograde/sample_class
	find . -name .git -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune \
		-exec rm -rf {} +
