#!/usr/bin/env bash
# Installs into .peers/openai/ the `openai` client for JavaScript, whose `runTools` talks to our server in the tests.
# Does nothing when it is there. Without npm or a network the tests that need it are skipped, so this says what is missing
# and succeeds; where CI is set it fails, because there nobody would notice.
set -euo pipefail
cd "$(dirname "$0")/.."

package=openai
version=7.57.0
folder=.peers/openai # one of its own: npm removes from a folder what it was not told to install there
installed=$folder/node_modules/$package/package.json

give_up() {
    printf 'The openai client is missing: %s. Its tests will be skipped; install Node 20 or newer and run make peers.\n' "$1" >&2
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
