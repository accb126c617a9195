#!/usr/bin/env bash
# A real HDFS HA pair on one machine: two NameNodes as processes of their own,
# one process with two DataNodes, with QJM=1 a JournalNode too.
#
#   run.sh build                     jars, classpath and class archive into the cache
#   run.sh start DIR [PORT0 PORT1]   format if DIR is new, start, make nn0 active, print READY
#   run.sh state|stop|failover DIR
#   run.sh active|standby|kill|restart|ready|pause|cont DIR N
#                                    ready: waits until N is out of start-up safemode
#   run.sh killdn|restartdn DIR
#   run.sh yardstick DIR             the proxy's long test by Hadoop's own client, until DIR/stop is there
#   run.sh load DIR CALLERS SECONDS, run.sh stalls DIR CALLERS    Hadoop's own client in bench.sh
#   run.sh put DIR PATH              writes three files of one block each
#   run.sh safemode DIR on|off|get
#   run.sh mini DIR PORT0 PORT1 DNS  both NameNodes in one JVM, commands on stdin
#
# CADASTRE_TEST_CACHE  where downloads and the archive go (default ~/.cache/cadastre-tests/hdfs)
# OBSERVER_PORT  port of a third NameNode, nn2, an observer (of start; remembered)
# QJM=1       shared edits on a JournalNode: a paused old active is fenced. Needed for pause/cont
# FSYNC=1     NameNodes sync each edit to disk
# XMX         heap of each process (default 256m)
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${CADASTRE_TEST_CACHE:-${HOME:-/tmp}/.cache/cadastre-tests/hdfs}
VER=$(sed -n 's:.*<hadoop.version>\(.*\)</hadoop.version>.*:\1:p' "$HERE/pom.xml")
C=$CACHE/hdfs-ha-$VER
# By what it is made of: other checkouts use the same cache.
STAMP=$(sha256sum "$HERE/src/main/java/HdfsHa.java" | cut -c1-12)
JAR=$C/hdfs-ha-$STAMP.jar
JSA=$C/hdfs-ha-$STAMP.jsa
OPTS="-Xmx${XMX:-256m} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"

build() {
  mkdir -p "$C"
  exec 9>"$C/.lock"
  flock 9
  if [ ! -s "$C/cp.txt" ]; then
    mvn -q -B -f "$HERE/pom.xml" -Dmaven.repo.local="$CACHE/m2" \
      dependency:build-classpath -Dmdep.outputFile="$C/cp.tmp" >&2
    mv "$C/cp.tmp" "$C/cp.txt"
  fi
  if [ ! -s "$JAR" ]; then
    find "$C" -name '*.jsa' -mtime +30 -delete
    rm -rf "$C/out"
    mkdir -p "$C/out"
    javac -d "$C/out" -cp "$(cat "$C/cp.txt")" "$HERE/src/main/java/HdfsHa.java"
    jar cf "$C/new.jar" -C "$C/out" .
    mv "$C/new.jar" "$JAR"
  fi
  if [ ! -s "$JSA" ]; then
    # one short life of a NameNode writes the class archive: starts need a third less CPU after that
    local d
    d=$(mktemp -d)
    java $OPTS -cp "$(cat "$C/cp.txt"):$JAR" HdfsHa format "$d" 18990 18991 >/dev/null 2>&1
    java $OPTS -XX:ArchiveClassesAtExit="$C/ha.tmp" -cp "$(cat "$C/cp.txt"):$JAR" HdfsHa nn "$d" 0 0 0 >"$d/log" 2>&1 &
    local p=$!
    for _ in $(seq 600); do grep -q UP "$d/log" && break; kill -0 $p 2>/dev/null || break; sleep 0.1; done
    kill $p 2>/dev/null || true
    wait $p 2>/dev/null || true
    rm -rf "$d"
    if [ -s "$C/ha.tmp" ]; then mv -f "$C/ha.tmp" "$JSA"; fi
  fi
  exec 9>&-
}

java_() {
  local x=""
  [ -s "$JSA" ] && x="-XX:SharedArchiveFile=$JSA"
  exec java $OPTS $x -cp "$(cat "$C/cp.txt"):$JAR" HdfsHa "$@"
}

rpc() { python3 "$HERE/hdfs_rpc.py" "$@"; }
port() { cut -d' ' -f$(($2 + 1)) "$1/ports"; }

# launch DIR NAME COMMAND [ARG]
launch() {
  local d=$1 name=$2 cmd=$3
  shift 3
  : >"$d/$name.log"
  (java_ "$cmd" "$d" $(cat "$d/ports") "$@") >"$d/$name.log" 2>"$d/$name.err" </dev/null &
  echo $! >"$d/$name.pid"
}

# await DIR NAME WORD
await() {
  for _ in $(seq 3000); do
    grep -q "$3" "$1/$2.log" && return 0
    kill -0 "$(cat "$1/$2.pid")" 2>/dev/null || { echo "$2 died:" >&2; tail -5 "$1/$2.err" >&2; return 1; }
    sleep 0.1
  done
  echo "$2 did not come up" >&2
  return 1
}

