#!/bin/bash
# Runs one scenario with real HBase clients against a server that already runs.
#   run.sh --zookeeper HOST:PORT --bootstrap HOST:PORT[,HOST:PORT]
#          [--only java2-zk,java2-rpc,java3-zk,java3-rpc,asynchbase,python,node,rust-zk,rust-rpc] [--rust PROGRAM]
#          [--gohbase DIR] [--table NAME] [--seconds S] [--verbose] [--fetch-only]
# --bootstrap   a region server or master, for the clients that use no ZooKeeper
# --rust        the Rust client's program (example `scenario` of crates/client); built without it
# --gohbase     the client's source, for `--only gohbase`, which is not run else: CI's package registries do not have it
# --table       prefix of the tables made and dropped (default cadastre_clients)
# --seconds     bound for each client (default 180)
# --fetch-only  bring everything needed into the cache, run nothing
# Environment: CADASTRE_TEST_CACHE   downloads and compiled classes (default $HOME/.cache/cadastre-tests)
# Prints one line per check (without --verbose only those that fail), a line per client, and last "N passed, N failed".
# Exit code: 0 all passed, 1 some failed, 2 something missing.
set -euo pipefail
usage() { sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${CADASTRE_TEST_CACHE:-$HOME/.cache/cadastre-tests}
zookeeper='' bootstrap='' only=java2-zk,java2-rpc,java3-zk,java3-rpc,asynchbase,python,node,rust-zk,rust-rpc rust='' gohbase='' prefix=cadastre_clients seconds=180 verbose='' fetch_only=''
while [ $# -gt 0 ]; do
  case $1 in
    --verbose) verbose=1; shift; continue ;;
    --fetch-only) fetch_only=1; shift; continue ;;
  esac
  [ $# -ge 2 ] || usage
  case $1 in
    --zookeeper) zookeeper=$2 ;;
    --bootstrap) bootstrap=$2 ;;
    --only) only=$2 ;;
    --rust) rust=$2 ;;
    --gohbase) gohbase=$(realpath "$2") ;;
    --table) prefix=$2 ;;
    --seconds) seconds=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[ -n "$fetch_only" ] || { [ -n "$zookeeper" ] && [ -n "$bootstrap" ]; } || usage
case ",$only," in *,java2-*|*,java3-*|*,asynchbase,*|*,node,*) java=1 ;; *) java='' ;; esac
for c in ${only//,/ }; do
  case $c in java2-zk|java2-rpc|java3-zk|java3-rpc|asynchbase|python|node|rust-zk|rust-rpc|gohbase) ;; *) echo "unknown client: $c" >&2; usage ;; esac
done
mkdir -p "$cache"
exec 9> "$cache/.lock-clients"
flock 9

need() { command -v "$1" >/dev/null || { echo "missing: $1 ($2)" >&2; exit 2; }; }

# The jars of a client's pom.xml, once, and the compiled programs (a folder named by the sources' hash).
jvm() { # folder, sources...
  local dir=$1 stamp; shift
  need java 'Java 17 or later'; need javac 'a JDK, Java 17 or later'
  mkdir -p "$cache/$dir"
  if ! cmp -s "$here/$dir/pom.xml" "$cache/$dir/pom.xml"; then
    need mvn 'Maven, to fetch the client'
    echo "fetching $dir" >&2
    rm -rf "$cache/$dir/lib"
    cp "$here/$dir/pom.xml" "$cache/$dir/pom.new.xml"
    mvn -q -B -f "$cache/$dir/pom.new.xml" dependency:copy-dependencies -DoutputDirectory="$cache/$dir/lib" -DincludeScope=runtime >&2
    mv "$cache/$dir/pom.new.xml" "$cache/$dir/pom.xml"
  fi
  stamp=$(cat "$@" | sha256sum | cut -c1-16)
  classes[$dir]=$cache/$dir/classes-$stamp
  if [ ! -d "${classes[$dir]}" ]; then
    rm -rf "$cache/$dir"/classes*
    javac -nowarn -Xlint:none -d "$cache/$dir/classes.new" -cp "$cache/$dir/lib/*" "$@"
    mv "$cache/$dir/classes.new" "${classes[$dir]}"
  fi
}
declare -A classes
# The clients without DDL have their table made by java2.
if [ -n "$java" ]; then jvm java2 "$here"/java/*.java; fi
case ",$only," in *,java3-*) jvm java3 "$here"/java/*.java ;; esac
case ",$only," in *,asynchbase,*) jvm asynchbase "$here"/java/Checks.java "$here"/asynchbase/*.java ;; esac
case ",$only," in *,python,*)
  if ! cmp -s "$here/python/requirements.txt" "$cache/python/requirements.txt"; then
    need python3 'Python 3.10 or later'
    python3 -c 'import ensurepip, venv' 2>/dev/null || { echo 'missing: python3-venv' >&2; exit 2; }
    echo 'fetching python' >&2
    rm -rf "$cache/python"
    python3 -m venv "$cache/python"
    "$cache/python/bin/pip" install -q --disable-pip-version-check -r "$here/python/requirements.txt" >&2
    cp "$here/python/requirements.txt" "$cache/python/"
  fi ;;
esac
case ",$only," in *,node,*)
  need node 'node 18 or later'
  if ! cmp -s "$here/node/package-lock.json" "$cache/node/.package-lock.json"; then
    need npm 'npm, to fetch the client'
    echo 'fetching node' >&2
    mkdir -p "$cache/node"
    cp "$here"/node/package*.json "$cache/node/"
    (cd "$cache/node" && npm ci --silent --no-audit --no-fund >&2)
    cp "$here/node/package-lock.json" "$cache/node/.package-lock.json"
  fi ;;
esac
case ",$only," in *,rust-*)
  if [ -z "$rust" ]; then
    need cargo 'Rust, to build its client'
    root=$(cd "$here/../.." && pwd)
    (cd "$root" && cargo build --quiet --release --package cadastre-client --example scenario >&2)
    rust=${CARGO_TARGET_DIR:-$root/target}/release/examples/scenario
  fi
  need "$rust" 'the program of the Rust client' ;;
esac
case ",$only," in *,gohbase,*)
  need go 'Go 1.25 or later'
  [ -n "$gohbase" ] || usage
  # Its own list of what it needs, with the sums; the client itself is where it lies.
  mkdir -p "$cache/gohbase"
  cp "$here/gohbase/main.go" "$cache/gohbase/"
  sed 's/^module .*/module scenario/' "$gohbase/go.mod" > "$cache/gohbase/go.mod"
  cp "$gohbase/go.sum" "$cache/gohbase/"
  (cd "$cache/gohbase" && go mod edit -require github.com/tsuna/gohbase@v0.0.0 -replace github.com/tsuna/gohbase="$gohbase" \
    && GOFLAGS=-mod=mod GOTOOLCHAIN=local go build -o scenario . >&2) ;;
