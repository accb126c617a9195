#!/bin/bash
# Benches a real HBase 2.6.4 and Cadastre in turn on this machine, and writes tables of the ratios.
#   compare.sh --binary PATH --out DIR [--rows N] [--single-rows N] [--threads 1,4] [--only NAME,...] [--seconds S] [--work DIR] [--skip hbase|default|write]
# --rows     rows of 1 kB (default 50000), --single-rows  as bench.sh (default 10000): about 10 minutes on two cores
# --threads, --only, --seconds (default 120): as bench.sh
# --work     where both keep their data (default: a new folder in TMPDIR or /tmp, removed at the end); the disk under it is what is measured
# --skip     leaves out one of the three, may be repeated; its TSV in DIR, if there is one, goes into the tables
# Cadastre runs twice: as it is by default (an acknowledged write is on the device) and with --wal-sync=write (as HBase on file://).
# Writes DIR/hbase.tsv, cadastre.tsv, cadastre-write.tsv, start.tsv (spawn to ready on an empty directory, memory then), machine.md and table.md.
# Exit code: 0 all commands worked, 1 some failed, 2 something missing. Environment: CADASTRE_TEST_CACHE, BENCH_HEAP as in bench.sh;
# HBASE_HEAP  heap of HBase (default 1g). Cadastre has its default of memory.
set -euo pipefail
usage() { sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary='' out='' rows=50000 single=10000 seconds=120 work='' skip=' ' pass=()
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --binary) binary=$2 ;;
    --out) out=$2 ;;
    --rows) rows=$2 ;;
    --single-rows) single=$2 ;;
    --seconds) seconds=$2 ;;
    --threads | --only) pass+=("$1" "$2") ;;
    --work) work=$2 ;;
    --skip) case $2 in hbase | default | write) skip+="$2 " ;; *) usage ;; esac ;;
    *) usage ;;
  esac
  shift 2
