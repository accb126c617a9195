#!/bin/bash
# Brings HBase 2.6.4's jars into the cache, once, and prints their folder.
#   fetch.sh server    the server: production jars only
#   fetch.sh bench     the same and PerformanceEvaluation
# Environment: CADASTRE_TEST_CACHE (default $HOME/.cache/cadastre-tests)
set -euo pipefail
case ${1:-} in server) scope=runtime ;; bench) scope=test ;; *) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${CADASTRE_TEST_CACHE:-$HOME/.cache/cadastre-tests}/hbase
mkdir -p "$cache"
exec 9> "$cache/.lock-$1"
flock 9
if ! cmp -s "$here/pom.xml" "$cache/$1.pom.xml"; then
  command -v mvn >/dev/null || { echo "missing: mvn (Maven), to fetch HBase's jars" >&2; exit 2; }
  rm -rf "${cache:?}/$1"
  cp "$here/pom.xml" "$cache/pom-$1.xml"
  mvn -q -B -f "$cache/pom-$1.xml" dependency:copy-dependencies -DoutputDirectory="$cache/$1" -DincludeScope=$scope >&2
  mv "$cache/pom-$1.xml" "$cache/$1.pom.xml"
fi
echo "$cache/$1"
