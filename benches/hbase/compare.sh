#!/bin/bash
# Benches a real HBase 2.6.4 and Cadastre in turn on this machine, and writes a table with a line for each figure that is a goal.
#   compare.sh --binary PATH --out DIR [--rows N] [--single-rows N] [--scans N] [--warm yes|no] [--only NAME,...] [--seconds S] [--work DIR] [--skip NAME]
# --rows, --single-rows, --scans, --warm, --only, --seconds: as bench.sh, and its defaults: about 25 minutes on two cores
# --work     where both keep their data (default: a new folder in TMPDIR or /tmp, removed at the end); the disk under it is what is measured
# --skip     leaves one out, may be repeated: hbase, cadastre-write, cadastre, cadastre-256-write, cadastre-256; its TSV in DIR, if there is one,
#            goes into the tables
# Cadastre runs four times: with --memory 1GiB and with 256MiB, each with --wal-sync=write (an acknowledged write is with the operating system, as
# HBase's on file://) and as by default (it is on the device). With 256MiB fewer commands, not warmed: they are there for its memory.
# Writes DIR/NAME.tsv for each, start.tsv (spawn to ready on an empty directory, memory then, spawn to the first get after a restart), machine.md, table.md.
# Exit code: 0 all commands worked, 1 some failed, 2 something missing. Environment: CADASTRE_TEST_CACHE, BENCH_HEAP as in bench.sh;
# HBASE_HEAP  heap of HBase (default 4g).
set -euo pipefail
usage() { sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary='' out='' rows=50000 single=10000 warm=yes only='' work='' skip=' ' pass=()
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --binary) binary=$2 ;;
    --out) out=$2 ;;
    --rows) rows=$2 ;;
    --single-rows) single=$2 ;;
    --warm) warm=$2 ;;
    --only) only=$2 ;;
    --scans | --seconds) pass+=("$1" "$2") ;;
    --work) work=$2 ;;
    --skip) case $2 in hbase | cadastre | cadastre-write | cadastre-256 | cadastre-256-write) skip+="$2 " ;; *) usage ;; esac ;;
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
started() { # server, seconds to ready on an empty directory, memory then, seconds to the first get: kept in start.tsv, the newest line of each server
  touch "$out/start.tsv"
  grep -v -e '^#' -e "^$1	" "$out/start.tsv" > "$work/start" || true
  { echo '#server	seconds_to_ready	rss_mib	first_get_s'; cat "$work/start"; echo "$1	$2	$3	$4"; } > "$out/start.tsv"
}
FIRST_GET_SECONDS=120
first_get() { # ZooKeeper, since when; beside a server that is starting: a get by a new client each time, until one finds the row
  local row=00000000000000000000000000
  case ",$only," in ,, | *,put,*) ;; *) echo -; return 0 ;; esac
  # Cut off soon: a client that found nobody pauses before it looks again.
  until timeout 0.5 "$binary" get BenchNarrow "$row" --zookeeper "$1" --timeout 1 > /dev/null 2>&1; do
    [ "${EPOCHREALTIME%.*}" -lt $((${2%.*} + FIRST_GET_SECONDS)) ] || { echo -; return 0; }
    sleep 0.02
  done
  since "$2"
}
# The heavier commands of the series: what fills caches, memtables and the log.
SMALL=put,wide_put,multiget_first,multiget,get,scan,wide_get,wide_scan,put_16
bench() { # name, ZooKeeper, pid, options
  local name=$1 zookeeper=$2 of=$3; shift 3
  echo "== $name, $(date +%H:%M:%S)" >&2
  "$here/bench.sh" --zookeeper "$zookeeper" --pid "$of" --out "$work/$name.tsv" --cli "$binary" --rows "$rows" --single-rows "$single" "${pass[@]}" "$@"
  mv "$work/$name.tsv" "$out/$name.tsv"
}
hbase() {
  local begun ready memory zk ports
  zk=$(free_port)
  ports=(--zookeeper-port "$zk" --master-port "$(free_port)" --region-server-port "$(free_port)" --heap "${HBASE_HEAP:-4g}")
  begun=$EPOCHREALTIME
  "$here/start-hbase.sh" "$work/hbase" "${ports[@]}" >&2
  ready=$(since "$begun")
  memory=$(rss "$(cat "$work/hbase/pid")")
  bench hbase "127.0.0.1:$zk" "$(cat "$work/hbase/pid")" --warm "$warm" --only "$only"
  "$here/start-hbase.sh" --stop "$work/hbase"
  begun=$EPOCHREALTIME
  "$here/start-hbase.sh" "$work/hbase" "${ports[@]}" > "$work/hbase.again" 2>&1 &
  started hbase "$ready" "$memory" "$(first_get "127.0.0.1:$zk" "$begun")"
  wait $!
  "$here/start-hbase.sh" --stop "$work/hbase"
  rm -rf "$work/hbase"
}
spawn() { # name, ports, options...; sets pid
  local name=$1 zk=$2 master=$3 region=$4; shift 4
  "$binary" start --data "$work/$name" --json --zookeeper-port "$zk" --master-port "$master" --region-server-port "$region" --admin-port 0 "$@" \
    > "$work/$name.ready" 2>> "$out/$name.log" < /dev/null &
  pid=$!
}
READY_SECONDS=60
stop() { # name
  local code=0
  kill "$pid"
  wait "$pid" || code=$?
  pid=''
  [ $code = 0 ] || echo "Cadastre ended with exit code $code; see $out/$1.log" >&2
}
cadastre() { # name, options of bench.sh, --, options of the server
  local name=$1 begun ready memory options=() ports; shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  ports=("$(free_port)" "$(free_port)" "$(free_port)")
  : > "$out/$name.log"
  begun=$EPOCHREALTIME
  spawn "$name" "${ports[@]}" "$@"
  until grep -q '"event":"ready"' "$work/$name.ready"; do
    kill -0 "$pid" 2>/dev/null || { echo "Cadastre ended; see $out/$name.log" >&2; return 1; }
    [ "${EPOCHREALTIME%.*}" -lt $((${begun%.*} + READY_SECONDS)) ] || { echo "Cadastre not ready; see $out/$name.log" >&2; return 1; }
    sleep 0.01
  done
  ready=$(since "$begun")
  memory=$(rss "$pid")
  bench "$name" "127.0.0.1:${ports[0]}" "$pid" "${options[@]}"
  stop "$name"
  begun=$EPOCHREALTIME
  spawn "$name" "${ports[@]}" "$@"
  started "$name" "$ready" "$memory" "$(first_get "127.0.0.1:${ports[0]}" "$begun")"
  stop "$name"
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
  echo "| rows | $rows of 1 kB and of 10 × 100 B, flushed before they are read; $single single puts, increments and checks |"
  echo "| HBase | heap ${HBASE_HEAP:-4g}; every command once before, on other tables: $warm |"
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
want() { case $skip in *" $1 "*) return 1 ;; *) return 0 ;; esac; }
small=$only
[ -n "$small" ] || small=$SMALL

machine > "$out/machine.md"
if want hbase; then hbase; fi
if want cadastre-write; then cadastre cadastre-write --warm "$warm" --only "$only" -- --memory 1GiB --wal-sync=write; fi
if want cadastre; then cadastre cadastre --warm "$warm" --only "$only" -- --memory 1GiB --wal-sync=fdatasync; fi
if want cadastre-256-write; then cadastre cadastre-256-write --warm no --only "$small" -- --memory 256MiB --wal-sync=write; fi
if want cadastre-256; then cadastre cadastre-256 --warm no --only "$small" -- --memory 256MiB --wal-sync=fdatasync; fi
{
  echo "# Cadastre and HBase 2.6.4, by HBase's PerformanceEvaluation"
  echo
  cat "$out/machine.md"
  echo
  python3 "$here/table.py" "$out"
} > "$out/table.md"
cat "$out/table.md"
failed=$(cat "$out"/hbase.tsv "$out"/cadastre*.tsv 2>/dev/null | awk -F'\t' '!/^#/ && $12 != "0"' | wc -l)
[ "$failed" = 0 ] || { echo "$failed commands failed" >&2; exit 1; }
