#!/usr/bin/env bash
# Installs into .peers/console/ what judges the web console: TypeScript for the types of its JSDoc, Biome for format and habits, axe-core for access.
# Does nothing when they are there. Without npm or a network `make lint-js` and the tests of the console say what is missing, so this succeeds then;
# where CI is set it fails, because there nobody would notice. The browser is `install_chromium.sh`; Playwright, which drives it, is in the extra `dev`.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=.peers/console # one of its own: npm removes from a folder what it was not told to install there
wanted=(typescript@7.0.2 @biomejs/biome@2.6.8 axe-core@4.14.1)

give_up() {
    printf 'The tools of the console are missing: %s. Its JavaScript will not be checked; install Node 20 or newer and run make peers.\n' "$1" >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
}

is_there() {
    local one installed
    for one in "${wanted[@]}"; do
        installed=$folder/node_modules/${one%@*}/package.json
        [ -f "$installed" ] && grep -q "\"version\": *\"${one##*@}\"" "$installed" || return 1
    done
}

if is_there; then
    exit 0
fi
command -v npm > /dev/null || give_up "npm is not installed"
mkdir -p "$folder"
npm install --prefix "$folder" --no-save --package-lock=false --no-audit --no-fund --loglevel=error \
    "${wanted[@]}" || give_up "npm could not install ${wanted[*]}"
