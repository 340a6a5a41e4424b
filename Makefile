# make demo    set up .venv, then the main experiments of the CPU ladder, up to results/report.html
# make test    set up .venv, then the tests
# make test-extras  the tests of optional parts: Reasoning Gym (needs a C compiler to install), Weights & Biases
# make test-slurm   the tests of the Slurm profile, on a Slurm of one node that it installs (root, Debian or Ubuntu)
# make lint    style of Python and Snakemake files
# make picture redraw the graph of the rules in README.md
PYTHON ?= $(shell for p in python3.12 python3.11 python3; do $$p -c '' 2>/dev/null && echo $$p && break; done)
CORES ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 1)
BIN = .venv/bin

.PHONY: demo test test-extras test-slurm lint picture clean

demo: .venv/installed
	$(BIN)/snakemake --cores $(CORES)
	@echo "The report: $(CURDIR)/results/report.html (text: results/report.md)"

test: .venv/installed
	$(BIN)/pytest

test-extras: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gym,wandb]'
	$(BIN)/pytest tests/extras --override-ini norecursedirs=

test-slurm: .venv/installed
	tests/slurm/cluster.sh check
	$(BIN)/pytest tests/slurm --override-ini norecursedirs=.hypothesis

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow

picture: .venv/installed
	$(BIN)/python -m workflow.picture

clean:
	rm -rf .venv .snakemake logs

.venv/installed: pyproject.toml constraints.txt
	@$(or $(PYTHON),python3) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 12) or sys.exit( \
	    "Python 3.11 or 3.12 is needed and $(PYTHON) is %d.%d. Name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" % v)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
