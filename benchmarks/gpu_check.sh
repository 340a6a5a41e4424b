#!/bin/sh
# Speed and memory of training and sampling on one GPU, in under 8 minutes; needs no network and no data.
#   benchmarks/gpu_check.sh                the real shape; writes results/gpu_check.json
#   benchmarks/gpu_check.sh --self-check   the same code at a tiny shape, in under a minute, on any machine
# PYTHON names the interpreter; without it, .venv's if there is one.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${PYTHON:-}" ]; then
    PYTHON=python3
    [ -x .venv/bin/python ] && PYTHON=.venv/bin/python
fi
export HF_HUB_OFFLINE=1
exec timeout 480 "$PYTHON" -m benchmarks.gpu_check "$@"
