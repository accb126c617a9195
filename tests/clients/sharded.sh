#!/bin/bash
# A sharded table over two clusters, Cadastre (started for it) and a real HBase that runs already; its rule is published on either.
#   sharded.sh --binary PATH --zookeeper HOST:PORT [--seconds S]
# --binary      the binary `cadastre`: server and commands
# --zookeeper   HBase's ZooKeeper
# --seconds     bound for everything (default 60)
# Prints one line per failed check, and last "N passed, N failed". Exit code: 0 all passed, 1 some failed, 2 something missing.
set -euo pipefail
usage() { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
binary='' zookeeper='' seconds=60
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --binary) binary=$(realpath "$2") ;;
    --zookeeper) zookeeper=$2 ;;
    --seconds) seconds=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[ -n "$binary" ] && [ -n "$zookeeper" ] || usage
[ -x "$binary" ] || { echo "missing: $binary" >&2; exit 2; }
deadline=$(($(date +%s) + seconds))
left() { local s=$((deadline - $(date +%s))); echo $((s > 1 ? s : 1)); }

dir=$(mktemp -d "${TMPDIR:-/tmp}/cadastre-sharded.XXXXXX")
server=''
finish() {
  [ -z "$server" ] || { kill "$server" 2> /dev/null || true; wait "$server" 2> /dev/null || true; }
  rm -rf "$dir"
}
trap finish EXIT
cd "$dir"
"$binary" start --json --log error --data "$dir/data" --zookeeper-port 0 --master-port 0 --region-server-port 0 --admin-port 0 > ready 2> server.log &
server=$!
for _ in $(seq 300); do [ -s ready ] && break; sleep 0.1; done
ours=$(sed -n 's/.*"zookeeper":"\([^"]*\)".*/\1/p' ready)
[ -n "$ours" ] || { echo 'the server did not start' >&2; cat server.log >&2; exit 2; }

rule() { # version, expression, statements before it
  echo "rule spread version $1; field id: i64; key decimal id \"|\"; dimension n 0 to 5; ${3:-} else ($2);
    place (0 to 1) cluster \"ours\" table \"spread_{n}\"; place (2 to 5) cluster \"hbase\" table \"spread_{n}\";" > "spread-$1.rule"
}
rule 1 'id % 4'
# New ids go to six tables: nothing moves.
rule 2 'id % 6' 'when id < 1000 then (id % 4);'
rule 3 'id % 6'

passed=0 failed=0 center=''
# One command on the cluster that has the rule: its exit code, what its output must be like (a pattern), and its words.
expect() {
  local code=$1 wanted=$2 got rc=0; shift 2
  local clusters=(--cluster "ours=$ours" --cluster "hbase=$zookeeper")
  [ "$1 $2" != 'rule status' ] || clusters=()
  got=$(timeout -k 5 "$(left)" "$binary" "$@" --zookeeper "$center" "${clusters[@]}" 2> err) || rc=$?
  # shellcheck disable=SC2053 # a pattern on purpose
  if [ "$rc" = "$code" ] && [[ $got == $wanted ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL cadastre $* expected $code '$wanted' got $rc '$(head -c 500 <<< "$got")' $(head -c 300 err)"
  fi
}
for center in "$ours" "$zookeeper"; do
  expect 0 'version 1 of the rule spread is in force' rule publish spread-1.rule
  expect 0 'created spread: 6 tables' table create spread f --rule spread
  for id in $(seq 0 19); do expect 0 'put 1 cell into *' put spread "$id" f:v "$id" --rule spread; done
  expect 0 5 incr spread 7 f:n 5 --rule spread
  expect 0 $'f:n *\nf:v *  7' get spread 7 --rule spread
  expect 0 '20 rows*' count spread --rule spread
  expect 0 $'0 *\n1 *\n10 *\n11 *' scan spread --limit 4 --rule spread
  expect 0 $'9 *\n8 *' scan spread --limit 2 --reversed --rule spread
  expect 0 $'2 *\n3 *\n7 *' scan spread --where 'id in (2, 3, 7)' --column f:v --rule spread
  expect 0 '4 rows*' count spread --where 'id < 4' --order rule --rule spread
  expect 2 '' put spread 7 f:v 8 --rule spread-3.rule
  expect 0 '*version 2 of the rule spread is in force' rule publish spread-2.rule
  expect 0 'put 1 cell into 1004' put spread 1004 f:v new --rule spread
  expect 2 '*12 of 21 rows move*' rule publish spread-3.rule
  expect 0 'spread  version 2, revision *' rule status spread
  expect 0 'deleted from 7' delete spread 7 --rule spread
  expect 1 '' get spread 7 --rule spread
  expect 0 'dropped spread: 6 tables' table drop spread --force --rule spread
done
# What was in HBase is HBase's: the second round began with none of the first one's tables.
center=$zookeeper
"$binary" table drop cadastre:rules --force --zookeeper "$zookeeper" > /dev/null 2> err || { echo "FAIL dropping the rules: $(cat err)"; failed=$((failed + 1)); }
echo "$passed passed, $failed failed"
[ $failed = 0 ]
