#!/bin/bash
# Starts (or stops) a real HBase 2.6.4, standalone: master, one region server and ZooKeeper in one JVM, data below DIR.
#   start-hbase.sh DIR [option...]     start; returns when the master is initialized, printing one ready line (JSON)
#   start-hbase.sh --stop DIR          stop it (kill -9 after 20 s)
# Options: --zookeeper-port P   --master-port P   --region-server-port P   (default 2181, 16000, 16020)
#          --heap SIZE          heap of the JVM (default 1g)
#          --set KEY=VALUE      one more property for hbase-site.xml; may be repeated
#          --start-seconds S    how long to wait for the master (default 120)
# Environment: CADASTRE_TEST_CACHE   where the jars are kept (default $HOME/.cache/cadastre-tests)
# Needs Java 17 and Maven (Maven only for the first time). The log is DIR/hbase.log.
set -euo pipefail
usage() { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

stop() {
  local pid=''
  [ -f "$1/pid" ] && pid=$(cat "$1/pid")
  [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null || { rm -f "$1/pid"; return 0; }
  kill "$pid"
  for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.2; done
  kill -9 "$pid" 2>/dev/null || true
  rm -f "$1/pid"
}

[ $# -ge 1 ] || usage
if [ "$1" = --stop ]; then [ $# -eq 2 ] || usage; stop "$2"; exit 0; fi
case $1 in -*) usage ;; esac
dir=$(realpath -m "$1"); shift
zk=2181 master=16000 rs=16020 heap=1g wait=120 extra=''
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --zookeeper-port) zk=$2 ;;
    --master-port) master=$2 ;;
    --region-server-port) rs=$2 ;;
    --heap) heap=$2 ;;
    --start-seconds) wait=$2 ;;
    --set) extra+="<property><name>${2%%=*}</name><value>${2#*=}</value></property>"$'\n' ;;
    *) usage ;;
  esac
  shift 2
done
for tool in java flock; do command -v $tool >/dev/null || { echo "missing: $tool" >&2; exit 2; }; done
if [ -f "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; then echo "already running in $dir" >&2; exit 2; fi
lib=$("$here/fetch.sh" server)

mkdir -p "$dir/conf" "$dir/tmp"
cat > "$dir/conf/hbase-site.xml" <<EOF
<configuration>
<property><name>hbase.cluster.distributed</name><value>false</value></property>
<property><name>hbase.rootdir</name><value>file://$dir/root</value></property>
<property><name>hbase.tmp.dir</name><value>$dir/tmp</value></property>
<property><name>hbase.wal.provider</name><value>filesystem</value></property>
<property><name>hbase.unsafe.stream.capability.enforce</name><value>false</value></property>
<property><name>hbase.zookeeper.quorum</name><value>127.0.0.1</value></property>
<property><name>hbase.zookeeper.property.clientPort</name><value>$zk</value></property>
<property><name>hbase.zookeeper.property.dataDir</name><value>$dir/zookeeper</value></property>
<property><name>hbase.master.port</name><value>$master</value></property>
<property><name>hbase.regionserver.port</name><value>$rs</value></property>
<property><name>hbase.master.info.port</name><value>-1</value></property>
<property><name>hbase.regionserver.info.port</name><value>-1</value></property>
<property><name>hbase.master.hostname</name><value>127.0.0.1</value></property>
<property><name>hbase.regionserver.hostname</name><value>127.0.0.1</value></property>
$extra</configuration>
EOF
cat > "$dir/conf/log4j2.properties" <<EOF
status = error
rootLogger.level = info
rootLogger.appenderRef.f.ref = f
appender.f.type = File
appender.f.name = f
appender.f.fileName = $dir/hbase.log
appender.f.append = false
appender.f.layout.type = PatternLayout
appender.f.layout.pattern = %d{ISO8601} %-5p [%t] %c{2}: %m%n
EOF
# What Hadoop's and HBase's reflection needs on Java 17.
opens=()
for p in java.lang java.nio sun.nio.ch java.lang.reflect java.util java.util.concurrent; do opens+=("--add-opens=java.base/$p=ALL-UNNAMED"); done
for p in jdk.internal.misc sun.net.dns sun.net.util; do opens+=("--add-exports=java.base/$p=ALL-UNNAMED"); done
: > "$dir/hbase.log"
cd "$dir"
setsid java -Xmx"$heap" -Djava.security.manager=allow "${opens[@]}" -Djava.io.tmpdir="$dir/tmp" -cp "$dir/conf:$lib/*" \
  org.apache.hadoop.hbase.master.HMaster start > "$dir/hbase.out" 2>&1 < /dev/null &
pid=$!
echo $pid > "$dir/pid"
for _ in $(seq $((wait * 5))); do
  if grep -q 'Master has completed initialization' "$dir/hbase.log"; then
    echo "{\"event\":\"ready\",\"zookeeper\":\"127.0.0.1:$zk\",\"master\":\"127.0.0.1:$master\",\"region_servers\":[\"127.0.0.1:$rs\"],\"pid\":$pid}"
    exit 0
  fi
  kill -0 $pid 2>/dev/null || { echo "HBase ended; see $dir/hbase.log and $dir/hbase.out" >&2; tail -5 "$dir/hbase.out" >&2; exit 1; }
  sleep 0.2
done
echo "HBase not ready after $wait s; see $dir/hbase.log" >&2
stop "$dir"
exit 1
