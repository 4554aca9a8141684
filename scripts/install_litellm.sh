#!/usr/bin/env bash
# Installs into .peers/litellm the LiteLLM proxy, a second implementation of three formats, in an environment of its own:
# it brings some two hundred packages along, of which none may reach ours. Takes a minute; does nothing when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

version=1.106.2
home=.peers/litellm

give_up() {
    printf 'LITELLM missing: %s. Its tests will be skipped; mend that and run make litellm.\n' "$1" >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
}

if [ -x "$home/bin/litellm" ] && compgen -G "$home/lib/python3*/site-packages/litellm-$version.dist-info" > /dev/null; then
    exit 0
fi
"${PYTHON:-python3}" -m venv --clear "$home" || give_up "no virtual environment could be made"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check "litellm[proxy]==$version" \
    || give_up "pip could not install litellm[proxy]==$version"
