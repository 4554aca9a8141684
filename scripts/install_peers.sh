#!/usr/bin/env bash
# Installs into .peers/ the programs from npm that the tests talk to and we did not write.
# Does nothing when they are there. Without npm or a network the tests that need them are skipped, so this says what
# is missing and succeeds; where CI is set it fails, because there nobody would notice.
set -euo pipefail
cd "$(dirname "$0")/.."

give_up() {
    printf 'PEERS missing: %s. Their tests will be skipped; install Node 20 or newer and run make peers.\n' "$1" >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
}

are_there() {
    local folder=$1 one installed
    shift
    for one in "$@"; do
        installed=$folder/node_modules/${one%@*}/package.json
        [ -f "$installed" ] && grep -q "\"version\": *\"${one##*@}\"" "$installed" || return 1
    done
}

# fetch FOLDER PACKAGE@VERSION…: each group has a folder of its own, because npm removes from one what it is not told of.
# --no-save and --package-lock=false: the versions are decided below and nowhere else.
fetch() {
    local folder=$1
    shift
    if are_there "$folder" "$@"; then
        return
    fi
    command -v npm > /dev/null || give_up "npm is not installed"
    mkdir -p "$folder"
    npm install --prefix "$folder" --no-save --package-lock=false --no-audit --no-fund --loglevel=error "$@" \
        || give_up "npm could not install $*"
}

fetch .peers @copilotkit/aimock@1.42.0 ws@8.23.0 # the server of the provider tests, and a client of WebSockets
fetch .peers/ai ai@6.0.322 @ai-sdk/openai-compatible@2.0.91 # reads our UI message streams, and talks to us as to OpenAI
fetch .peers/ag-ui @ag-ui/client@1.0.0           # verifies the order of AG-UI events
fetch .peers/openai openai@7.57.0                # `runTools` against our server
fetch .peers/acp acpx@0.19.1 @agentclientprotocol/sdk@2.4.0 # drive our agent as editors do, and judge each frame
fetch .peers/a2a @a2a-js/sdk@1.3.0               # both bindings of A2A against our server
# MCP servers, the conformance suite, and a Node as new as the suite wants it.
fetch .peers/mcp @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31 \
    @modelcontextprotocol/conformance@0.2.0-alpha.12 node@22.23.3
# Clients of MCP: the command of the inspector, the official one of JavaScript, and the one of Python before its version 2.
fetch .peers/mcp-clients @modelcontextprotocol/inspector@2.12.0 @modelcontextprotocol/client@2.4.0
if ! .peers/mcp-1/bin/python -c 'import importlib.metadata as m; assert m.version("mcp") == "1.30.0"' 2> /dev/null; then
    python3 -m venv .peers/mcp-1 && .peers/mcp-1/bin/pip install --quiet mcp==1.30.0 trio || give_up "pip could not install mcp==1.30.0"
fi
