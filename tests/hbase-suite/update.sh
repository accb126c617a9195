#!/bin/bash
# Runs the tests of lists/open.txt and lists/clock.txt that are not in passing.txt yet and prints the names of those that pass.
#   update.sh [--add] <zookeeper host:port> <bootstrap host:port> [class prefix...]
# --add puts them into passing.txt (in the order of the lists). With class prefixes only those classes. KEEP=file keeps the TSV.
# WARNING: drops every user table, snapshot, namespace and replication peer of that server.
set -euo pipefail
add=''
[ "${1:-}" != --add ] || { add=1; shift; }
[ $# -ge 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
zookeeper=$1 bootstrap=$2; shift 2
work=$(mktemp -d "${TMPDIR:-/tmp}/cadastre-suite.XXXXXX")
trap 'rm -rf "$work"' EXIT
cat "$here/lists/open.txt" "$here/lists/clock.txt" > "$work/lists"
{ "$here/select.sh" "$work/lists" "$@" | grep -v -x -F -f "$here/passing.txt" || true; } > "$work/list"
if [ ! -s "$work/list" ]; then echo "nothing new to try" >&2; exit 0; fi
rc=0
PEER_BOOTSTRAP=$bootstrap "$here/run.sh" "$zookeeper" "$work/list" "$work/out.tsv" >&2 || rc=$?
[ $rc != 2 ] || exit 2
[ -z "${KEEP:-}" ] || cp "$work/out.tsv" "$KEEP"
{ "$here/select.sh" --passed "$work/out.tsv" | grep -x -F -f "$work/list" || true; } > "$work/new"
cat "$work/new"
echo "$(wc -l < "$work/new") of $(wc -l < "$work/list") newly pass" >&2
if [ -n "$add" ] && [ -s "$work/new" ]; then
  cat "$here/passing.txt" "$work/new" > "$work/all"
  # A name that the lists have lost since stays: the list may only grow.
  { grep -x -F -f "$work/all" "$work/lists" || true; grep -v -x -F -f "$work/lists" "$here/passing.txt" || true; } > "$work/passing"
  cp "$work/passing" "$here/passing.txt"
fi
