#!/bin/bash
# Kills a server with kill -9 under load from HBase's own client, again and again, and checks that nothing acknowledged is lost.
#   run.sh --binary PATH [--rounds N] [--lanes N] [--max-seconds S] [--writers N] [--seed N] [--start-seconds S] [--keep DIR]
#   run.sh --self-test       the checker against hand-made faulty histories
#   run.sh --check JOURNAL   the checker against a kept journal
# PATH start --data DIR --json --zookeeper-port P --master-port P --region-server-port P --admin-port 0 must print one JSON line with "event":"ready" and "pid".
# --rounds 10, --max-seconds 120, --writers 6, --start-seconds 60 (how long a start may take) unless given; --seed: at random.
# --lanes 1: so many servers at the same time, each with its part of the rounds, its own load, ports and folder, and the seed plus its number.
# --keep: data, journal and server log stay there (after a failure they stay in any case).
# Environment: CADASTRE_TEST_CACHE   downloads and compiled classes (default $HOME/.cache/cadastre-tests)
# Prints last "N passed, N failed". Exit code: 0 all passed, 1 some failed, 2 something missing.
set -euo pipefail
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${CADASTRE_TEST_CACHE:-$HOME/.cache/cadastre-tests}
binary='' rounds=10 lanes=1 seconds=120 writers=6 seed=$((RANDOM * 32768 + RANDOM)) start=60 keep='' self_test='' check=''
while [ $# -gt 0 ]; do
  if [ "$1" = --self-test ]; then self_test=1; shift; continue; fi
  [ $# -ge 2 ] || usage
  case $1 in
    --binary) binary=$2 ;;
    --rounds) rounds=$2 ;;
    --lanes) lanes=$2 ;;
    --max-seconds) seconds=$2 ;;
    --writers) writers=$2 ;;
    --seed) seed=$2 ;;
    --start-seconds) start=$2 ;;
    --keep) keep=$2 ;;
    --check) check=$2 ;;
    *) usage ;;
  esac
  shift 2
done
command -v javac >/dev/null || { echo 'missing: a JDK, Java 17 or later' >&2; exit 2; }
mkdir -p "$cache/kill"
classes() { # sources..., compiled once into a folder named by their hash
  local stamp; stamp=$(cat "$@" | sha256sum | cut -c1-16)
  if [ ! -d "$cache/kill/$stamp" ]; then
    rm -rf "$cache/kill/new.$$"
    javac -nowarn -Xlint:none -d "$cache/kill/new.$$" -cp "$cache/java2/lib/*" "$@"
    mv -T "$cache/kill/new.$$" "$cache/kill/$stamp" 2>/dev/null || rm -rf "$cache/kill/new.$$"
  fi
  echo "$cache/kill/$stamp"
}
if [ -n "$self_test" ]; then exec java -cp "$(classes "$here/Checker.java")" Checker --self-test "$here/histories.txt"; fi
if [ -n "$check" ]; then exec java -cp "$(classes "$here/Checker.java")" Checker "$check"; fi
[ -n "$binary" ] || usage
[ -x "$binary" ] || { echo "not an executable: $binary" >&2; exit 2; }
"$here/../clients/run.sh" --only java2-zk --fetch-only
dir=$(classes "$here"/*.java)
if [ -n "$keep" ]; then
  work=$(realpath -m "$keep")
  if [ -d "$work/data" ]; then echo "$work holds data already" >&2; exit 2; fi
  mkdir -p "$work"
else
  work=$(mktemp -d "${TMPDIR:-/tmp}/cadastre-kill.XXXXXX")
fi
lane() { # its number; keeps what it says in its folder
  local own=$work rc=0 part=$((rounds / lanes + ($1 < rounds % lanes)))
  if [ "$lanes" -gt 1 ]; then own=$work/lane-$1; mkdir -p "$own"; fi
  # Bounded from outside too: the last round may take its time, a hanging client may not.
  timeout -k 10 $((seconds + 400)) java -Xmx512m -cp "$dir:$here/../clients:$cache/java2/lib/*" Kill --binary "$(realpath "$binary")" --rounds "$part" \
    --max-seconds "$seconds" --writers "$writers" --seed $((seed + $1)) --start-seconds "$start" --work "$own" 2> "$own/client.log" \
    | { if [ "$lanes" -gt 1 ]; then sed -u "s/^/lane $1: /"; else cat; fi; } | tee "$own/said" || rc=$?
  # Whoever ends without having counted has failed.
  if ! tail -n 1 "$own/said" | grep -q ' passed, '; then
    tail -n 20 "$own/client.log" >&2
    echo '0 passed, 1 failed' | tee -a "$own/said"
    rc=1
  fi
  return $rc
}
jobs=()
for ((n = 0; n < lanes; n++)); do lane "$n" & jobs+=($!); done
rc=0
for job in "${jobs[@]}"; do wait "$job" || rc=1; done
if [ "$lanes" -gt 1 ]; then
  # The sums of all lanes.
  cat "$work"/lane-*/said | awk '
    / rounds, .* acknowledged/ { for (i = 2; i <= NF; i++) { if ($i == "rounds,") r += $(i - 1); if ($i == "acknowledged,") a += $(i - 1) } }
    / passed, [0-9]+ failed$/ { p += $(NF - 3); f += $(NF - 1) }
    END { print r + 0 " rounds, " a + 0 " acknowledged"; print p + 0 " passed, " f + 0 " failed" }'
fi
if [ $rc = 0 ]; then [ -n "$keep" ] || rm -rf "$work"; else echo "kept: $work" >&2; fi
exit $rc
