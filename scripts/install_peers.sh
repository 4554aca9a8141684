#!/usr/bin/env bash
# Installs into .peers/ the servers that the provider tests talk to and that we did not write.
# Does nothing when they are there. Without npm or a network the tests that need them are skipped, so this says what
# is missing and succeeds; where CI is set it fails, because there nobody would notice.
set -euo pipefail
cd "$(dirname "$0")/.."

package=@copilotkit/aimock
version=1.42.0
installed=.peers/node_modules/$package/package.json

give_up() {
    printf 'AIMOCK missing: %s. The wire tests will be skipped; install Node 20 or newer and run make peers.\n' "$1" >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
}

if [ -f "$installed" ] && grep -q "\"version\": *\"$version\"" "$installed"; then
    exit 0
fi
command -v npm > /dev/null || give_up "npm is not installed"
mkdir -p .peers
# --no-save and --package-lock=false: what is there is decided above and nowhere else.
npm install --prefix .peers --no-save --package-lock=false --no-audit --no-fund --loglevel=error \
    "$package@$version" || give_up "npm could not install $package@$version"
