#!/usr/bin/env bash
# Unpacks Prometheus with promtool from the distribution's package into .peers/prometheus, as an ordinary user: nothing is installed or started.
# They read our metrics, alerts and dashboard. Tests are skipped without them, with the reason, and fail in CI. Does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

home=.peers/prometheus

give_up() {
    printf 'PROMETHEUS missing: %s. Its tests will be skipped; install prometheus with your package manager.\n' "$1" >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
}

if [ -x "$home/usr/bin/promtool" ] || command -v promtool > /dev/null; then
    exit 0
fi
command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || give_up "this machine has no apt-get"
mkdir -p "$home/lists/partial" "$home/cache/archives/partial"
# Lists of our own: those of the system may be missing or old, and only root renews them.
apt=(apt-get -qq -o "Dir::State::Lists=$PWD/$home/lists" -o "Dir::Cache=$PWD/$home/cache" -o APT::Sandbox::User=)
"${apt[@]}" update || give_up "apt-get could not read the lists of packages"
(cd "$home" && "${apt[@]}" download prometheus) || give_up "apt-get could not download it"
dpkg-deb --extract "$home"/prometheus_*.deb "$home" || give_up "its package could not be unpacked"
rm -rf "$home/lists" "$home/cache" "$home"/prometheus_*.deb
