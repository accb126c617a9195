#!/bin/bash
# Calls every method of Admin and Table of HBase's Java client 2.6.4 once, on a server that already runs, and compares what came of each.
#   run.sh ZOOKEEPER_HOST:PORT [--only REGEX] [--record]
# --only     cases whose names match
# --record   print what came of each case instead of comparing it
# expected.tsv: case, outcome on HBase 2.6.4, outcome on Cadastre where it differs on purpose. Exit code: 0 all as expected, 1 not, 2 something
# missing. It makes and drops tables, namespaces and snapshots named probe_*.
# Environment: CADASTRE_TEST_CACHE   jars and compiled classes (default $HOME/.cache/cadastre-tests)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
zookeeper=$1; shift
only='' record=''
while [ $# -gt 0 ]; do
  case $1 in
    --only) only=$2; shift 2 ;;
    --record) record=1; shift ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
cache=${CADASTRE_TEST_CACHE:-$HOME/.cache/cadastre-tests}/admin
for tool in java javac mvn flock; do command -v $tool > /dev/null || { echo "missing: $tool" >&2; exit 2; }; done
mkdir -p "$cache"
exec 9> "$cache/.lock"
flock 9
if [ ! -f "$cache/lib/.done" ] || ! cmp -s "$here/pom.xml" "$cache/pom.xml"; then
  rm -rf "$cache/lib"
  cp "$here/pom.xml" "$cache/pom.xml"
  mvn -q -B -f "$cache/pom.xml" dependency:copy-dependencies -DoutputDirectory="$cache/lib" -DincludeScope=runtime >&2
  touch "$cache/lib/.done"
fi
stamp=$(cat "$here"/src/*.java | sha256sum | cut -c1-16)
if [ ! -d "$cache/classes-$stamp" ]; then
  rm -rf "$cache"/classes-* "$cache/build"
  mkdir -p "$cache/build"
  javac -nowarn -Xlint:none -d "$cache/build" -cp "$cache/lib/*" "$here"/src/*.java 2> "$cache/javac.log" || { cat "$cache/javac.log" >&2; exit 2; }
  mv "$cache/build" "$cache/classes-$stamp"
fi
flock -u 9
out=$(mktemp "${TMPDIR:-/tmp}/cadastre-admin.XXXXXX")
trap 'rm -f "$out" "$out".*' EXIT
java -Xmx400m -cp "$cache/classes-$stamp:$here/../hbase-suite/conf:$cache/lib/*" Probe --zookeeper="$zookeeper" ${only:+--only="$only"} > "$out" 2> "$out.log" \
  || { tail -20 "$out.log" >&2; exit 2; }
if [ -n "$record" ]; then cat "$out"; exit 0; fi
awk -F '\t' -v partly="$only" '
  NR == FNR { if ($0 !~ /^#/) { want[$1] = $3 == "" ? $2 : $3; known[$1] = 1 } next }
  !($1 in known) { print "FAIL " $1 ": no such case in expected.tsv, outcome " $2; bad++; next }
  { seen[$1] = 1; if ($2 == want[$1]) good++; else { print "FAIL " $1 ": expected " want[$1] ", got " $2; bad++ } }
  END {
    if (partly == "") for (name in known) if (!(name in seen)) { print "FAIL " name ": not run"; bad++ }
    print good + 0 " as expected, " bad + 0 " not"; exit bad > 0 }' "$here/expected.tsv" "$out"
