#!/bin/bash
# chart-test.sh: helm renders the chart with its default values and with each file in its folder ci/, and a real API
# server must accept it without unknown fields and without warnings, in a namespace with the level "restricted".
# deploy/kubernetes must equal the rendered chart, the directors' account must have exactly the rights that they need,
# and the commands in NOTES.txt must work. The script starts and ends a cluster without nodes. If the programs from
# build.sh or helm.sh are missing, it prints a message, and fails only with RETAKE_REQUIRE_KUBE=1.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
export KT=$(mktemp -d /tmp/retake-kube-XXXXXX)
cd "$here/../.."
why=
CHECK=1 "$here/build.sh" > /dev/null && CHECK=1 "$here/helm.sh" 2> /dev/null || why="Kubernetes or helm is not built: run make kube-build once"
[ "$(id -u)" = 0 ] || why="it needs root"
if [ -n "$why" ]; then rmdir "$KT"; echo "skipped the chart's test on a real API server: $why"; [ "${RETAKE_REQUIRE_KUBE-}" != 1 ]; exit; fi
chart=deploy/helm/retake ns=retake account=system:serviceaccount:retake:retake-director
t=$(mktemp -d); trap '"$here/down.sh"; rm -rf "$t"' EXIT
trap 'echo "chart-test: failed at line $LINENO" >&2' ERR
helm() { "$here/helm.sh" "$@"; }
k() { "$here/run.sh" "$H" kubectl -n $ns "$@"; }
fail() { echo "chart-test: $1" >&2; exit 1; }

helm lint --strict --quiet $chart
"$here/manifests.sh" "$t/made"
diff -r -x "*.go" deploy/kubernetes "$t/made" || fail "deploy/kubernetes differs from the rendered chart: run make kube-manifests"
echo "deploy/kubernetes equals the rendered chart"

OWNER=$$ LIFE=${LIFE-600} "$here/up.sh" control > /dev/null
k create namespace $ns > /dev/null
k label namespace $ns pod-security.kubernetes.io/enforce=restricted pod-security.kubernetes.io/warn=restricted > /dev/null
for values in "" $chart/ci/*-values.yaml; do
  helm template retake $chart -n $ns ${values:+-f $values} > "$t/all.yaml"
  k apply --server-side --dry-run=server --validate=strict -f "$t/all.yaml" > "$t/applied" 2> "$t/said" || { cat "$t/said" >&2; fail "refused with ${values:-the default values}"; }
  grep -i warning "$t/said" && fail "a warning with ${values:-the default values}"
  echo "$(wc -l < "$t/applied") objects accepted with ${values:-the default values}"
done
while read -r why sets; do
  helm template retake $chart -n $ns $sets > /dev/null 2> "$t/said" && fail "accepted $sets"
  grep -q "$why" "$t/said" || { cat "$t/said" >&2; fail "$sets: the error does not match $why"; }
done <<'X'
ReadWriteMany --set storage.accessMode=ReadWriteOnce
key.of.the.proxy --set storage.accessMode=None,worker.egress={a.example.com}
key.of.the.proxy --set storage.accessMode=None --set-string config=[containers.proxied_keys]
key.of.the.proxy --set storage.accessMode=None --set-string config=proxied_keys.KEY=1
replica --set director.replica=3
nats.url --set nats.enabled=false
replicas --set nats.replicas=2
X
echo "the chart refuses invalid values"

"$here/run.sh" "$CACHE/helm" install retake $chart -n $ns > "$t/notes"
k get role retake-director -o go-template='{{range .rules}}{{$r := index .resources 0}}{{range .verbs}}{{.}} {{$r}}{{"\n"}}{{end}}{{end}}' > "$t/granted" # make test compares it with kubernetes.Needed
k auth can-i --list --no-headers --as=$account | # includes every user's right to review their own rights
  sed -n 's/^\([a-z]*\)\(\.batch\)\?\(\/[a-z]*\)\? .*\[\([a-z ]*\)\]$/\1\3 \4/p' | while read -r r verbs; do for v in $verbs; do echo "$v $r"; done; done > "$t/may"
diff <(sort "$t/granted") <(sort "$t/may") || fail "the rights of the directors' account (>) differ from its Role (<)"
for v in get list create delete; do for r in pods jobs secrets nodes namespaces; do
  "$here/run.sh" "$H" kubectl -n default auth can-i $v $r --as=$account > /dev/null 2>&1 && fail "the directors' account may $v $r in another namespace"
done; done
echo "rights of the directors' account: $(paste -sd, "$t/may")"

sed -n '/^NOTES:/,$p' "$t/notes" > "$t/steps"
go build -o "$t/director" ./cmd/director
(
  cd "$t"
  echo token > github-token
  eval "$(sed -n '/director bus init/,/[^\\]$/p' steps | sed 's|director bus init|./director bus init|')" > /dev/null
  # shellcheck disable=SC2046 # split words
  sed -n 's/^ *kubectl -n retake \(create secret .*\)/\1/p' steps | while read -r line; do k $line --dry-run=server -o name; done > secrets
)
[ "$(sort "$t/secrets" | paste -sd' ')" = "secret/retake secret/retake-bus-director secret/retake-bus-server" ] || fail "the commands in NOTES.txt create $(cat "$t/secrets")"
echo "the commands in NOTES.txt create: $(paste -sd' ' "$t/secrets")"

"$here/run.sh" "$CACHE/helm" upgrade retake $chart -n $ns -f $chart/ci/hosts-values.yaml > /dev/null
"$here/run.sh" "$CACHE/helm" uninstall retake -n $ns > /dev/null 2>&1
left=$(k get deployments,statefulsets,services,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,persistentvolumeclaims -o name | grep -v -e configmap/kube-root-ca.crt -e serviceaccount/default || true)
[ "$left" = persistentvolumeclaim/retake-shared ] || fail "helm uninstall left: $left"
echo "installed, upgraded, uninstalled: only the directors' shared volume remains"
