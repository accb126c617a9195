#!/bin/bash
# A server's life with 10,000 connections: start on an empty directory, connections with ordinary calls meanwhile, badinput.py, a second
# process on the same data, SIGTERM, a restart, and `cluster` files that are damaged or of a newer format.
#   connections.sh --binary PATH [--connections N] [--keep DIR] [--skip-badinput]
# PATH start --data DIR --json --zookeeper-port 0 --master-port 0 --region-server-port 0 --admin-port 0 must print one JSON line with
# "event":"ready", "pid", "zookeeper", "master" and "region_servers" (and may print "admin").
# --keep: data and server logs stay there (after a failure they stay in any case).
# Needs Python 3.11 and as many open files as connections. Prints `ok NAME remark` or `FAIL NAME reason`, and last "N passed, N failed".
# Exit code: 0 all passed, 1 some failed, 2 something missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
binary='' arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --skip-badinput) arguments+=("$1"); shift ;;
    --binary | --connections | --keep)
      [ $# -ge 2 ] || usage
      if [ "$1" = --binary ]; then binary=$2; else arguments+=("$1" "$2"); fi
      shift 2 ;;
    *) usage ;;
  esac
done
[ -n "$binary" ] || usage
[ -x "$binary" ] || { echo "not an executable: $binary" >&2; exit 2; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo 'missing: python3, 3.11 or later' >&2; exit 2; }
PYTHONDONTWRITEBYTECODE=1 exec python3 "$here/connections.py" --binary "$(realpath "$binary")" "${arguments[@]}"
