#!/usr/bin/env bash
# Installs what confines commands and searches fast, where the machine is a Debian and we may: bubblewrap and ripgrep.
# Tests that need them are skipped without, with the reason, and fail in CI.
set -euo pipefail

missing=()
command -v bwrap >/dev/null || missing+=(bubblewrap)
command -v rg >/dev/null || missing+=(ripgrep)
if ((${#missing[@]} == 0)); then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "install these with your package manager: ${missing[*]}" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
