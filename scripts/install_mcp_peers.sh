#!/usr/bin/env bash
# Installs into .peers/mcp/ the MCP servers that the tests of our client talk to and we did not write, and the conformance suite.
# Does nothing when they are there. Without npm or a network the tests that need them are skipped, so this says what is missing and
# succeeds; where CI is set it fails, because there nobody would notice.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=(
    @modelcontextprotocol/server-everything@2026.8.31
    @modelcontextprotocol/server-filesystem@2026.8.31
    @modelcontextprotocol/conformance@0.2.0-alpha.12
    node@22.23.3  # the suite wants a newer one than many systems have
)

give_up() {
    printf 'MCP PEERS missing: %s. Their tests will be skipped; install Node 20 or newer and run make peers.\n' "$1" >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
}

is_there() {
    local one installed
    for one in "${wanted[@]}"; do
        installed=.peers/mcp/node_modules/${one%@*}/package.json
        [ -f "$installed" ] && grep -q "\"version\": *\"${one##*@}\"" "$installed" || return 1
    done
}

if is_there; then
    exit 0
fi
command -v npm > /dev/null || give_up "npm is not installed"
mkdir -p .peers/mcp
npm install --prefix .peers/mcp --no-save --package-lock=false --no-audit --no-fund --loglevel=error \
    "${wanted[@]}" || give_up "npm could not install ${wanted[*]}"
