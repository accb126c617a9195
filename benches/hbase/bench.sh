#!/bin/bash
# Drives HBase's own PerformanceEvaluation against a server that already runs, and measures the server's work.
#   bench.sh --zookeeper HOST:PORT --pid PID[,PID] --out FILE.tsv --cli CADASTRE [--rows N] [--single-rows N] [--scans N] [--warm yes|no]
#            [--only NAME,...] [--seconds S]
# --pid      the server's processes, for CPU time (utime + stime) and resident memory
# --cli      the binary `cadastre`, as a client of either server: it flushes the tables before they are read
# --rows     rows of each table that is read: 1 cell of 1 kB, and 10 cells of 100 B (default 50000); as many gets and multi-gets
# --single-rows  operations that wait for each row's log: single puts, increments, checks with a put (default 10000)
# --scans    scans of 100 rows (default 2000)
# --warm     everything once before, on tables of its own and not counted (default yes): HBase's compiler is then done with it
# --only     of: put put_1 put_16 multiget_first multiget get scan scan100 increment check_and_put wide_put wide_get wide_scan wide_scan100 ddl
#            (commas between them; default all; what reads needs `put` or `wide_put` before it)
# --seconds  bound for each command (default 120)
# Environment: CADASTRE_TEST_CACHE   downloads (default $HOME/.cache/cadastre-tests); BENCH_HEAP   heap of the client (default 1g)
# Output, one line per command: name threads operations seconds ops_per_second server_cpu_s cpu_us_per_op rss_mib p50_us p95_us p99_us exit
# cpu_after_s. The last is what the server did after the command until it was idle (flushes, compactions, compiling). Client and server share
# the machine, and so the cores. `ddl` has two lines, create and drop, without processor time by command.
set -euo pipefail
usage() { sed -n '2,18s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
zookeeper='' pids='' out='' cli='' rows=50000 single=10000 scans=2000 warm=yes only='' seconds=120
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --zookeeper) zookeeper=$2 ;;
    --pid) pids=${2//,/ } ;;
    --out) out=$2 ;;
    --cli) cli=$2 ;;
    --rows) rows=$2 ;;
    --single-rows) single=$2 ;;
    --scans) scans=$2 ;;
    --warm) warm=$2 ;;
    --only) only=$2 ;;
    --seconds) seconds=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[ -n "$zookeeper" ] && [ -n "$pids" ] && [ -n "$out" ] && [ -n "$cli" ] || usage
