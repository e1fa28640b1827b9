#!/bin/bash
# run.sh CMD...: runs CMD with KUBECONFIG set, inside the cluster's network. Pods can reach a server that CMD starts on
# 10.231.8.1.
. "$(dirname "$0")/env.sh"; export KUBECONFIG=${KUBECONFIG-$KT/kubeconfig} RETAKE_TEST_KUBE=$KT; n=$(cat "$KT/ns.pid") || exit 1
[ "$(readlink /proc/self/ns/net)" = "$(readlink "/proc/$n/ns/net")" ] && exec "$@"
exec nsenter -t "$n" -n "$@"
