#!/usr/bin/env bash
# Installs a browser, where the machine is a Debian and we may: pages read our streams in it. Its headless shell needs 1.0 s of a core for a
# page, the whole browser 1.9 s; where there is no shell, the browser will do. Tests that need it are skipped without, with the reason, and
# fail in CI.
set -euo pipefail

if command -v chromium-headless-shell >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    command -v chromium >/dev/null && exit 0
    echo "install chromium with your package manager" >&2
    exit 1
fi
install() {
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1"
}
install chromium-headless-shell || command -v chromium >/dev/null || install chromium
