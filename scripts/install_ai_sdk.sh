#!/usr/bin/env bash
# Installs into .peers/ai/ the `ai` SDK, whose client reads our UI message streams in the tests.
# Does nothing when it is there. Without npm or a network the tests that need it are skipped, so this says what is missing
# and succeeds; where CI is set it fails, because there nobody would notice.
set -euo pipefail
cd "$(dirname "$0")/.."

package=ai
version=6.0.322
folder=.peers/ai # one of its own: npm removes from a folder what it was not told to install there
installed=$folder/node_modules/$package/package.json

give_up() {
    printf 'The ai SDK is missing: %s. Its tests will be skipped; install Node 20 or newer and run make peers.\n' "$1" >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
}

if [ -f "$installed" ] && grep -q "\"version\": *\"$version\"" "$installed"; then
    exit 0
fi
command -v npm > /dev/null || give_up "npm is not installed"
mkdir -p "$folder"
npm install --prefix "$folder" --no-save --package-lock=false --no-audit --no-fund --loglevel=error \
    "$package@$version" || give_up "npm could not install $package@$version"