esac
flock -u 9
exec 9>&-
[ -z "$fetch_only" ] || exit 0

out=$(mktemp -d "${TMPDIR:-/tmp}/cadastre-clients.XXXXXX")
trap 'rm -rf "$out"' EXIT
passed=0 failed=0
for c in ${only//,/ }; do
  table=${prefix}_${c//-/_}
  common=(--zookeeper "$zookeeper" --bootstrap "$bootstrap" --table "$table" --expected "$here/expected.tsv")
  began=$(date +%s)
  rc=0
  case $c in asynchbase|node)
    timeout -k 5 "$seconds" java -Xmx512m -cp "${classes[java2]}:$here:$cache/java2/lib/*" Scenario --only create "${common[@]}" > "$out/$c" 2> "$out/err" || rc=$? ;;
  esac
  if [ $rc = 0 ]; then
    case $c in
      java2-*) program=(java -Xmx512m -cp "${classes[java2]}:$here:$cache/java2/lib/*" Scenario --registry "${c#java2-}") ;;
      java3-*) program=(java -Xmx512m -cp "${classes[java3]}:$here:$cache/java3/lib/*" Scenario --registry "${c#java3-}") ;;
      asynchbase) program=(java -Xmx512m -cp "${classes[asynchbase]}:$cache/asynchbase/lib/*" AsyncHBase) ;;
      python) program=("$cache/python/bin/python" "$here/python/scenario.py") ;;
      gohbase) program=("$cache/gohbase/scenario") ;;
      rust-*) program=("$rust" --registry "${c#rust-}") ;;
      node) program=(env NODE_PATH="$cache/node/node_modules" NODE_NO_WARNINGS=1 node "$here/node/scenario.js") ;;
    esac
    timeout -k 5 "$seconds" "${program[@]}" "${common[@]}" > "$out/$c" 2> "$out/err" || rc=$?
  fi
  p=$(grep -c '^ok ' "$out/$c" || true)
  f=$(grep -c '^FAIL ' "$out/$c" || true)
  # A program that ended without its count broke off: that is one failure more.
  if ! grep -q '^[0-9]* passed, [0-9]* failed$' "$out/$c"; then
    f=$((f + 1))
    if [ $rc = 124 ] || [ $rc = 137 ]; then why="not done after $seconds s"; else why="ended with code $rc"; fi
    echo "FAIL scenario expected to reach its end got $why" >> "$out/$c"
    { echo "last check: $(grep -E '^(ok|FAIL) ' "$out/$c" | tail -n 2 | head -n 1)"; grep -v -i slf4j "$out/err" | tail -n 15; } >&2
  fi
  while read -r line; do
    case $line in 'ok '*) [ -n "$verbose" ] && echo "$c $line" ;; 'FAIL '*) echo "$c $line" ;; esac || true
  done < "$out/$c"
  echo "$c: $p passed, $f failed ($(($(date +%s) - began)) s)"
  passed=$((passed + p)) failed=$((failed + f))
  case $c in asynchbase|node)
    timeout -k 5 60 java -Xmx512m -cp "${classes[java2]}:$here:$cache/java2/lib/*" Scenario --only drop "${common[@]}" > /dev/null 2>&1 || true ;;
  esac
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
