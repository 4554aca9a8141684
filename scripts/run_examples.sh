#!/usr/bin/env bash
# Installs the wheel and the packages of docs/examples into a fresh environment, and runs their tests: what they use is
# what a user has.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

"${PYTHON:-python3}" -m venv "$here/venv"
pip() { "$here/venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
pip wheel --no-deps --wheel-dir "$here/wheels" "$root"
pip install "$here"/wheels/agentrail-*.whl 'pytest>=9' 'pytest-trio>=0.8'
for example in "$root"/docs/examples/*/; do
    cp -r "$example" "$here/example"  # out of the checkout, where nothing but the wheel can be imported
    pip install "$here/example"
    (cd "$here/example" && "$here/venv/bin/python" -m pytest -q tests)
    rm -r "$here/example"
done
