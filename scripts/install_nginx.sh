#!/usr/bin/env bash
# Installs nginx and curl, where the machine is a Debian and we may: docs/operations/nginx.conf is read by the one, and the commands of the
# pages are the other's. Their tests are skipped without, with the reason, and fail in CI. Nothing is started.
set -euo pipefail

missing=()
command -v curl >/dev/null || missing+=(curl)
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
if ((${#missing[@]} == 0)); then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "install these with your package manager: ${missing[*]}" >&2
    exit 1
fi
apt-get update -qq
# A machine without systemd starts no service; on one that has it this keeps the package from doing so.
policy=/usr/sbin/policy-rc.d
[ -e "$policy" ] || { printf '#!/bin/sh\nexit 101\n' > "$policy"; chmod +x "$policy"; trap 'rm -f "$policy"' EXIT; }
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
