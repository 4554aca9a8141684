#!/usr/bin/env bash
# Installs into .peers/clients what judges our interface over HTTP from outside: Schemathesis, which makes calls of /openapi.json, and
# openapi-python-client, which makes a client of it. In an environment of their own: none of what they bring along may reach ours.
# Takes half a minute; does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

home=.peers/clients
wanted=(schemathesis==4.32.5 openapi-python-client==0.29.1)

give_up() {
    printf 'CLIENTS missing: %s. Their tests will be skipped; mend that and run make clients.\n' "$1" >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
}

is_there() {
    local one
    for one in "${wanted[@]}"; do
        one=${one//-/_}
        compgen -G "$home/lib/python3*/site-packages/${one/==/-}.dist-info" > /dev/null || return 1
    done
    [ -x "$home/bin/st" ] && [ -x "$home/bin/openapi-python-client" ]
}

if is_there; then
    exit 0
fi
"${PYTHON:-python3}" -m venv --clear "$home" || give_up "no virtual environment could be made"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check "${wanted[@]}" || give_up "pip could not install ${wanted[*]}"
