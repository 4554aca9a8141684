"""Command lines for `Permissions`: lines that run `harm` or write `HARM` under bash although no rule covers that, and ordinary ones.

Bash runs them in a directory with a git repository, beside `../keep` with a file, `../other` with a repository whose settings run
`harm`, and `opts` with files whose names are options. `harm`, `git-harm`, `git-merge-harm` and `git-remote-harm` are programs.
"""

from typing import Final

NOT_READ: Final = (
    # --- expansions
    "$(harm)", "`harm`", "echo $(harm)", 'echo "$(harm)"', 'echo "`harm`"', "echo ${x:-$(harm)}", 'echo "${x:-$(harm)}"', "echo ${x:=`harm`}",
    "echo $((a[$(harm)]))", "((a[$(harm)]))", "[[ -v a[$(harm)] ]]", "[[ x == $(harm) ]]", "echo $[a[$(harm)]]", "echo 'a'$(harm)", 'echo "a"`harm`',
    "ls $(harm) | head", "ls | head -n $(harm)", "$(echo harm)", "$(echo ha)rm", "`echo harm`", "${x:-harm}", "${x-harm} y", '"${x:-harm}"', "${x:+}harm",
    "$x harm", "$1 harm", "$'harm'", "$'\\x68arm'", '$"harm"', "echo $'$(harm)'; $(harm)", "echo $(</dev/null; harm)", "echo <(harm); sleep 0.1",
    "cat <(harm)", "ls > >(harm); sleep 0.1", 'echo "${x:-`harm`}"', "echo ${x:-'a'}$(harm)", "echo ${PATH:$(harm 1>&2; echo 0)}", "echo ~$(harm)",
    "echo ${!x:-$(harm)}", "echo $((1+$(harm; echo 1)))", 'echo "a b" "$(harm)" c', "echo a$(harm)b", 'grep "$(harm)" f', "git log --format=$(harm)",
    'git log --format="$(harm)"', "ls -$(harm)", "echo {a,$(harm)}", "{harm,x}", "{harm,}", "har{m,}", "echo a | cat - $(harm)", "ls *$(harm)",
    # --- assignments
    "x=1 harm", "A=1 B=2 harm", "x=$(harm)", "x=`harm` ls", "x=harm; $x", "PATH=.:$PATH harm2", "x[$(harm)]=1", "x+=$(harm)", "x=(1 $(harm))", "IFS=x$(harm)",
    "GIT_PAGER=harm git -p log", "GIT_EXTERNAL_DIFF=harm git diff HEAD~1", "GIT_SSH_COMMAND=harm git ls-remote ssh://x/y", "PS4='$(harm)'; set -x; ls",
    "X=./harm.sh sh -c 'harm'", "LESSOPEN='|harm' less f", "GIT_EDITOR=harm git commit --allow-empty", "ENV=./harm.sh sh -i -c ls",
    # --- quoting of the program, and backslashes
    "'harm'", '"harm"', "ha''rm", 'h"ar"m', "\\harm", "h\\arm", "ha\\\nrm", "ls \\\n; harm", "ls\\\n;harm", "''harm", "'ha'rm", "ha'rm'", '""harm""', "ls; 'harm'",
    "ls && h'a'rm", "echo \\'; harm \\'", 'echo \\"; harm; echo \\"', "echo 'a\\'; harm #'", 'echo "a\\\\"; harm #"', "ls | 'harm'",
    # --- the grammar
    "(harm)", "( harm )", "{ harm; }", "{ harm;}", "((1)); harm", "if harm; then :; fi", "if true; then harm; fi", "if false; then :; else harm; fi",
    "while harm; do break; done", "until harm; do break; done", "for i in 1; do harm; done", "for i in $(harm); do :; done", "for ((;;)); do harm; break; done",
    "case x in x) harm;; esac", "case $(harm) in *) ;; esac", "case x in *) ;; esac; harm", "f() { harm; }; f", "f() (harm); f", "function f { harm; }; f",
    "ls() { harm; }; ls", "function ls { harm; }; ls", "! harm", "! ! harm", "time harm", "time -p harm", "coproc harm; wait", "coproc X { harm; }; wait",
    "if true\nthen harm\nfi", "select i in a; do harm; break; done < f", "while true; do harm; break; done", "[[ a == a ]] && harm", "true && { harm; }",
    "ls | (harm)", "ls | { harm; }", "ls | while read x; do harm; done", "echo a | if true; then harm; fi", "cat f | while read -r l; do harm; break; done",
    # --- background
    "harm & wait", "harm&", "ls & harm", "ls &harm", "ls&harm", "ls & wait; harm", "sleep 0 & harm & wait",
    # --- redirections
    "ls > HARM", "ls >> HARM", "ls >| HARM", "ls &> HARM", "ls &>> HARM", "ls >& HARM", "ls 2> HARM", "ls 1>HARM", "ls 22>HARM", "ls <> HARM", "> HARM", ">HARM ls",
    "ls>HARM", "ls>/dev/null>HARM", "ls 2>&1>HARM",
    "ls 2>&1HARM",
    "ls >/dev/nullHARM; ls > HARM", "ls 2>&1 >HARM", "ls 2>HARM>/dev/null", "ls > /dev/null > HARM", "ls >/dev/null2>HARM", "ls {x}>HARM",
    "ls > $(echo HARM)", "ls > 'HARM'", 'ls > "HARM"', "ls > ./HARM", "ls > H'AR'M", "ls >/dev/null/../HARM; ls > HARM", "echo a >HARM b", "echo a>HARM;", "ls 2>&1 | cat > HARM",
    "cat f > HARM", "git log > HARM", "git diff HEAD~1 >> HARM", "head -n 1 f >HARM 2>&1", "ls 3>HARM", "ls >/dev/null 2>HARM", "ls 2>/dev/null >HARM", "ls >\\\nHARM",
    # --- here-documents
    "cat <<EOF\n$(harm)\nEOF", "cat <<E\n`harm`\nE\n", "cat <<< $(harm)", 'cat <<< "$(harm)"', "bash <<EOF\nharm\nEOF", "bash <<'EOF'\nharm\nEOF", "bash <<< harm",
    "cat <<'EOF'\nx\nEOF\nharm", "cat <<-EOF\n\t$(harm)\n\tEOF", "cat <<A <<B\nx\nA\n$(harm)\nB",
    # --- comments
    "ls #\nharm", "ls # x\nharm", "# x\nharm", "#'\nharm #'", "ls #'\nharm\n#'", 'ls #"\nharm\n#"', "ls;#\nharm", "ls # \\\nharm", "echo a #' \n harm",
    # --- operators
    "ls | harm", "ls |& harm", "ls && harm", "ls; harm", "ls\nharm", "false || harm", "ls;harm", "ls&&harm", "ls|harm", "false||harm", "\nharm", "ls\n\nharm\n", "ls ;\nharm",
    "ls |\nharm", "ls &&\nharm", "harm", "harm;", "harm | cat", "harm 2>&1", "harm >/dev/null", "harm </dev/null", " harm", "\tharm", "ls -la; git status; harm", "ls\t;\tharm",
    # --- places
    "./harm", "../bin/harm", "./sub/../harm", "~+/harm", "$PWD/harm", "sub/run", "*/run", "su?/run", "[s]ub/run", "./h*m", "./ha?m", "ha[r]m", "h*rm; ./h*rm",
)  # fmt: skip
"""What the small language does not read, or no rule covers."""

