#!/usr/bin/env bash
# Runs the suite on the oldest version of each dependency that pyproject.toml allows, so that the bounds there are true.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv/minimum
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" scripts/lower_bounds.py > "$venv/constraints.txt"
# Without the linters, which want newer versions of the same things; the tests of their contracts go with them.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --constraint "$venv/constraints.txt" --editable '.[http2,prices,test]'
"$venv/bin/python" -m pytest -n auto -rs --ignore=tests/repo "$@"
