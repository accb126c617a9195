#!/bin/bash
# Two real HBase masters (one active, one backup), a region server and a ZooKeeper, each a process of its own, data below DIR.
#   run.sh start DIR [ZK MASTER0 MASTER1 RS]   start all on these ports (default 12181 16100 16101 16120); returns when a master is
#                                              initialized, printing where they are
#   run.sh kill DIR N         kill -9 of master N, 0 or 1
#   run.sh restart DIR N      starts it again; returns at once
#   run.sh stop DIR           kill -9 of all
# Environment: CADASTRE_TEST_CACHE   where HBase's jars are kept (default $HOME/.cache/cadastre-tests)
#              MASTER_SESSION_MS     after how long a killed master is missed (default 6000)
# Needs Java 17, and Maven for the first time. Logs are DIR/NAME.log.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2; }
[ $# -ge 2 ] || usage
command=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
shift 2

# Another one's process may have the number by now.
ours() { [ -f "$dir/$1.pid" ] && grep -qsF "$dir/$1/conf" "/proc/$(cat "$dir/$1.pid")/cmdline"; }

end() {
  ours "$1" || return 0
  local pid
  pid=$(cat "$dir/$1.pid")
  kill -9 "$pid"
  # Gone, or a zombie where nothing reaps.
  for _ in $(seq 250); do grep -q '^State:[[:space:]]*[^Z]' "/proc/$pid/status" 2>/dev/null || break; sleep 0.02; done
}

property() { echo "<property><name>$1</name><value>$2</value></property>"; }

# NAME PORT SESSION_MS: a process's own configuration.
configure() {
  mkdir -p "$dir/$1/conf" "$dir/$1/tmp"
  {
    echo '<configuration>'
    property hbase.cluster.distributed true
    property hbase.rootdir "file://$dir/root"
    property hbase.tmp.dir "$dir/$1/tmp"
    # With checksums, what was written last lies in the process and is lost with it.
    property fs.file.impl org.apache.hadoop.fs.RawLocalFileSystem
    property hbase.wal.provider filesystem
    property hbase.unsafe.stream.capability.enforce false
    property hbase.zookeeper.quorum 127.0.0.1
    property hbase.zookeeper.property.clientPort "$zk"
    property zookeeper.session.timeout "$3"
    property hbase.master.port "$2"
    property hbase.regionserver.port "$2"
    property hbase.master.info.port -1
    property hbase.regionserver.info.port -1
    property hbase.master.hostname 127.0.0.1
    property hbase.regionserver.hostname 127.0.0.1
    property hbase.master.wait.on.regionservers.mintostart 1
    property hbase.master.wait.on.regionservers.interval 200
    property hbase.master.wait.on.regionservers.timeout 1000
    property hbase.regionserver.handler.count 10
    echo '</configuration>'
  } > "$dir/$1/conf/hbase-site.xml"
  cat > "$dir/$1/conf/log4j2.properties" <<LOG
status = error
rootLogger.level = info
rootLogger.appenderRef.f.ref = f
appender.f.type = File
appender.f.name = f
appender.f.fileName = $dir/$1.log
appender.f.append = true
appender.f.layout.type = PatternLayout
appender.f.layout.pattern = %d{ISO8601} %-5p [%t] %c{2}: %m%n
LOG
}

# NAME HEAP CLASS WORD...
launch() {
  local name=$1 heap=$2 lib opens=()
  shift 2
  lib=$("$here/../../benches/hbase/fetch.sh" server)
  for p in java.lang java.nio sun.nio.ch java.lang.reflect java.util java.util.concurrent; do opens+=("--add-opens=java.base/$p=ALL-UNNAMED"); done
  for p in jdk.internal.misc sun.net.dns sun.net.util; do opens+=("--add-exports=java.base/$p=ALL-UNNAMED"); done
  setsid java -Xmx"$heap" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.security.manager=allow "${opens[@]}" \
    -Djava.io.tmpdir="$dir/$name/tmp" -cp "$dir/$name/conf:$lib/*" "$@" >> "$dir/$name.out" 2>&1 < /dev/null &
  echo $! > "$dir/$name.pid"
}

master() { launch "master$1" 384m org.apache.hadoop.hbase.master.HMaster start; }

case $command in
  start)
    read -r zk m0 m1 rs <<< "${1:-12181} ${2:-16100} ${3:-16101} ${4:-16120}"
    began=$(date +%s)
    mkdir -p "$dir/zookeeper/conf" "$dir/zookeeper/tmp" "$dir/zookeeper/data"
    printf 'dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\ntickTime=500\nmaxSessionTimeout=60000\nmaxClientCnxns=0\nadmin.enableServer=false\n' \
      "$dir/zookeeper/data" "$zk" > "$dir/zookeeper/conf/zoo.cfg"
    configure master0 "$m0" "${MASTER_SESSION_MS:-6000}"
    configure master1 "$m1" "${MASTER_SESSION_MS:-6000}"
    # A machine that stalls should not cost it its regions.
    configure regionserver "$rs" 60000
    echo "$zk $m0 $m1 $rs" > "$dir/ports"
    launch zookeeper 128m org.apache.zookeeper.server.ZooKeeperServerMain "$dir/zookeeper/conf/zoo.cfg"
    master 0
    master 1
    launch regionserver 384m org.apache.hadoop.hbase.regionserver.HRegionServer start
    for _ in $(seq 900); do
      if grep -qs 'Master has completed initialization' "$dir"/master?.log; then
        echo "READY zookeeper=127.0.0.1:$zk masters=127.0.0.1:$m0,127.0.0.1:$m1 region_server=127.0.0.1:$rs after $(($(date +%s) - began)) s"
        exit 0
      fi
      for name in zookeeper master0 master1 regionserver; do
        ours $name || { echo "$name ended; see $dir/$name.log and $dir/$name.out" >&2; tail -5 "$dir/$name.out" >&2; "$0" stop "$dir"; exit 1; }
      done
      sleep 0.2
    done
    echo "no master is ready; see $dir/master0.log" >&2
    "$0" stop "$dir"
    exit 1
    ;;
  kill) [ $# -eq 1 ] || usage; end "master$1" ;;
  restart) [ $# -eq 1 ] || usage; end "master$1"; master "$1" ;;
  stop) for name in master0 master1 regionserver zookeeper; do end $name; done ;;
  *) usage ;;
esac
