#!/bin/bash
# fleet.sh: runs FLEET (2000) attempts on a throwaway cluster with fake nodes (kwok), which only report that pods run.
# If the cluster's binary (build.sh) is missing, the script prints a message.
set -euo pipefail
. "$(dirname "$0")/env.sh"
FLEET=${FLEET:-2000} kwok=$CACHE/kwok
if ! CHECK=1 "$here/build.sh" > /dev/null; then
  echo "skipped the fleet on fake nodes: run make kube-build once to build Kubernetes"; [ "${RETAKE_REQUIRE_KUBE-}" != 1 ]; exit
fi
[ -x "$kwok" ] || GOBIN=$CACHE GOFLAGS=-buildvcs=false nice -n 19 go install sigs.k8s.io/kwok/cmd/kwok@v0.8.0
export KT=$(mktemp -d /tmp/retake-kube-XXXXXX)
OWNER=$$ LIFE=${LIFE-3600} "$here/up.sh" control
trap '"$here/down.sh"' EXIT
nodes=$(((FLEET + 100) / 100 + 1))
for i in $(seq $nodes); do cat << X
---
apiVersion: v1
kind: Node
metadata: {name: fake-$i, annotations: {kwok.x-k8s.io/node: fake}, labels: {kubernetes.io/hostname: fake-$i, kubernetes.io/os: linux, kubernetes.io/arch: amd64}}
status: {allocatable: {cpu: "100", memory: 1000Gi, pods: "110"}, capacity: {cpu: "100", memory: 1000Gi, pods: "110"}}
X
done | "$here/run.sh" "$H" kubectl apply -f - > /dev/null
"$here/run.sh" "$kwok" --kubeconfig "$KT/kubeconfig" --manage-all-nodes --config "$here/fleet.yaml" > "$KT/log/kwok.log" 2>&1 &
trap "kill $!; '$here/down.sh'" EXIT
cd "$here/../.."
RETAKE_TEST_FLEET=$FLEET "$here/run.sh" go test -count=1 -timeout 40m -v -run TestFleetOnFakeNodes ./internal/container/kubernetes