BUILTINS: Final = (
    "eval harm", "eval 'harm'", "eval ha rm; harm", ". ./harm.sh", "source ./harm.sh", ". harm.sh", "exec harm", "command harm", "command -p sh -c ./harm", "builtin eval harm",
    "trap harm EXIT", "trap 'harm' 0", "trap -- harm EXIT", "trap harm DEBUG; ls", "hash -p ./harm ls; ls", "set -- harm; $1",
    "printf -v 'a[$(harm)]' x", "test -v 'a[$(harm)]'", "[ -v 'a[$(harm)]' ]", "test 'a[$(harm)]' -eq 1 || [[ 'a[$(harm)]' -eq 1 ]]", "let 'a[$(harm)]=1'", "declare 'a[$(harm)]=1'",
    "typeset 'a[$(harm)]=1'", "echo 1 | read 'a[$(harm)]'", "read -r 'a[$(harm)]' </dev/null", "declare -a a; unset 'a[$(harm)]'", "echo a | mapfile -C harm -c 1 x",
    "echo a | readarray -C harm -c 1 x", "compgen -C harm", "compgen -W '$(harm)'", "jobs -x harm", "export x=$(harm)", "readonly x=$(harm)",
    "shopt -s expand_aliases\nalias ls=harm\nls", "alias ls=harm; shopt -s expand_aliases\nls", "history -s x; history -w HARM", "declare -i x='a[$(harm)]'",
    "declare -n r='a[$(harm)]'; echo $r", "getopts 'a' 'x[$(harm)]' -a", "enable -n ls; harm", "printf '%s' x > HARM", "test x; harm", "local x; harm", "export A=b; harm", "fc -s; harm",
)  # fmt: skip
"""Builtins that define or evaluate."""

