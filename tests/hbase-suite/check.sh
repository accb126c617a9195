#!/bin/bash
# Runs the tests of passing.txt against a server that already runs; all must pass.
#   check.sh <zookeeper host:port> <bootstrap host:port> [class prefix...]
# With class prefixes (TestFromClientSide3, ...) only those classes. KEEP=file keeps the TSV. More variables: run.sh.
# The last lines name each test that did not pass, with its cause.
# WARNING: drops every user table, snapshot, namespace and replication peer of that server.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
zookeeper=$1 bootstrap=$2; shift 2
work=$(mktemp -d "${TMPDIR:-/tmp}/cadastre-suite.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$here/select.sh" "$here/passing.txt" "$@" > "$work/list"
total=$(wc -l < "$work/list")
if [ "$total" = 0 ]; then echo "0 passed, 0 failed"; exit 0; fi
rc=0
PEER_BOOTSTRAP=$bootstrap "$here/run.sh" "$zookeeper" "$work/list" "$work/out.tsv" || rc=$?
[ $rc != 2 ] || exit 2
passed=0
[ ! -f "$work/out.tsv" ] || { passed=$("$here/select.sh" --passed "$work/out.tsv" | grep -c -x -F -f "$work/list" || true); }
[ -z "${KEEP:-}" ] || cp "$work/out.tsv" "$KEEP"
# Counted from the list, so that a test that was not run at all is a failure too.
if [ "$passed" != "$total" ]; then
  echo "Did not pass:"
  touch "$work/out.tsv"
  awk -F '\t' -v tsv="$work/out.tsv" '
    FILENAME == tsv { status[$1 "#" $2] = $3; cause[$1 "#" $2] = $7; next }
    !($0 in status) { print "  " $0 " NOT RUN"; next }
    status[$0] != "PASS" { print "  " $0 " " status[$0] " " substr(cause[$0], 1, 600) }' "$work/out.tsv" "$work/list"
fi
echo "$passed passed, $((total - passed)) failed"
[ "$passed" = "$total" ]
