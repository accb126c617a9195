#!/bin/bash
# The Rust client and the commands against a real HBase 2.6.4, which is started for it and stopped again.
#   hbase.sh --binary PATH [--rust PROGRAM] [--seconds S] [--zookeeper HOST:PORT --bootstrap HOST:PORT]
# --binary      the binary `cadastre`, of which only the commands are used
# --rust        the Rust client's program (see run.sh)
# --seconds     bound for everything behind the start of HBase (default 60)
# --zookeeper   with --bootstrap: an HBase that already runs, instead of starting one
# Environment: CADASTRE_TEST_CACHE   see benches/hbase/start-hbase.sh
# Prints one line per failed check, a line per part, and last "N passed, N failed". Exit code: 0 all passed, 1 some failed, 2 something missing.
set -euo pipefail
usage() { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary='' rust='' seconds=60 zookeeper='' bootstrap=''
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --binary) binary=$(realpath "$2") ;;
    --rust) rust=$2 ;;
    --seconds) seconds=$2 ;;
    --zookeeper) zookeeper=$2 ;;
    --bootstrap) bootstrap=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[ -n "$binary" ] || usage
[ -x "$binary" ] || { echo "missing: $binary" >&2; exit 2; }

dir=$(mktemp -d "${TMPDIR:-/tmp}/cadastre-hbase.XXXXXX")
started=''
finish() {
  [ -z "$started" ] || "$here/../../benches/hbase/start-hbase.sh" --stop "$dir/hbase" || true
  rm -rf "$dir"
}
trap finish EXIT
if [ -z "$zookeeper" ]; then
  # Ports that nobody listens on; HBase cannot take port 0 for its ZooKeeper.
  free_port() {
    local port
    while :; do
      port=$((20000 + RANDOM % 12000))
      (exec 3<> "/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo $port; return; }
    done
  }
  zk=$(free_port) master=$(free_port) rs=$(free_port)
  began=$(date +%s)
  started=1
  "$here/../../benches/hbase/start-hbase.sh" "$dir/hbase" --zookeeper-port "$zk" --master-port "$master" \
    --region-server-port "$rs" > "$dir/ready" || { cat "$dir/ready"; exit 2; }
  echo "HBase is there after $(($(date +%s) - began)) s"
  zookeeper=127.0.0.1:$zk bootstrap=127.0.0.1:$rs
fi
[ -n "$bootstrap" ] || usage
deadline=$(($(date +%s) + seconds))
left() { local s=$((deadline - $(date +%s))); echo $((s > 1 ? s : 1)); }

passed=0 failed=0
# Both registries at the same time, each with tables of its own.
run=("$here/run.sh" --zookeeper "$zookeeper" --bootstrap "$bootstrap" --seconds "$(left)")
[ -z "$rust" ] || run+=(--rust "$rust")
clients=(rust-zk rust-rpc) pids=()
for client in "${clients[@]}"; do
  "${run[@]}" --only "$client" > "$dir/$client" &
  pids+=($!)
done
for at in 0 1; do
  rc=0
  wait "${pids[at]}" || rc=$?
  [ $rc -le 1 ] || exit 2
  sed '$d' "$dir/${clients[at]}"
  read -r p _ f _ < <(tail -n 1 "$dir/${clients[at]}")
  passed=$((passed + p)) failed=$((failed + f))
done

# One command: its exit code, what its output must begin with (a pattern), and its words.
cd "$dir"
expect() {
  local code=$1 wanted=$2 got rc=0; shift 2
  got=$(timeout -k 5 "$(left)" "$binary" "$@" --zookeeper "$zookeeper" 2> "$dir/err") || rc=$?
  # shellcheck disable=SC2053 # a pattern on purpose
  if [ "$rc" = "$code" ] && [[ $got == $wanted ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL cadastre $* expected $code '$wanted' got $rc '$got' $(head -c 300 "$dir/err")"
  fi
}
began=$(date +%s)
"$binary" table drop cli:t --force --zookeeper "$zookeeper" > /dev/null 2>&1 || true
"$binary" namespace drop cli --zookeeper "$zookeeper" > /dev/null 2>&1 || true
expect 0 'created cli' namespace create cli --set owner=kim
expect 0 $'cli\n  owner=kim' namespace describe cli
expect 0 'altered cli' namespace alter cli --set owner=lee
expect 0 'created cli:t with 3 regions' table create cli:t f:VERSIONS=3 --splits g,p
expect 2 '' table create cli:t f
expect 0 'altered cli:t' table alter cli:t f:VERSIONS=5
expect 0 'put 2 cells into row1' put cli:t row1 f:a 1 f:b '\x00\xFF'
expect 0 $'f:a *  1\nf:b *  \\\\x00\\\\xFF' get cli:t row1
expect 0 7 incr cli:t row1 f:c 7
expect 0 5 incr cli:t row1 f:c -2
expect 0 1x append cli:t row1 f:a x
expect 2 '' get nosuch row1
expect 2 '' put cli:t row1 nosuch:a 1
for i in $(seq 2000); do printf 'r%05d,value-%d,\\N\n' "$i" "$i"; done > load.csv
expect 0 'loaded cli:t from load.csv: 2000 rows*' load cli:t load.csv --columns row,f:v,f:none --timestamp 7
expect 0 '2001 rows*' count cli:t
expect 0 'r00001  f:v  7  value-1' scan cli:t --prefix r00001
expect 0 'dumped cli:t to a.jsonl: 2001 rows*' dump cli:t --output a.jsonl
expect 0 'deleted from row1' delete cli:t row1
expect 1 '' get cli:t row1
expect 0 'flushed cli:t' table flush cli:t
expect 0 'asked for cli:t: 3 regions' table compact cli:t --major
expect 0 'truncated cli:t' table truncate cli:t --force --keep-splits
expect 0 '0 rows*' count cli:t
expect 0 'loaded cli:t from a.jsonl: 2001 rows*' load cli:t a.jsonl
expect 0 'dumped cli:t to b.jsonl: 2001 rows*' dump cli:t --output b.jsonl
cmp a.jsonl b.jsonl && passed=$((passed + 1)) || failed=$((failed + 1))
expect 0 "row1  region *  'p' to ''  on 127.0.0.1,*from hbase:meta*row2 *cached" locate cli:t row1 row2
expect 0 '*OPEN*OPEN*OPEN*' locate cli:t
expect 0 "table cli:t  enabled*every key lies in exactly one region" meta cli:t
expect 0 '*every key lies in exactly one region' meta --check
expect 0 '*' table balance --dry-run
expect 0 'cluster *, HBase 2.6.4*' status
expect 0 'dropped cli:t' table drop cli:t --force
expect 0 'dropped cli' namespace drop cli
echo "commands: $(($(date +%s) - began)) s"
# A sharded table over this HBase and a server of ours.
began=$(date +%s) rc=0
"$here/sharded.sh" --binary "$binary" --zookeeper "$zookeeper" --seconds 60 > "$dir/sharded" || rc=$?
[ $rc -le 1 ] || exit 2
sed '$d' "$dir/sharded"
read -r p _ f _ < <(tail -n 1 "$dir/sharded")
passed=$((passed + p)) failed=$((failed + f))
echo "sharded: $(($(date +%s) - began)) s"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
