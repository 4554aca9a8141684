#!/usr/bin/env bash
# Installs a browser, where the machine is a Debian and we may: pages read our streams in it.
# Tests that need it are skipped without, with the reason, and fail in CI.
set -euo pipefail

if command -v chromium >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "install chromium with your package manager" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
