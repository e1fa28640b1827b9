#!/bin/bash
# ns.sh: the init of the test cluster's namespaces. Only up.sh starts it.
set -uo pipefail
. "$(dirname "$0")/env.sh"; cd "$KT"
cgroot=/kt-$(basename "$KT" | tr -dc a-z0-9)
run() { local n=$1; shift; "$@" >> log/$n.log 2>&1 < /dev/null & }
trap 'kill $(jobs -p) 2>/dev/null; exit 0' TERM INT
if [ "$NETNS" ]; then # a private network, invisible from outside and removed with the namespace; the node is 10.231.8.1
  ip link set lo up; ip link add kt0 type veth peer name kt1; ip link set kt1 up; ip addr add 10.231.8.1/24 dev kt0; ip link set kt0 up
  ip route add default dev kt0; echo 1 > /proc/sys/net/ipv4/ip_forward
fi
API_BIND=127.0.0.1; [ "$NETNS" ] && API_BIND=0.0.0.0 # in that network, only pods can reach it at the node's address
# etcd comes from the Go module, because Debian's version is missing features that the watch cache needs: a watch
# without a version stalls.
run etcd $H etcd --data-dir etcd --name kt --listen-client-urls http://127.0.0.1:$ETCD_PORT --advertise-client-urls http://127.0.0.1:$ETCD_PORT \
  --listen-peer-urls http://127.0.0.1:$((ETCD_PORT+1)) --initial-advertise-peer-urls http://127.0.0.1:$((ETCD_PORT+1)) --initial-cluster kt=http://127.0.0.1:$((ETCD_PORT+1)) --unsafe-no-fsync
run apiserver $H apiserver --etcd-servers=http://127.0.0.1:$ETCD_PORT --bind-address=$API_BIND --secure-port=$API_PORT --tls-cert-file=pki/server.crt --tls-private-key-file=pki/server.key \
  --endpoint-reconciler-type=none --service-cluster-ip-range=10.96.0.0/24 --token-auth-file=tokens.csv --authorization-mode=Node,RBAC \
  --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=pki/sa.key --service-account-signing-key-file=pki/sa.key \
  --kubelet-preferred-address-types=Hostname
for _ in $(seq 600); do curl -sfk https://127.0.0.1:$API_PORT/livez > /dev/null && break; sleep 0.1; done
run kcm $H controller-manager --kubeconfig=kcm.conf --authentication-kubeconfig=kcm.conf --authorization-kubeconfig=kcm.conf --bind-address=127.0.0.1 --secure-port=$((API_PORT+1)) \
  --service-account-private-key-file=pki/sa.key --root-ca-file=pki/server.crt --leader-elect=false --use-service-account-credentials=true --cert-dir=pki/kcm \
  --controllers="${KCM_CONTROLLERS-job-controller,cronjob-controller,garbage-collector-controller,pod-garbage-collector-controller,namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,node-lifecycle-controller,taint-eviction-controller,ttl-after-finished-controller,resourcequota-controller,disruption-controller}" $KCM_FLAGS
run scheduler $H scheduler --kubeconfig=sched.conf --authentication-kubeconfig=sched.conf --authorization-kubeconfig=sched.conf --bind-address=127.0.0.1 --secure-port=$((API_PORT+2)) --leader-elect=false --cert-dir=pki/sched
[ "$MODE" = node ] && . "$here/node.sh"
while :; do wait; sleep 1; done
