#!/usr/bin/env bash
# Runs the tests of `make test` on each supported Python of this machine, each in an environment of its own: .venv-3.12, .venv-3.13, …
# A Python is looked for in the PATH, then among the versions of pyenv. Names those that are missing, and fails if one that was found fails.
# PYTHONS='3.12 3.13' chooses.
set -euo pipefail
cd "$(dirname "$0")/.."

# find_python VERSION: prints the interpreter's path. It is run, because a shim of pyenv is there without its Python too.
find_python() {
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        "$candidate" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])' "$1" 2> /dev/null || continue
        "$candidate" -c 'import sys; print(sys.executable)'
        return
    done
    return 1
}

missing=() failed=()
for version in ${PYTHONS:-3.11 3.12 3.13 3.14}; do
    if ! python=$(find_python "$version"); then
        missing+=("$version")
        continue
    fi
    printf '\n==> Python %s: %s\n' "$version" "$python"
    make --no-print-directory VENV=".venv-$version" PYTHON="$python" test || failed+=("$version")
done
[ ${#missing[@]} -eq 0 ] || echo "==> not tested, because not installed: Python ${missing[*]}"
[ ${#failed[@]} -eq 0 ] || { echo "==> failed on Python ${failed[*]}" >&2; exit 1; }