end() { # DIR NAME SIGNAL
  local p
  [ -f "$1/$2.pid" ] || return 0
  p=$(cat "$1/$2.pid")
  # the pid must still be ours
  if [ -r "/proc/$p/cmdline" ] && tr '\0' ' ' <"/proc/$p/cmdline" | grep -q "HdfsHa .* $1 "; then
    kill -"$3" "$p"
    if [ "$3" = KILL ]; then
      # gone, or a zombie where nothing reaps
      for _ in $(seq 100); do grep -q '^State:[[:space:]]*[^Z]' "/proc/$p/status" 2>/dev/null || break; sleep 0.02; done
    fi
  fi
}

cmd=${1:-}
shift || true
if [ -z "${OBSERVER_PORT:-}" ] && [ -f "${1:-}/observer" ]; then OBSERVER_PORT=$(cat "$1/observer"); fi
if [ -n "${OBSERVER_PORT:-}" ]; then export OBSERVER_PORT; fi
case $cmd in
  build) build ;;
  start)
    mkdir -p "$1"
    D=$(cd "$1" && pwd)
    t=$(date +%s%N)
    build
    [ -f "$D/ports" ] || echo "${2:-18020} ${3:-18021}" >"$D/ports"
    if [ -n "${OBSERVER_PORT:-}" ]; then echo "$OBSERVER_PORT" >"$D/observer"; fi
    if [ -n "${QJM:-}" ]; then launch "$D" jn jn; await "$D" jn "JN UP"; fi
    if [ ! -d "$D/nn0" ]; then
      (java_ format "$D" $(cat "$D/ports")) >"$D/format.log" 2>&1 || { tail -5 "$D/format.log" >&2; exit 1; }
    fi
    launch "$D" nn0 nn 0
    launch "$D" nn1 nn 1
    launch "$D" dn dn 2
    if [ -n "${OBSERVER_PORT:-}" ]; then launch "$D" nn2 nn 2; fi
    await "$D" nn0 "NN0 UP"
    await "$D" nn1 "NN1 UP"
    if [ -n "${OBSERVER_PORT:-}" ]; then await "$D" nn2 "NN2 UP"; fi
    await "$D" dn "DNS UP"
    rpc "$(port "$D" 0)" active >/dev/null
    if [ -n "${OBSERVER_PORT:-}" ]; then rpc "$OBSERVER_PORT" observer >/dev/null; fi
    rpc "$(port "$D" 0)" ready 2 60
    echo "READY ns=peer-ns nn0=$(port "$D" 0) nn1=$(port "$D" 1) conf=$D/conf secs=$((($(date +%s%N) - t) / 1000000))ms"
    ;;
  stop) D=$(cd "$1" && pwd); for n in dn nn0 nn1 nn2 jn; do end "$D" $n CONT; end "$D" $n KILL; done ;;
  state) for n in 0 1; do echo "nn$n $(rpc "$(port "$1" $n)" state 2>/dev/null || echo down)"; done ;;
  active | standby) rpc "$(port "$1" "$2")" $cmd ;;
  failover)
    a=0
    [ "$(rpc "$(port "$1" 1)" state 2>/dev/null || true)" = active ] && a=1
    rpc "$(port "$1" $a)" standby
    rpc "$(port "$1" $((1 - a)))" active
    ;;
  ready) rpc "$(port "$1" "$2")" ready 2 60 ;;
  kill) end "$(cd "$1" && pwd)" "nn$2" KILL ;;
  pause) end "$(cd "$1" && pwd)" "nn$2" STOP ;;
  cont) end "$(cd "$1" && pwd)" "nn$2" CONT ;;
  restart) D=$(cd "$1" && pwd); launch "$D" "nn$2" nn "$2"; await "$D" "nn$2" "NN$2 UP" ;;
  killdn) end "$(cd "$1" && pwd)" dn KILL ;;
  yardstick) D=$(cd "$1" && pwd); rm -f "$D/stop"; (java_ yardstick "$D" $(cat "$D/ports")) 2>"$D/yardstick.err" ;;
  load | stalls)
    # as a client has it: all of the compiler
    D=$(cd "$1" && pwd)
    OPTS="-Xmx512m"
    shift
    (java_ $cmd "$D" $(cat "$D/ports") "$@") 2>"$D/$cmd.err"
    ;;
  put) D=$(cd "$1" && pwd); (java_ put "$D" $(cat "$D/ports") "$2") >"$D/put.log" 2>&1 || { tail -5 "$D/put.log" >&2; exit 1; } ;;
  restartdn) D=$(cd "$1" && pwd); launch "$D" dn dn 2; await "$D" dn "DNS UP" ;;
  safemode)
    for n in 0 1; do
      if [ "$(rpc "$(port "$1" $n)" state 2>/dev/null || true)" = active ]; then rpc "$(port "$1" $n)" safemode "$2"; fi
    done
    ;;
  mini) build; mkdir -p "$1"; OPTS="-Xmx${XMX:-512m} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"; java_ mini "$@" ;;
  *) sed -n '2,21p' "$0"; exit 2 ;;
esac
