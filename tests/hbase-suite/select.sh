#!/bin/bash
# Helper of check.sh and update.sh.
#   select.sh <list> [class prefix...]    the tests of a list whose class (without the package, or with it) begins so; all without prefixes
#   select.sh --passed <tsv>              class#test of the tests that passed, from run.sh's output
set -euo pipefail
case $# in 0) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
if [ "$1" = --passed ]; then
  awk -F '\t' '$3 == "PASS" { print $1 "#" $2 }' "$2"
else
  list=$1; shift
  awk -v prefixes="$*" '
    BEGIN { n = split(prefixes, p, " ") }
    /^[ \t]*(#|$)/ { next }
    { class = $0; sub(/#.*/, "", class); short = class; sub(/.*\./, "", short)
      hit = n == 0
      for (i = 1; i <= n; i++) if (index(short, p[i]) == 1 || index(class, p[i]) == 1) hit = 1
      if (hit) print }' "$list"
fi
