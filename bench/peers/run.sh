#!/bin/sh
# Compares our decisions with river on PostgreSQL and asynq on Redis: make bench-peers. The script starts both servers
# in a temporary directory, on Unix sockets only, and stops them at the end.
#
# Environment:
#   GO    the go command (default: go)
#   OURS  file with figures from make bench (default: the script measures them)
#
# Exit code: 0 if every goal is met, 1 if one is missed, 2 if a server is missing or a measurement failed.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
: "${GO:=go}" "${OURS:=}"

missing=
pg=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$pg" ] || pg=$(dirname "$(command -v initdb || echo /nowhere/initdb)")
[ -x "$pg/initdb" ] && [ -x "$pg/postgres" ] || missing="PostgreSQL (apt-get install postgresql)"
command -v redis-server >/dev/null && command -v redis-cli >/dev/null || missing="$missing${missing:+, and }Redis (apt-get install redis-server)"
as=
if [ "$(id -u)" = 0 ]; then # PostgreSQL refuses to run as root
  id postgres >/dev/null 2>&1 || missing="$missing${missing:+, and }a user named postgres"
  as="setpriv --reuid=postgres --regid=postgres --clear-groups --"
fi
if [ -n "$missing" ]; then echo "bench-peers needs $missing" >&2; exit 2; fi

work=$(mktemp -d "${TMPDIR:-/tmp}/retake-peers-XXXXXX")
pids=
finish() {
  code=$?
  trap - EXIT
  for pid in $pids; do kill -INT "$pid" 2>/dev/null || true; done # on INT, PostgreSQL does not wait for its clients
  for pid in $pids; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
  exit "$code"
}
trap finish EXIT
trap 'exit 2' INT TERM HUP
fail() { echo "bench-peers: $1" >&2; tail -n 20 "$work"/*.log >&2; exit 2; }

# await WHAT CMD...: waits up to 20 s until CMD succeeds.
await() {
  what=$1; shift
  for _ in $(seq 100); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
  fail "$what does not answer"
}

echo "on $(df -T "$work" | awk 'NR==2 {print $2}') at $work, $(nproc) processors"
case $(df -T "$work" | awk 'NR==2 {print $2}') in tmpfs|ramfs) fail "this file system is in memory, where fsync is free: set TMPDIR to a directory on a disk";; esac
(cd "$root/bench/peers" && "$GO" build -o "$work/peers" .) || { echo "bench-peers: cannot build bench/peers" >&2; exit 2; }

if [ -z "$OURS" ]; then
  OURS=$work/ours.json
  # The exit code also reports missed goals, which do not matter here.
  (cd "$root" && "$GO" run ./internal/bench/cmd/bench -quick -only decisions -json "$OURS") || [ -s "$OURS" ] || fail "cannot measure our own decisions"
fi

chmod 711 "$work"
mkdir "$work/pg" "$work/redis"
[ -z "$as" ] || chown postgres: "$work/pg"
$as "$pg/initdb" -D "$work/pg/data" -U peers -A trust -E UTF8 --locale=C >"$work/initdb.log" 2>&1 || fail "initdb failed"
# These settings concern only the socket, memory and checkpoints. fsync and full_page_writes stay on, and the program
# sets synchronous_commit for each measurement.
$as "$pg/postgres" -D "$work/pg/data" -k "$work/pg" -c listen_addresses= -c shared_buffers=512MB -c max_wal_size=4GB -c checkpoint_timeout=30min >"$work/postgres.log" 2>&1 &
pids="$pids $!"
redis-server --port 0 --unixsocket "$work/redis/socket" --dir "$work/redis" --save '' --appendonly yes --auto-aof-rewrite-percentage 0 >"$work/redis.log" 2>&1 &
pids="$pids $!"
await PostgreSQL "$pg/pg_isready" -h "$work/pg" -U peers -d postgres
await Redis redis-cli -s "$work/redis/socket" ping

code=0
"$work/peers" -postgres "host=$work/pg user=peers dbname=postgres" -redis "$work/redis/socket" -ours "$OURS" || code=$?
exit "$code"