command -v java >/dev/null || { echo 'missing: java (Java 17)' >&2; exit 2; }
[ -x "$cli" ] || { echo "not an executable: $cli" >&2; exit 2; }
for p in $pids; do [ -r "/proc/$p/stat" ] || { echo "no process $p" >&2; exit 2; }; done
lib=$("$here/fetch.sh" bench)
work=$(mktemp -d "${TMPDIR:-/tmp}/cadastre-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
cat > "$work/hbase-site.xml" <<EOF
<configuration>
<property><name>hbase.zookeeper.quorum</name><value>${zookeeper%:*}</value></property>
<property><name>hbase.zookeeper.property.clientPort</name><value>${zookeeper##*:}</value></property>
</configuration>
EOF
cat > "$work/log4j2.properties" <<EOF
status = error
rootLogger.level = info
rootLogger.appenderRef.f.ref = f
appender.f.type = File
appender.f.name = f
appender.f.fileName = \${sys:bench.log}
appender.f.layout.type = PatternLayout
appender.f.layout.pattern = %d{ISO8601} %-5p [%t] %c{2}: %m%n
EOF
opens=()
for p in java.lang java.nio sun.nio.ch java.lang.reflect java.util java.util.concurrent; do opens+=("--add-opens=java.base/$p=ALL-UNNAMED"); done
jvm() { # log, class or source, arguments
  local log=$1; shift
  timeout -k 5 "$seconds" java -Xmx"${BENCH_HEAP:-1g}" -Djava.security.manager=allow "${opens[@]}" -Djava.io.tmpdir="$work" -Dbench.log="$log" -cp "$work:$lib/*" "$@"
}
tick=$(getconf CLK_TCK)
cpu() { # seconds of all server processes so far; the fields after the command name, which may hold blanks
  local p; for p in $pids; do sed 's/^.*) //' "/proc/$p/stat" | awk -v t="$tick" '{ print ($12 + $13) / t }'; done | awk '{ s += $1 } END { printf "%.2f", s }'
}
rss() { local p; for p in $pids; do awk '/^VmRSS:/ { print $2 / 1024 }' "/proc/$p/status"; done | awk '{ s += $1 } END { printf "%.0f", s }'; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", b - a }'; }
SETTLE_SECONDS=20 # as long as a flush and the compactions behind it may take, by far
settle() { # until the server uses less than a twentieth of a core
  local before now n
  before=$(cpu)
  for n in $(seq $((SETTLE_SECONDS * 2))); do
    sleep 0.5
    now=$(cpu)
    if awk -v a="$before" -v b="$now" 'BEGIN { exit !(b - a < 0.025) }'; then break; fi
    before=$now
  done
}
heading='#name	threads	operations	seconds	ops_per_second	server_cpu_s	cpu_us_per_op	rss_mib	p50_us	p95_us	p99_us	exit	cpu_after_s'
run() { # name, threads, operations of all of them, PerformanceEvaluation's options and command
  local name=$1 n=$2 total=$3 rc=0 before after idle; shift 3
  case ",$only," in ,, | *",$name,"*) ;; *) return 0 ;; esac
  settle
  : > "$work/pe.log"
  before=$(cpu)
  jvm "$work/pe.log" org.apache.hadoop.hbase.PerformanceEvaluation --nomapred --latency "$@" "$n" > "$work/pe.out" 2>&1 || rc=$?
  after=$(cpu)
  settle
  idle=$(cpu)
  # Its own measure of each thread, without the JVM's start: the slowest thread's time is that of the whole.
  awk -v name="$name" -v n="$n" -v total="$total" -v cpu="$(less "$before" "$after")" -v later="$(less "$after" "$idle")" -v rss="$(rss)" -v rc="$rc" '
    match($0, /Finished .* in [0-9]+ms/) { s = substr($0, RSTART, RLENGTH); sub(/ms$/, "", s); sub(/.* /, "", s); if (s + 0 > ms) ms = s + 0 }
    /^50th *=/ { v = $NF; if (v + 0 > p50) p50 = v + 0 }
    /^95th *=/ { v = $NF; if (v + 0 > p95) p95 = v + 0 }
    /^99th *=/ { v = $NF; if (v + 0 > p99) p99 = v + 0 }
    END { if (ms == 0 && rc == 0) rc = "no-result"
      printf "%s\t%d\t%d\t%.2f\t%.0f\t%.2f\t%.1f\t%s\t%.0f\t%.0f\t%.0f\t%s\t%.2f\n", name, n, total, ms / 1000, ms ? total * 1000 / ms : 0, cpu, cpu * 1e6 / total, rss, p50, p95, p99, rc, later }' \
    "$work/pe.log" "$work/pe.out" | tee -a "$result"
  [ $rc = 0 ] || tail -n 5 "$work/pe.out" >&2
}
flush() { # tables; with what a flush causes out of the way
  local table
  for table in "$@"; do "$cli" table flush "$table" --zookeeper "$zookeeper" > "$work/flush.out" 2>&1 || true; done # not there if --only left it out
  settle
}
ddl() { # creates, disables and deletes one table after the other
  case ",$only," in ,, | *,ddl,*) ;; *) return 0 ;; esac
  local rc=0
  settle
  jvm "$work/ddl.log" "$here/Ddl.java" "$1" > "$work/ddl.out" 2> "$work/ddl.err" || rc=$?
  awk -v rss="$(rss)" -v rc="$rc" -F'\t' '{ printf "%s\t1\t%d\t%.2f\t%.0f\t0\t0\t%s\t%s\t%s\t%s\t%s\t0\n", $1, $2, $3, $3 ? $2 / $3 : 0, rss, $4, $5, $6, rc }' "$work/ddl.out" | tee -a "$result"
  [ $rc = 0 ] || tail -n 5 "$work/ddl.err" >&2
}
# --sampleRate makes one operation of so many rows, the half keeps its rounding off the edge.
every() { awk -v rows="$1" -v wanted="$2" 'BEGIN { n = int(rows / wanted); if (n < 1) n = 1; print n }'; }
rate() { awk -v n="$1" 'BEGIN { if (n < 2) print 1.0; else printf "%.9f", 1 / (n + 0.5) }'; }
series() { # prefix of the tables' names
  local narrow="$1Narrow" wide="$1Wide" each n16=$((single / 16 * 16)) ranges
  local cells=(--columns=10 --valueSize=100)
  each=$(every "$rows" "$scans")
  ranges=$(((rows + each - 1) / each))
  run put 1 "$rows" --table="$narrow" --presplit=4 --rows="$rows" sequentialWrite
  run wide_put 1 "$rows" --table="$wide" --presplit=4 "${cells[@]}" --rows="$rows" sequentialWrite
  flush "$narrow" "$wide"
  run multiget_first 1 "$rows" --table="$narrow" --rows="$rows" --multiGet=20 randomRead
  run multiget 1 "$rows" --table="$narrow" --rows="$rows" --multiGet=20 randomRead
  run get 1 "$rows" --table="$narrow" --rows="$rows" randomRead
  run scan 1 "$rows" --table="$narrow" --rows="$rows" scan
  run scan100 1 "$ranges" --table="$narrow" --rows="$rows" --sampleRate="$(rate "$each")" --caching=100 scanRange100
  run wide_get 1 "$rows" --table="$wide" "${cells[@]}" --rows="$rows" randomRead
  run wide_scan 1 "$rows" --table="$wide" "${cells[@]}" --rows="$rows" scan
  run wide_scan100 1 "$ranges" --table="$wide" "${cells[@]}" --rows="$rows" --sampleRate="$(rate "$each")" --caching=100 scanRange100
  run put_1 1 "$single" --table="$1Single" --presplit=4 --rows="$single" --autoFlush=true sequentialWrite
  run put_16 16 "$n16" --table="$1Sixteen" --presplit=4 --rows=$((n16 / 16)) --autoFlush=true sequentialWrite
  run increment 1 "$single" --table="$1Count" --presplit=4 --rows="$single" increment
  run check_and_put 1 "$single" --table="$1Check" --presplit=4 --rows="$single" checkAndPut
  ddl "$2"
}
if [ "$warm" = yes ]; then
  echo 'to warm up, not counted:' >&2
  result=$work/warm
  series Warm 5 >&2
fi
result=$out
echo "$heading" > "$result"
series Bench 50
