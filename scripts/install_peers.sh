#!/usr/bin/env bash
# Installs into .peers/ what the tests talk to and we did not write: the server of the provider tests, and a client of WebSockets.
# Does nothing when they are there. Without npm or a network the tests that need them are skipped, so this says what
# is missing and succeeds; where CI is set it fails, because there nobody would notice.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=(@copilotkit/aimock@1.42.0 ws@8.23.0)

give_up() {
    printf 'PEERS missing: %s. The wire tests will be skipped; install Node 20 or newer and run make peers.\n' "$1" >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
}

is_there() {
    local one installed
    for one in "${wanted[@]}"; do
        installed=.peers/node_modules/${one%@*}/package.json
        [ -f "$installed" ] && grep -q "\"version\": *\"${one##*@}\"" "$installed" || return 1
    done
}

if is_there; then
    exit 0
fi
command -v npm > /dev/null || give_up "npm is not installed"
mkdir -p .peers
# --no-save and --package-lock=false: what is there is decided above and nowhere else. All at once: npm removes what it is not told of.
npm install --prefix .peers --no-save --package-lock=false --no-audit --no-fund --loglevel=error \
    "${wanted[@]}" || give_up "npm could not install ${wanted[*]}"
