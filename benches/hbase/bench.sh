#!/bin/bash
# Drives HBase's own PerformanceEvaluation against a server that already runs, and measures the server's work.
#   bench.sh --zookeeper HOST:PORT --pid PID[,PID] --out FILE.tsv [--rows N] [--single-rows N] [--threads 1,4] [--only NAME,...] [--seconds S]
# --pid      the server's processes, for CPU time (utime + stime) and resident memory
# --rows     rows of 1 kB in the table (default 100000); random reads and increments do as many operations over all threads
# --single-rows  operations of sequentialWriteAutoFlush and increment, which wait for each row's log (default as --rows)
# --only     of: sequentialWrite,sequentialWriteAutoFlush,randomRead,randomReadMultiGet,scan,increment (default all)
# --seconds  bound for each command (default 600)
# Environment: CADASTRE_TEST_CACHE   downloads (default $HOME/.cache/cadastre-tests); BENCH_HEAP   heap of the client (default 1g)
# Output, one line per command and number of threads: name threads operations seconds ops_per_second server_cpu_s cpu_us_per_op rss_mib
# p50_us p95_us p99_us exit. The table is TestTable, made anew for the writes. Client and server share the machine, and so the cores.
set -euo pipefail
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
zookeeper='' pids='' out='' rows=100000 single='' threads=1,4 only=sequentialWrite,sequentialWriteAutoFlush,randomRead,randomReadMultiGet,scan,increment seconds=600
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --zookeeper) zookeeper=$2 ;;
    --pid) pids=${2//,/ } ;;
    --out) out=$2 ;;
    --rows) rows=$2 ;;
    --single-rows) single=$2 ;;
    --threads) threads=$2 ;;
    --only) only=$2 ;;
    --seconds) seconds=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[ -n "$zookeeper" ] && [ -n "$pids" ] && [ -n "$out" ] || usage
single=${single:-$rows}
command -v java >/dev/null || { echo 'missing: java (Java 17)' >&2; exit 2; }
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
jvm() { # log, class, arguments
  local log=$1; shift
  timeout -k 5 "$seconds" java -Xmx"${BENCH_HEAP:-1g}" -Djava.security.manager=allow "${opens[@]}" -Djava.io.tmpdir="$work" -Dbench.log="$log" -cp "$work:$lib/*" "$@"
}
tick=$(getconf CLK_TCK)
cpu() { # seconds of all server processes so far; the fields after the command name, which may hold blanks
  local p; for p in $pids; do sed 's/^.*) //' "/proc/$p/stat" | awk -v t="$tick" '{ print ($12 + $13) / t }'; done | awk '{ s += $1 } END { printf "%.2f", s }'
}
rss() { local p; for p in $pids; do awk '/^VmRSS:/ { print $2 / 1024 }' "/proc/$p/status"; done | awk '{ s += $1 } END { printf "%.0f", s }'; }

echo '#name	threads	operations	seconds	ops_per_second	server_cpu_s	cpu_us_per_op	rss_mib	p50_us	p95_us	p99_us	exit' > "$out"
run() { # name, threads, rows of the whole, PerformanceEvaluation's options and command
  local name=$1 n=$2 total=$3 rc=0 before after; shift 3
  : > "$work/$name.$n.log"
  before=$(cpu)
  jvm "$work/$name.$n.log" org.apache.hadoop.hbase.PerformanceEvaluation --nomapred --latency "$@" "$n" > "$work/$name.$n.out" 2>&1 || rc=$?
  after=$(cpu)
  # Its own measure of each thread, without the JVM's start: the slowest thread's time is that of the whole.
  awk -v name="$name" -v n="$n" -v total="$total" -v cpu="$(awk -v a="$after" -v b="$before" 'BEGIN { printf "%.2f", a - b }')" -v rss="$(rss)" -v rc="$rc" '
    match($0, /Finished .* in [0-9]+ms/) { s = substr($0, RSTART, RLENGTH); sub(/ms$/, "", s); sub(/.* /, "", s); if (s + 0 > ms) ms = s + 0 }
    /^50th *=/ { v = $NF; if (v + 0 > p50) p50 = v + 0 }
    /^95th *=/ { v = $NF; if (v + 0 > p95) p95 = v + 0 }
    /^99th *=/ { v = $NF; if (v + 0 > p99) p99 = v + 0 }
    END { if (ms == 0 && rc == 0) rc = "no-result"
      printf "%s\t%d\t%d\t%.2f\t%.0f\t%.2f\t%.1f\t%s\t%.0f\t%.0f\t%.0f\t%s\n", name, n, total, ms / 1000, ms ? total * 1000 / ms : 0, cpu, cpu * 1e6 / total, rss, p50, p95, p99, rc }' \
    "$work/$name.$n.log" "$work/$name.$n.out" | tee -a "$out"
  [ $rc = 0 ] || tail -n 5 "$work/$name.$n.out" >&2
}
want() { case ",$only," in *",$1,"*) return 0 ;; *) return 1 ;; esac; }
# PerformanceEvaluation drops and makes the table anew when it has another number of regions than asked for.
regions=4
fresh() { regions=$((9 - regions)); echo "--presplit=$regions"; }
for n in ${threads//,/ }; do
  if want sequentialWrite; then run sequentialWrite "$n" "$rows" "$(fresh)" --rows=$((rows / n)) sequentialWrite; fi
done
for n in ${threads//,/ }; do
  if want sequentialWriteAutoFlush; then run sequentialWriteAutoFlush "$n" "$single" "$(fresh)" --rows=$((single / n)) --autoFlush=true sequentialWrite; fi
done
reads() { want randomRead || want randomReadMultiGet || want scan; }
if [ "$single" -lt "$rows" ] && want sequentialWriteAutoFlush && reads; then # all rows are to be there; not measured
  jvm "$work/fill.log" org.apache.hadoop.hbase.PerformanceEvaluation --nomapred "$(fresh)" --rows="$rows" sequentialWrite 1 > "$work/fill.out" 2>&1 \
    || { echo 'could not write the rows to be read:' >&2; tail -n 5 "$work/fill.out" >&2; }
fi
for n in ${threads//,/ }; do
  if want randomRead; then run randomRead "$n" "$rows" --rows=$((rows / n)) randomRead; fi
  if want randomReadMultiGet; then run randomReadMultiGet "$n" "$rows" --rows=$((rows / n)) --multiGet=20 randomRead; fi
  if want scan; then run scan "$n" "$rows" --rows=$((rows / n)) scan; fi
  if want increment; then run increment "$n" "$single" --rows=$((single / n)) increment; fi
done
