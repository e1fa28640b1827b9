#!/bin/bash
# down.sh: kills the namespace's init, and with it all processes of the cluster. It then removes the cluster's cgroups
# and, without KEEP=1, its files.
. "$(dirname "$0")/env.sh"; p=$(cat "$KT/ns.pid" 2>/dev/null); g=kt-$(basename "$KT" | tr -dc a-z0-9)
if [ -n "$p" ]; then kill -KILL "$p" 2>/dev/null; for _ in $(seq 50); do kill -0 "$p" 2>/dev/null || break; sleep 0.1; done; fi
for _ in 1 2 3 4 5; do find /sys/fs/cgroup/$g /sys/fs/cgroup/*/$g -depth -type d -exec rmdir {} \; 2>/dev/null; ls -d /sys/fs/cgroup/$g /sys/fs/cgroup/*/$g > /dev/null 2>&1 || break; sleep 0.2; done
[ -s "$KT/made-dirs" ] && xargs rmdir < "$KT/made-dirs" 2>/dev/null
rm -f "$KT/ns.pid"; [ "${KEEP-}" ] || rm -rf "$KT"
