#!/usr/bin/env bash
# Unpacks PostgreSQL and PgBouncer from the distribution's packages into .peers/postgres, as an ordinary user: nothing is installed or started. Tests make a
# cluster of their own with them. They are skipped without them, with the reason, and fail in CI. Does nothing when both are there.
set -euo pipefail
cd "$(dirname "$0")/.."

home=.peers/postgres

give_up() {
    printf 'POSTGRESQL missing: %s. Its tests will be skipped; install postgresql and pgbouncer with your package manager.\n' "$1" >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
}

has_server() {
    compgen -G "/usr/lib/postgresql/*/bin/initdb" > /dev/null || compgen -G "$home/usr/lib/postgresql/*/bin/initdb" > /dev/null || command -v initdb > /dev/null
}
has_pooler() { [ -x "$home/usr/sbin/pgbouncer" ] || command -v pgbouncer > /dev/null || [ -x /usr/sbin/pgbouncer ]; }

has_server && has_pooler && exit 0
command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || give_up "this machine has no apt-get"
mkdir -p "$home/lists/partial" "$home/cache/archives/partial"
# Lists of our own: those of the system may be missing or old, and only root renews them.
apt=(apt-get -qq -o "Dir::State::Lists=$PWD/$home/lists" -o "Dir::Cache=$PWD/$home/cache" -o APT::Sandbox::User=)
"${apt[@]}" update || give_up "apt-get could not read the lists of packages"
depends() { apt-cache -o "Dir::State::Lists=$PWD/$home/lists" -o "Dir::Cache=$PWD/$home/cache" depends "$1" | sed -n 's/^ *|\{0,1\}Depends: //p'; }
wanted=()
has_pooler || wanted+=(pgbouncer)
if ! has_server; then
    server=$(depends postgresql | grep -m 1 '^postgresql-[0-9]*$') || give_up "apt-get knows no package of it"
    wanted+=("$server" "${server/postgresql/postgresql-client}")
fi
# Libraries that this system lacks are unpacked beside them, and found through LD_LIBRARY_PATH.
for package in "${wanted[@]}"; do
    for library in $(depends "$package" | grep '^lib'); do
        dpkg-query --status "$library" > /dev/null 2>&1 || wanted+=("$library")
    done
done
(cd "$home" && "${apt[@]}" download "${wanted[@]}") || give_up "apt-get could not download ${wanted[*]}"
for package in "$home"/*.deb; do
    dpkg-deb --extract "$package" "$home" || give_up "$package could not be unpacked"
done
rm -rf "$home/lists" "$home/cache" "$home"/*.deb
has_server && has_pooler || give_up "its packages have other files than expected"
