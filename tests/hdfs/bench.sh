#!/usr/bin/env bash
# Our client and Hadoop's own against one pair of NameNodes, in turn for calls a second, side by side while they fail over. Prints Markdown.
#
#   bench.sh DIR OURS [SECONDS [ROUNDS [FAILOVERS]]]
#
# DIR        a pair that run.sh started
# OURS       the program of benches/ha
# SECONDS    each measurement (default 5)
# ROUNDS     of each; the best counts, since the machine may have other work (default 3); 0 leaves that part out
# FAILOVERS  graceful ones, and as many by kill -9 (default 6); 0 leaves that part out
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
DIR=$(cd "$1" && pwd) OURS=$2 SECONDS_EACH=${3:-5} ROUNDS=${4:-3} FAILOVERS=${5:-6}
run() { "$HERE/run.sh" "$@"; }

echo "$(date -u '+%Y-%m-%d %H:%M') UTC, $(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), load average $(cut -d' ' -f1-3 /proc/loadavg), $(java -version 2>&1 | head -1)"
echo
results=$(mktemp)
trap 'rm -f "$results"' EXIT
calls() {
  local callers
  for callers in 1 64; do
    for _ in $(seq "$ROUNDS"); do
      "$OURS" load "$DIR/conf" $callers "$SECONDS_EACH" >>"$results"
      run load "$DIR" $callers "$SECONDS_EACH" >>"$results"
    done
  done
  python3 - "$results" <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1]) if line.startswith('{')]
print('| getFileInfo, callers | client | calls/s, best (all) | CPU µs a call, best (all) | p50 µs | p99 µs |')
print('| --- | --- | --- | --- | --- | --- |')
for callers in (1, 64):
    least = {}
    for client in ('cadastre', 'hadoop'):
        of = [l for l in lines if l['client'] == client and l['callers'] == callers]
        best = max(of, key=lambda l: l['calls_per_s'])
        least[client] = min(l['cpu_us'] for l in of)
        all_of = lambda key: ', '.join(str(l[key]) for l in of)
        print(f"| {callers} | {client} | {best['calls_per_s']} ({all_of('calls_per_s')}) | {least[client]} ({all_of('cpu_us')}) | {best['p50_us']} | {best['p99_us']} |")
    print(f"| {callers} | ratio of CPU | | {least['cadastre'] / least['hadoop']:.2f} | | |")
PY
}
[ "$ROUNDS" -eq 0 ] || calls
[ "$FAILOVERS" -gt 0 ] || exit 0

# KIND: both clients at once, through the same failovers.
stalls() {
  rm -f "$DIR/stop"
  "$OURS" stalls "$DIR/conf" 16 "$DIR/stop" >>"$results" &
  local ours=$!
  run stalls "$DIR" 16 >>"$results" &
  local theirs=$!
  # The JVM is warm by then.
  sleep 8
  for _ in $(seq "$FAILOVERS"); do
    if [ "$1" = graceful ]; then
      run failover "$DIR" >/dev/null
    else
      local active=0
      [ "$(run state "$DIR" | sed -n 's/^nn1 //p')" = active ] && active=1
      run kill "$DIR" $active
      run active "$DIR" $((1 - active)) >/dev/null
      run restart "$DIR" $active
      run ready "$DIR" $active >/dev/null
    fi
    sleep 3
  done
  touch "$DIR/stop"
  wait $ours $theirs
}
echo
echo '| 16 callers of mkdirs | client | failed | held up, calls | mean ms | longest ms | pauses of all callers together, ms |'
echo '| --- | --- | --- | --- | --- | --- | --- |'
for kind in graceful 'kill -9'; do
  : >"$results"
  stalls "$kind"
  python3 - "$results" "$FAILOVERS failovers, $kind" <<'PY'
import json, sys
for line in open(sys.argv[1]):
    if line.startswith('{'):
        l = json.loads(line)
        print(f"| {sys.argv[2]} | {l['client']} | {l['failed']} | {l['held_up']} | {l['held_up_mean_ms']} | {l['longest_ms']} | {', '.join(map(str, l['gaps_ms']))} |")
PY
done
