#!/bin/bash
# up.sh [control|node]: starts a throwaway Kubernetes for tests, as root, in separate namespaces.
#   control: etcd, kube-apiserver, controller-manager and scheduler (pods stay Pending unless the test acts as kubelet)
#   node:    the same, and a real node: containerd (separate from Docker's, with its own root, state, sockets), kubelet
# One process (PID in $KT/ns.pid) is the init of its PID namespace. down.sh kills it, and with it all others.
# Variables: KT=dir, NETNS= (empty: use the machine's network instead of a private one), FAST=1 (detect a lost node in
#        6 s instead of 50), OWNER=pid (end the cluster with that process), LIFE=seconds (end it after that time)
set -euo pipefail
. "$(dirname "$0")/env.sh"
export MODE=${1:-node} NETNS=${NETNS-1}
export API_PORT=${API_PORT:-16443} ETCD_PORT=${ETCD_PORT:-12379} SNAPSHOTTER=${SNAPSHOTTER:-overlayfs} POD_CIDR=${POD_CIDR:-10.231.7.0/24}
if [ "${FAST-}" ]; then KCM_FLAGS="--node-monitor-grace-period=6s --node-monitor-period=1s ${KCM_FLAGS-}" NODE_LEASE=4 NODE_STATUS_UPDATE=2s; fi
export KCM_FLAGS=${KCM_FLAGS-} NODE_LEASE=${NODE_LEASE-40} NODE_STATUS_UPDATE=${NODE_STATUS_UPDATE-10s}
if [ -s "$KT/ns.pid" ] && kill -0 "$(cat "$KT/ns.pid")" 2>/dev/null; then echo "already up: $KT"; exit 0; fi
rm -rf "$KT"; mkdir -p "$KT"/{log,pki,etcd,sock}; chmod 700 "$KT"; cd "$KT"
tok() { head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
A=$(tok) C=$(tok) S=$(tok) N=$(tok) D=$(tok)
printf '%s\n' "$A,admin,admin,\"system:masters\"" "$C,system:kube-controller-manager,kcm" "$S,system:kube-scheduler,sched" "$N,system:node:localhost,node,\"system:nodes\"" "$D,retake-director,director" > tokens.csv
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out pki/sa.key 2>/dev/null
openssl req -x509 -newkey rsa:2048 -nodes -keyout pki/server.key -out pki/server.crt -days 30 -subj /CN=kt \
  -addext 'subjectAltName=IP:127.0.0.1,IP:10.231.8.1,DNS:localhost,DNS:kubernetes.default.svc' -addext basicConstraints=critical,CA:TRUE 2>/dev/null
kc() { printf 'apiVersion: v1\nkind: Config\nclusters: [{name: kt, cluster: {server: "https://127.0.0.1:%s", certificate-authority: %s/pki/server.crt}}]\nusers: [{name: u, user: {token: %s}}]\ncontexts: [{name: kt, context: {cluster: kt, user: u}}]\ncurrent-context: kt\n' "$API_PORT" "$KT" "$2" > "$1"; }
kc kubeconfig $A; kc kcm.conf $C; kc sched.conf $S; kc node.conf $N; kc director.conf $D # director.conf: a user with only the rights that a test grants
setsid unshare ${NETNS:+--net} --mount --propagation private --pid --fork --kill-child --mount-proc bash "$here/ns.sh" > log/ns.log 2>&1 < /dev/null &
u=$!; p=; for _ in $(seq 50); do p=$(pgrep -P $u || true); [ -n "$p" ] && break; sleep 0.1; done; echo "$p" > ns.pid
if [ "${OWNER-}${LIFE-}" ]; then
  setsid bash -c "e=\$((SECONDS+${LIFE-999999})); while [ -e '$KT/ns.pid' ] && [ \$SECONDS -lt \$e ] && { [ -z '${OWNER-}' ] || kill -0 ${OWNER-} 2>/dev/null; }; do sleep 1; done; [ -e '$KT/ns.pid' ] && KT='$KT' bash '$here/down.sh'" > /dev/null 2>&1 < /dev/null &
fi
t0=${EPOCHREALTIME/./}; since() { echo "$1 after $(( (${EPOCHREALTIME/./} - t0) / 1000 )) ms"; }
api() { ${NETNS:+nsenter -t "$p" -n} curl -sf --cacert pki/server.crt -H "Authorization: Bearer $A" "https://127.0.0.1:$API_PORT$1"; }
ready() { api /api/v1/nodes/localhost | tr -d ' \n' | grep '"type":"Ready","status":"True"' > /dev/null; } # fields in the kubelet's order
wait_for() { local n=$1; shift; for _ in $(seq $((n * 5))); do "$@" > /dev/null 2>&1 && return 0; kill -0 "$p" 2>/dev/null || break; sleep 0.2; done
  echo "failed to start: $*; the logs are in $KT/log" >&2; KEEP=1 bash "$here/down.sh"; exit 1; }
wait_for 120 api /readyz; since "apiserver ready"
wait_for 60 api /api/v1/namespaces/default/serviceaccounts/default; since "controllers working"
[ "$MODE" = node ] && { wait_for 120 ready; since "node Ready"; }
echo "export KUBECONFIG=$KT/kubeconfig   # and run clients through $here/run.sh"
