#!/bin/bash
# test.sh ARGUMENTS OF go test...: runs tests that need a real node, on a throwaway cluster. If the binary (build.sh) is
# missing, the script prints a message, and fails only with RETAKE_REQUIRE_KUBE=1. It needs root, containerd and runc
# (both from docker.io), openssl, curl, iproute2 and util-linux.
set -euo pipefail
. "$(dirname "$0")/env.sh"
export KT=$(mktemp -d /tmp/retake-kube-XXXXXX) FAST=1
why=
CHECK=1 "$here/build.sh" > /dev/null || why="Kubernetes is not built: run make kube-build once"
[ "$(id -u)" = 0 ] || why="it needs root"
command -v containerd runc openssl curl ip nsenter > /dev/null || why="it needs containerd, runc, openssl, curl, ip and nsenter"
if [ -n "$why" ]; then rmdir "$KT"; echo "skipped tests on a real Kubernetes: $why"; [ "${RETAKE_REQUIRE_KUBE-}" != 1 ]; exit; fi
"$here/images.sh" > /dev/null
OWNER=$$ LIFE=${LIFE-1800} "$here/up.sh" node
trap '"$here/down.sh"' EXIT
cd "$here/../.."
"$here/run.sh" go test "$@"