done
[ -n "$binary" ] && [ -n "$out" ] || usage
[ -x "$binary" ] || { echo "not an executable: $binary" >&2; exit 2; }
for tool in java python3; do command -v $tool >/dev/null || { echo "missing: $tool" >&2; exit 2; }; done
"$here/fetch.sh" server >/dev/null
"$here/fetch.sh" bench >/dev/null
binary=$(realpath "$binary")
mkdir -p "$out"
if [ -n "$work" ]; then mkdir -p "$work"; fi
work=$(mktemp -d "${work:-${TMPDIR:-/tmp}}/cadastre-compare.XXXXXX")
pid=''
cleanup() {
  "$here/start-hbase.sh" --stop "$work/hbase"
  if [ -n "$pid" ]; then kill -9 "$pid" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap cleanup EXIT
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }'; }
rss() { awk '/^VmRSS:/ { printf "%.0f", $2 / 1024 }' "/proc/$1/status"; }
started() { # server, seconds, pid: kept in start.tsv, the newest line of each server
  touch "$out/start.tsv"
  grep -v -e '^#' -e "^$1	" "$out/start.tsv" > "$work/start" || true
  { echo '#server	seconds_to_ready	rss_mib'; cat "$work/start"; echo "$1	$2	$(rss "$3")"; } > "$out/start.tsv"
}
bench() { # name, ZooKeeper, pid
  echo "== $1" >&2
  "$here/bench.sh" --zookeeper "$2" --pid "$3" --out "$work/$1.tsv" --rows "$rows" --single-rows "$single" --seconds "$seconds" "${pass[@]}"
  mv "$work/$1.tsv" "$out/$1.tsv"
}
hbase() {
  local begun zk
  zk=$(free_port)
  begun=$EPOCHREALTIME
  "$here/start-hbase.sh" "$work/hbase" --zookeeper-port "$zk" --master-port "$(free_port)" --region-server-port "$(free_port)" --heap "${HBASE_HEAP:-1g}" >&2
  started hbase "$(since "$begun")" "$(cat "$work/hbase/pid")"
  bench hbase "127.0.0.1:$zk" "$(cat "$work/hbase/pid")"
  "$here/start-hbase.sh" --stop "$work/hbase"
  rm -rf "$work/hbase"
}
cadastre() { # name, options...
  local name=$1 begun zk code=0; shift
  begun=$EPOCHREALTIME
  "$binary" start --data "$work/$name" --json --zookeeper-port 0 --master-port 0 --region-server-port 0 --admin-port 0 "$@" \
    > "$work/$name.ready" 2> "$out/$name.log" < /dev/null &
  pid=$!
  until grep -q '"event":"ready"' "$work/$name.ready"; do
    kill -0 "$pid" 2>/dev/null || { echo "Cadastre ended; see $out/$name.log" >&2; return 1; }
    [ "${EPOCHREALTIME%.*}" -lt $((${begun%.*} + 60)) ] || { echo "Cadastre not ready after 60 s; see $out/$name.log" >&2; return 1; }
    sleep 0.01
  done
  started "$name" "$(since "$begun")" "$pid"
  zk=$(python3 -c 'import json, sys; print(next(json.loads(l)["zookeeper"] for l in sys.stdin if "\"ready\"" in l))' < "$work/$name.ready")
  bench "$name" "$zk" "$pid"
  kill "$pid"
  wait "$pid" || code=$?
  pid=''
  [ $code = 0 ] || echo "Cadastre ended with exit code $code; see $out/$name.log" >&2
  rm -rf "${work:?}/$name"
}
machine() {
  echo "| what | value |"
  echo "| --- | --- |"
  echo "| date | $(date -u '+%Y-%m-%d %H:%M UTC'), load average before: $(cut -d' ' -f1-3 /proc/loadavg) |"
  echo "| processor | $(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1) |"
  echo "| memory | $(awk '/^MemTotal:/ { printf "%.0f MiB", $2 / 1024 }' /proc/meminfo) |"
  echo "| kernel | $(uname -sr) |"
  echo "| disk | $(df -PT "$work" | awk 'NR == 2 { printf "%s on %s", $2, $1 }'), $(disk_sync) |"
  echo "| Java | $(java -version 2>&1 | head -n 1) |"
  echo "| Cadastre | $("$binary" --version 2>/dev/null || echo 'version not told'), $(git -C "$here" rev-parse --short HEAD 2>/dev/null || echo 'no commit known') |"
  echo "| rows | $rows of 1 kB; $single for sequentialWriteAutoFlush and increment |"
}
disk_sync() { # what a log that syncs pays
  python3 - "$work/sync" <<'PROBE'
import os, sys, time
took = []
with open(sys.argv[1], "wb", buffering=0) as f:
    for _ in range(200):
        f.write(bytes(4096))
        began = time.perf_counter()
        os.fdatasync(f.fileno())
        took.append((time.perf_counter() - began) * 1e6)
took.sort()
print("fdatasync after 4 kB: median %.0f µs, p99 %.0f µs" % (took[100], took[197]))
PROBE
}
starts() {
  echo "| server | spawn to ready, empty directory, s | memory then, MiB |"
  echo "| --- | --- | --- |"
  awk -F'\t' '!/^#/ { printf "| %s | %s | %s |\n", $1, $2, $3 }' "$out/start.tsv"
}

machine > "$out/machine.md"
case $skip in *' hbase '*) ;; *) hbase ;; esac
case $skip in *' default '*) ;; *) cadastre cadastre ;; esac
case $skip in *' write '*) ;; *) cadastre cadastre-write --wal-sync=write ;; esac
{
  echo "# Cadastre and HBase 2.6.4, by HBase's PerformanceEvaluation"
  echo
  cat "$out/machine.md"
  echo
  starts
  for name in cadastre cadastre-write; do
    if [ -f "$out/$name.tsv" ] && [ -f "$out/hbase.tsv" ]; then
      echo
      case $name in
        cadastre) echo "## As it is by default: an acknowledged write is on the device. HBase's is with the operating system" ;;
        *) echo "## With --wal-sync=write: both leave an acknowledged write with the operating system" ;;
      esac
      echo
      python3 "$here/table.py" "$out/$name.tsv" "$out/hbase.tsv" --names Cadastre,HBase
    fi
  done
} > "$out/table.md"
cat "$out/table.md"
failed=$(cat "$out"/hbase.tsv "$out"/cadastre*.tsv 2>/dev/null | awk -F'\t' '!/^#/ && $12 != "0"' | wc -l)
[ "$failed" = 0 ] || { echo "$failed commands failed" >&2; exit 1; }