RUNNERS: Final = (
    "bash -c harm", "sh -c harm", "bash -c 'harm'", "dash -c harm", "bash harm.sh", "bash ./harm.sh", "sh harm.sh", "echo harm | bash", "echo harm | sh", "cat harm.sh | bash",
    "env harm", "env A=1 harm", "env -S 'harm x'", "env -i ./harm", "env -u A harm", "env bash -c harm", "xargs harm </dev/null", "echo x | xargs harm", "echo harm | xargs env",
    "echo x | xargs -n 1 harm", "find . -maxdepth 0 | xargs harm", "nice harm", "nice -n 5 harm", "nice -5 harm", "nohup harm", "timeout 5 harm", "timeout -k 1 5 harm", "timeout -s KILL 5 harm",
    "timeout --foreground 5 harm", "stdbuf -oL harm", "stdbuf -o L harm", "stdbuf --output=L harm", "timeout 5 bash -c harm", "nice -n 5 env harm", "nohup sh -c harm", "timeout 5 nice nohup harm",
    "setsid -w harm", "setsid --wait harm", "flock f harm", "flock f -c harm", "script -qc harm /dev/null", "ionice harm", "chrt -o 0 harm", "taskset 1 harm", "setarch -R harm", "prlimit harm",
    "find . -maxdepth 0 -exec harm ';'", "find . -maxdepth 0 -exec harm '{}' +", "find . -maxdepth 0 -execdir harm ';'", "find f -exec harm ';' -print", "find ../keep -name x -delete",
    "find ../keep -delete", "find . -maxdepth 0 -fprint HARM", "find . -maxdepth 0 -fprint0 HARM", "find . -maxdepth 0 -fprintf HARM x", "find . -maxdepth 0 -fls HARM",
    "find . -name f -o -exec harm ';'", "gfind . -exec harm ';' ; find . -maxdepth 0 -exec harm ';'",
    "awk 'BEGIN{system(\"harm\")}'", "awk 'BEGIN{print 1 > \"HARM\"}'", "awk 'BEGIN{\"harm\" | getline}'", "awk 'BEGIN{print 1 | \"harm\"}'", "awk -f prog.awk",
    "sed -n 'w HARM' f", "sed '1e harm' f", "sed 's/a/harm/e' f; sed 1eharm f", "sed -n '1w HARM' f", "sed --expression='w HARM' f", "sed -f prog.sed f",
    "perl -e 'system(\"harm\")'", "perl -e 'open F, \">HARM\"'", "perl harm.pl", "python3 -c 'import os; os.system(\"harm\")'", "python3 -c 'open(\"HARM\", \"w\")'",
    "tar cf HARM f", "tar -cf HARM f", "tar cf /dev/null f --checkpoint=1 --checkpoint-action=exec=harm", "tar cf /dev/null -I harm f", "tar --use-compress-program=harm -cf x.tar f",
    "tar --use-comp=harm -cf x.tar f", "tee HARM </dev/null", "ls | tee HARM", "ls | tee -a HARM", "dd if=f of=HARM", "split f HARM", "split -b 1 --filter=harm f", "split --filt=harm f",
    "csplit -f HARM f 1", "make", "make -f mk", "make --file=mk", "make -f mk all", "make -sf mk", "ls | bash harm.sh", "bash -s < /dev/null; bash harm.sh", "xargs -a f harm", "timeout 5 find . -maxdepth 0 -exec harm ';'",
)  # fmt: skip
"""Programs that run what they are told."""

