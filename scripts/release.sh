#!/usr/bin/env bash
# release.sh: builds the sdist of HEAD and the wheel of that sdist into dist/, checks both, installs each into an empty environment and
# runs an offline cycle there. Publishes nothing, and prints what is left to do.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
fail() { echo "release: $*" >&2; exit 1; }
pip() { "$1/bin/python" -m pip --quiet --disable-pip-version-check "${@:2}"; }

cd "$root"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml | head -1)
[ -z "$(git status --porcelain)" ] || fail "the checkout has uncommitted changes; commit or stash them"
grep -q "^## $version\b" CHANGELOG.md || fail "CHANGELOG.md has no section $version; run towncrier build --version $version"
grep -q "^version: $version$" CITATION.cff || fail "CITATION.cff has another version than $version"
fragments=$(find newsfragments -name '*.md' ! -name README.md)
[ -z "$fragments" ] || fail "news fragments are left: $fragments; run towncrier build --version $version"

mkdir "$here/source"
git archive HEAD | tar -x -C "$here/source"  # what git has and nothing else
"${PYTHON:-python3}" -m venv "$here/tools"
pip "$here/tools" install build twine
rm -rf dist
"$here/tools/bin/python" -m build --outdir dist "$here/source" > "$here/log" || { cat "$here/log"; fail "the build failed"; }
"$here/tools/bin/python" -m twine check --strict dist/*

for file in "$root"/dist/*; do
    echo "==> $(basename "$file"), $(du -k "$file" | cut -f1) KB: an offline cycle in an empty environment"
    "${PYTHON:-python3}" -m venv --clear "$here/venv"
    pip "$here/venv" install "$file"
    rm -rf "$here/home" && mkdir "$here/home"
    (
        cd "$here/home"
        alone() { env -i HOME="$here/home" PATH="$here/venv/bin:/usr/bin:/bin" NO_COLOR=1 "$@"; }
        [ "$(alone agentrail --version)" = "agentrail $version" ] || fail "agentrail --version does not print agentrail $version"
        alone python -m agentrail run "List the files here and say what each is for"
    )
done

cat <<END

Built and checked, nothing published:
$(ls -1 dist)

Left for the owner:
  1. Choose a name that is free on the package index; \`agentrail\` there is another project. Set it in pyproject.toml and as NAME in
     agentrail/distribution.py, with PUBLISHED = True. Add [project.urls], without which the links of the README lead nowhere on the
     index. Then run make docs and make release again.
  2. git tag -s v$version && git push origin v$version
  3. pip install twine && twine upload dist/*
END
