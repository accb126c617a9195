#!/bin/bash
# What a server comes back from: kill -9 in the middle of tables being made, changed and dropped; data directories with damaged files; a
# disk that fills up (needs root, to mount a file system in a file; else it says so and goes on).
#   recovery.sh --binary PATH [--seconds S] [--seed N] [--only ddl|damage|disk] [--all] [--keep DIR]
# --seconds: for the kills and for the damages, each (default 15). --all: every damage, however long it takes. --keep: data and logs stay there.
# Needs Python 3.11. Prints `ok NAME remark` or `FAIL NAME reason`, and last "N passed, N failed".
# Exit code: 0 all passed, 1 some failed, 2 something missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
binary='' arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --all) arguments+=("$1"); shift ;;
    --binary | --seconds | --seed | --only | --keep)
      [ $# -ge 2 ] || usage
      if [ "$1" = --binary ]; then binary=$2; else arguments+=("$1" "$2"); fi
      shift 2 ;;
    *) usage ;;
  esac
done
[ -n "$binary" ] || usage
[ -x "$binary" ] || { echo "not an executable: $binary" >&2; exit 2; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo 'missing: python3, 3.11 or later' >&2; exit 2; }
PYTHONDONTWRITEBYTECODE=1 exec python3 "$here/recovery.py" --binary "$(realpath "$binary")" "${arguments[@]}"