GIT: Final = (
    "git -c alias.x='!harm' x", "git -c core.pager=harm -p log", "git -c core.fsmonitor=harm status", "git -ccore.fsmonitor=harm status", "git --config-env=core.fsmonitor=FS status; git -c core.fsmonitor=harm status",
    "git -C ../other status", "cd ../other && git status", "cd ../other; git status", "cd ../other\ngit status", "git --git-dir=../other/.git --work-tree=. status", "git --exec-path=../bin harm",
    "git log --output=HARM", "git log --output HARM", "git diff --output=HARM HEAD~1", "git diff --outp=HARM HEAD~1", "git diff --outpu HARM HEAD~1", "git show --output=HARM", "git show --output=HARM --stat HEAD", "git log -1 --output=HARM",
    "git shortlog --output=HARM HEAD",
    "git shortlog -c-output=HARM HEAD",
    "git shortlog -s-output=HARM HEAD",
    "git shortlog -n-outp=HARM HEAD", "git -p -c pager.log=harm log", "git whatchanged --output=HARM", "git diff --no-index --output=HARM f g", "git diff-tree -p --output=HARM HEAD", "git stash show --output=HARM; git log --output=HARM",
    "git grep -Oharm a", "git grep --open-files-in-pager=harm a", "git grep --open=harm a", "git grep -lOharm a", "git harm", "git-harm", "git  harm", "git h", "timeout 5 git harm",
    "git fetch --upload-pack=harm .", "git fetch --upload-p=harm .", "git fetch . --upload-pack harm", "git ls-remote --upload-pack=harm .", "git ls-remote --upload=harm .", "git ls-remote --exec=harm .",
    "git clone -u harm . y", "git clone --upload-pack=harm . y", "git clone --no-local -u harm . y", "git clone -qu harm . y", "git pull --upload-pack=harm .", "git push --receive-pack=harm . HEAD:x",
    "git push --exec=harm . HEAD:x", "git push --receive=harm . HEAD:x", "git fetch harm::x", "git clone harm::x y", "git ls-remote harm::x", "git ls-remote harm://x", "git push harm::x HEAD", "git pull harm::x",
    "git remote add z harm::x && git fetch z", "git rebase -x harm HEAD~1", "git rebase --exec harm HEAD~1", "git rebase --exec=harm HEAD~1", "git bisect start HEAD HEAD~1 && git bisect run harm", "git submodule foreach harm; git harm",
    "git difftool -y -x harm HEAD~1", "git difftool --no-prompt --extcmd=harm HEAD~1", "git config alias.z '!harm' && git z", "git config core.fsmonitor harm && git status", "git config --global alias.z '!harm'; git z",
    "git archive -o HARM HEAD", "git archive --output=HARM HEAD", "git archive --remote=. --exec=harm HEAD", "git archive --format=tar -oHARM HEAD", "git bundle create HARM HEAD", "git merge -s harm side", "git merge --strategy=harm side",
    "git merge --strat=harm side", "git filter-branch --help; git harm", "git hook run harm; git harm", "git clone -c core.fsmonitor=harm . y && git -C y status", "git var GIT_EDITOR; git harm", "git help -a; git harm",
    "git format-patch -1 --output=HARM", "git format-patch -1 --stdout --output=HARM", "git replace --edit HEAD; git harm", "git mergetool; git harm", "git instaweb; git harm", "git web--browse x; git harm", "git credential fill; git harm",
    "git send-email x; git harm", "git daemon --help; git harm", "git for-each-repo --config=x status; git harm",
)  # fmt: skip
"""Git."""

OPTIONS: Final = (
    "sort -o HARM f", "sort -oHARM f", "sort --output=HARM f", "sort --output HARM f", "sort --outp=HARM f", "sort --out HARM f", "sort --o HARM f", "sort --o=HARM f", "sort -ro HARM f", "sort -ruoHARM f", "sort f -o HARM",
    "sort f -oHARM", "sort -- f; sort -o HARM f", "cat f | sort -o HARM", "sort -nro HARM f g", "sort 2>/dev/null -o HARM f", "sort '-oHARM' f", 'sort "-o" HARM f', "sort -'o' HARM f", "sort --'output'=HARM f",
    "sort -S 1k --compress-program=harm big", "sort -S 1k --compress-prog=harm big", "sort -S 1k --comp harm big", "nice sort -o HARM f", "timeout 5 sort --o HARM f", "uniq f HARM", "uniq -c f HARM", "uniq -- f HARM", "uniq - HARM </dev/null",
    "uniq -f 1 f HARM", "uniq -d f HARM", "sort f | uniq - HARM", "shuf -o HARM f", "shuf --output=HARM f", "shuf --o=HARM f", "shuf -oHARM f", "shuf -n1 -o HARM f", "shuf -en1 -oHARM a", "iconv -o HARM f", "iconv --output=HARM f", "iconv --outp=HARM f",
    "cd opts && sort *", "cd opts && sort -- *; sort -o HARM f", "cd opts; sort *", "sort opts/*; sort -o HARM f", "cd opts && sort -*", "cd opts && sort ?oHARM x", "cd opts && uniq [hx]*", "cd opts && find * -maxdepth 0; find ../keep -delete",
    "cd two && uniq *", "cd two && uniq ?", "cd two && uniq [ab]*", "uniq two/*; uniq f HARM", "cd opts\nsort *", "cd opts && sort [-]*", "file -C -m magic; sort -o HARM f",
    "diff -l f g; sort -o HARM f", "date -s x; sort -o HARM f", "tree -o HARM", "rg --pre harm a", "rg --pre=harm a .", "fd -x harm", "fd --exec harm", "pytest --tx=popen//python=harm -d", "pytest --html=HARM", "mypy @opts", "mypy /x", "eslint --init", "cargo doc --open", "gh run download -D HARM",
    "gh release download v1 --output=HARM", "kubectl get pods --server=https://x", "kubectl get -shttps://x pods", "jq -n 1 -f x; sort -o HARM f", "zip -TT harm x.zip f -T", "xxd f HARM",
)  # fmt: skip
"""Options and operands that run programs or write files."""

