#!/usr/bin/env bash
# run_examples.sh [NAME…]: installs the wheel and these packages of docs/examples, or all of them, into a fresh environment, holds
# their types and runs their tests: what they use is what a user has. Web frameworks are installed here and nowhere else; agentrail
# needs none.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
export MYPY_CACHE_DIR=$here/mypy  # what it has read of the package for one of them holds for all

"${PYTHON:-python3}" -m venv "$here/venv"
pip() { "$here/venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
pip wheel --no-deps --wheel-dir "$here/wheels" "$root"
pip install "$here"/wheels/agentrail-*.whl "$(sed -n 's/.*"\(mypy==[^"]*\)".*/\1/p' "$root/pyproject.toml")"
cd "$root/docs/examples"
[ $# -gt 0 ] || set -- */
for name in "$@"; do
    cp -r "$name" "$here/example"  # out of the checkout, where nothing but the wheel can be imported
    pip install "$here/example[test]"
    (cd "$here/example" && "$here/venv/bin/python" -m mypy --strict ./*.py && "$here/venv/bin/python" -m pytest -q tests)
    rm -r "$here/example"
done
