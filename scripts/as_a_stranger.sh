#!/usr/bin/env bash
# The README's two commands as a stranger has them: a fresh clone, a home without anything in it, an interpreter that
# other users may not reach, and of all programs only those that the README names. What the tests need beyond that they
# must do without, and say so.
#
# as_a_stranger.sh FOLDER: counts lines of the pure rooms too, and leaves two files there: `coverage`, and `skipped` with the tests
# that were skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
kept=${1:+$(mkdir -p "$1" && realpath "$1")}

# What our scripts install, what the tests talk to, and Node, which the README does not ask for.
hidden=' bwrap rg node nodejs npm npx psql postgres chromium chromium-headless-shell chromedriver docker podman nginx caddy '

here=$(mktemp -d)  # only its owner may enter, and the clone's .venv stands in it
trap 'rm -rf "$here"' EXIT
mkdir "$here/bin" "$here/home"
IFS=: read -ra folders <<< '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
for folder in "${folders[@]}"; do
    [ -d "$folder" ] || continue
    for program in "$folder"/*; do
        name=${program##*/}
        case $hidden in *" $name "*) continue ;; esac
        [ -e "$here/bin/$name" ] || ln -s "$program" "$here/bin/$name"
    done
done
# By a wrapper and not by a link: version managers put scripts in the PATH that want their own environment.
python=$("${PYTHON:-python3}" -c 'import sys; print(sys.executable)')
rm -f "$here/bin/python3"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" > "$here/bin/python3"
chmod +x "$here/bin/python3"

git clone --quiet --no-hardlinks . "$here/agentrail"
cd "$here/agentrail"
# How to reach a package index belongs to the machine and not to its user.
passed=()
while IFS= read -r name; do
    passed+=("$name=${!name}")
done < <(compgen -e | grep -iE '^(PIP_|SSL_CERT_FILE$|(http|https|no)_proxy$)' || true)
stranger() { env -i HOME="$here/home" PATH="$here/bin" LANG=C.UTF-8 "${passed[@]}" "$@"; }
for program in $hidden; do
    if stranger sh -c "command -v $program" > /dev/null; then
        echo "$program can still be found: this would not show what a stranger sees" >&2
        exit 1
    fi
done
stranger make run
if [ -z "$kept" ]; then
    stranger make test
else
    stranger make test COUNTED="$kept"
    cp .coverage "$kept/coverage"
fi