HARMFUL: Final = (*NOT_READ, *BUILTINS, *RUNNERS, *GIT, *OPTIONS)

ORDINARY: Final = (
    "git status", "git status --short", "git diff", "git diff HEAD~1 -- src", "git log --oneline -n 20", "git log --format='%h %s' | head -n 5", "git show HEAD~2:README.md", "git add -A", "git add -u && git commit -m 'a change'",
    "git commit -m 'two lines\n\nof text'", "git push -u origin main", "git pull --rebase", "git checkout -b topic", "git branch -a", "git stash && git pull && git stash pop", "git blame -L 1,20 src/a.py", "git grep -n needle",
    "git rev-parse HEAD", "git fetch --all --prune", "git clone https://example.com/a/b.git", "git rm --cached x", "git tag -l 'v1.*'", "ls", "ls -la src", "ls src/*.py", "pwd", "cat README.md", "cat a.txt b.txt | wc -l", "head -n 50 src/a.py",
    "tail -n 20 log.txt", "grep -rn 'def main' src", "grep -rn needle src | head", "grep -c x a.txt || true", "rg -n 'a b' src", "find . -name '*.py'", "find src -type f -name '*.ts' | wc -l", "find . -maxdepth 2 -type d", "sort a.txt | uniq -c | sort -rn",
    "wc -l src/a.py", "diff -u a.txt b.txt", "echo done", "echo 'a b' && ls", "npm test", "npm run test:unit", "npm run build 2>&1 | tail -n 20", "cargo test --all", "cargo build --release", "go test ./pkg", "go build ./cmd", "pytest -q tests", "pytest -x tests/test_a.py 2>&1 | tail -n 30",
    "timeout 60 pytest -q", "ruff check src", "mypy src", "mkdir -p build", "which python3", "du -sh build", "cd src && ls", "stat a.txt; file a.txt", "echo $HOME", "for f in a b; do echo x; done", "FOO=1 npm test", "ls ~",
)  # fmt: skip
"""What agents run all day. The last four are not read."""

FIFTY: Final = (
    *("git status", "git diff", "git log --oneline -n 20", "git show HEAD", "git add -A"),
    *("git commit -m 'fix: count from one'", "git push origin main", "git checkout -b topic"),
    *("git stash", "git pull --rebase", "git branch", "ls -la src", "cat README.md"),
    *("head -n 40 src/app.py", "tail -n 20 log.txt", "grep -rn TODO src", "rg 'def main' src"),
    *("find . -name '*.py'", "wc -l src/app.py", "mkdir -p build/out", "cp a.py b.py"),
    *("mv a.py b.py", "rm notes.txt", "touch x", "pwd", "which python3", "du -sh .", "diff a b"),
    *("sort names.txt | uniq -c", "cd src && ls", "npm test", "npm run build", "npm install"),
    *("make test", "cargo test", "go test ./...", "pytest -q tests", "python -m pytest -q"),
    *("python app.py", "pip install -r requirements.txt", "ruff check src", "docker ps"),
    *("curl -s https://example.com/health", "tar -xzf a.tgz", "sed -n 1,20p src/app.py"),
    *("timeout 60 pytest -q", "echo $HOME", "ls > out.txt", "for f in a b; do wc $f; done"),
    *("A=1 make test",),
)
"""Fifty lines that agents run all day. The last four are not read."""
