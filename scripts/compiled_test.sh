#!/usr/bin/env bash
# Builds the compiled wheel, installs it into an environment of its own, and runs the tests on it. What is given goes to
# pytest; nothing given means the suite, the properties, and the mutants of what is compiled. With `build` it only builds.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.venv-compiled
tree=$root/build/compiled

export AGENTRAIL_TEST_BUILD=compiled  # conftest.py then refuses to run on sources
unset PYTHONPATH PYTHONDONTWRITEBYTECODE

[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
python=$venv/bin/python
cd "$root"
built=$(find agentrail pyproject.toml scripts/compiling.py scripts/build_hook.py -type f -not -name '*.pyc' -print0 |
    sort -z | xargs -0 cksum | cksum)
if [ "$(cat "$venv/.built" 2> /dev/null)" != "$built" ]; then
    rm -rf "$tree" "$root/build/compiled-wheel"
    AGENTRAIL_COMPILE=1 "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
        --wheel-dir "$root/build/compiled-wheel" .
    wheel=$(echo "$root"/build/compiled-wheel/agentrail-*.whl)
    "$python" -m pip install --quiet --disable-pip-version-check "$wheel[dev]"
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
    echo "$built" > "$venv/.built"
fi
[ "$*" != build ] || exit 0  # before the copy: other work may go on in the checkout

# A copy of the checkout in which `agentrail` is what was installed, so that no source can take its place.
rm -rf "$tree"
mkdir -p "$tree"
tar --exclude='./agentrail' --exclude='./build' --exclude='./.git' --exclude='./.venv*' --exclude='./.bench-peers' \
    --exclude='./.peers' --exclude='./.hypothesis' --exclude='./.*_cache' --exclude='./.coverage*' --exclude='__pycache__' -cf - . |
    tar -C "$tree" -xf -
[ ! -d .peers ] || ln -s "$root/.peers" "$tree/.peers"
ln -s "$("$python" -P -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/agentrail" "$tree/agentrail"
cd "$tree"
"$python" -c 'import agentrail.core, benchmarks.bars; print("tests run on the", benchmarks.bars.build_in_use(), "build")'

case "$*" in
    '')
        "$python" -m scripts.run_tests -n auto -rs
        "$python" -m scripts.run_tests -n auto -rs property_tests
        cd "$root"  # git, which names the files to copy for a mutant, ignores this tree
        "$python" -m scripts.run_mutants --compiled
        ;;
    *) "$python" -m scripts.run_tests -n auto -rs "$@" ;;
esac
