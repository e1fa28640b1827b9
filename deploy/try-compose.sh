#!/bin/sh
# Tests docker-compose.yml with its demo. Retake works on issues from the fake GitHub's page and delivers them, even if
# director and nats restart. An attacking agent fails, an agent that floods the bus does not disturb others, and
# "down -v" removes everything. The script prints its checks, and exits with 0 if all pass, 1 if one fails, and 2 if it
# cannot run. It needs the images (make images), curl and a Go toolchain. Its keys, names and port are separate, so it
# does not change another stack.
#
# Environment: COMPOSE (default: docker-compose, or else "docker compose"), NATS_IMAGE, KEEP=1 leaves the stack up.
set -u
cd "$(dirname "$0")/.."

stop() { echo "try-compose: $1" >&2; exit 2; }

if [ -z "${COMPOSE:-}" ]; then
	COMPOSE="docker compose"
	if command -v docker-compose >/dev/null; then COMPOSE=docker-compose; fi
fi
command -v curl >/dev/null || stop "curl is missing: install it"
$COMPOSE version >/dev/null 2>&1 || stop "compose is missing: install docker-compose or the compose plugin, or set COMPOSE"
goroot=$(go env GOROOT 2>/dev/null) && [ -x "$goroot/bin/go" ] || stop "the Go toolchain is missing: workers need it to test the demo's work"
go=$(command -v go)
for image in retake-director retake-githubsim retake-demo-worker; do
	docker image inspect "$image:local" >/dev/null 2>&1 || stop "image $image:local is missing: run \"make images\""
done
if [ -z "${NATS_IMAGE:-}" ] && ! docker image inspect nats:2 >/dev/null 2>&1; then NATS_IMAGE=retake-nats:local; fi
export NATS_IMAGE="${NATS_IMAGE:-nats:2}"

# Use a separate stack, even if .env names one.
export RETAKE_STACK="try-$$" COMPOSE_PROJECT_NAME="retake-try-$$"
export GITHUB_TOKEN=sim-token GITHUBSIM_PORT=0
export RETAKE_DATA_SOURCE=data RETAKE_IMAGE=retake-director:local GITHUBSIM_IMAGE=retake-githubsim:local
RETAKE_DATA_DIR="$(docker info --format '{{.DockerRootDir}}')/volumes/retake-$RETAKE_STACK-data/_data"
RETAKE_CFG_CONTAINERS_MOUNTS="$goroot:/usr/local/go:ro,volume:retake-$RETAKE_STACK-gocache:/cache"
RETAKE_CFG_CONTAINERS_IMAGE=retake-try-worker:local RETAKE_CFG_GITHUB_REPOSITORIES=demo/widgets RETAKE_CFG_GITHUB_WRITES=true
RETAKE_CFG_DIRECTOR_MAX_WORKERS=3
export RETAKE_DATA_DIR RETAKE_CFG_CONTAINERS_MOUNTS RETAKE_CFG_CONTAINERS_IMAGE RETAKE_CFG_GITHUB_REPOSITORIES
export RETAKE_CFG_GITHUB_WRITES RETAKE_CFG_DIRECTOR_MAX_WORKERS

compose() { $COMPOSE --profile demo "$@" 2>&1; }
work=$(mktemp -d)
export RETAKE_BUS_KEYS="$work/keys" RETAKE_CONFIG="$work/compose.toml"
wrong=0
watcher=
clean() {
	[ -z "$watcher" ] || kill "$watcher" 2>/dev/null
	if [ "${KEEP:-}" = 1 ]; then
		echo "left running: COMPOSE_PROJECT_NAME=$COMPOSE_PROJECT_NAME, $sim"
	else
		deploy/compose-down.sh -v >"$work/down" 2>&1 || cat "$work/down"
	fi
	if [ -d "$work/keys" ]; then # root owns the files
		docker run --rm --network none -v "$work:/work" --entrypoint /bin/rm retake-director:local -rf /work/keys
	fi
	docker image rm -f retake-try-worker:local >/dev/null 2>&1
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

check() { # TEXT COMMAND..., which succeeds if TEXT is true
	text=$1
	shift
	if "$@"; then
		echo "[ok] $text"
	else
		echo "[NO] $text"
		wrong=1
	fi
}
same() { [ "$1" = "$2" ] || { echo "     got \"$1\", want \"$2\""; false; }; }

# within SECONDS COMMAND...: repeats the command until it succeeds.
within() {
	end=$(($(date +%s) + $1))
	shift
	until "$@"; do
		[ "$(date +%s)" -lt "$end" ] || return 1
		sleep 0.5
	done
}
container() { docker ps -aq --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" --filter "label=com.docker.compose.service=$1"; }
inspect() { docker inspect --format "$2" "$(container "$1")" 2>/dev/null; }
healthy() { [ "$(inspect director '{{.State.Health.Status}}')" = healthy ]; }
workers() { docker ps -q --filter "label=retake.fleet=$RETAKE_STACK" --filter "label=retake.task=demo/widgets#$1"; }
running() { [ -n "$(workers "$1")" ]; }
events() { curl -sS "$sim/_sim/events?issue=demo/widgets%23$1"; }
count() { grep -o "$1" | wc -l | tr -d ' '; }
comments() { events "$1" | count '"actor":"retake-bot","event":"commented"'; }
created() { grep -c "\"create\" demo/widgets#$1\$" "$work/events"; }
labels() {
	curl -sS -H "Authorization: Bearer sim-token" "$sim/api/v3/repos/demo/widgets/issues/$1/labels" |
		grep -o '"name":"[^"]*"' | cut -d'"' -f4 | sort | tr '\n' ' '
}
reviewed() { [ "$(labels "$1")" = "agent-review " ]; }
pushed() { curl -sS "$sim/demo/widgets/tree/retake/$1-a1" | grep -q 'func (o Order) Discounted'; }
begun() { # the agent has started to write
	running "$1" && docker exec "$(container director)" grep -rlq "$2" "$RETAKE_DATA_DIR/tasks" --include=discount_test.go
}

# open_issue TITLE SECONDS: opens an issue on the page, as a person would. The agent takes the acceptance test from the
# text. The test sleeps, which leaves time for restarts. SECONDS must differ between issues, because Go caches test
# results.
open_issue() {
	body=$(printf '%s\n' 'Orders of 100 widgets or more get 10 % off, orders of 1000 or more get 20 %.' '' '```go' '// price/discount_test.go' \
		'package price' '' 'import (' '"testing"' '"time"' ')' '' "// $1" 'func TestDiscounted(t *testing.T) {' "time.Sleep($2 * time.Second)" \
		'if got := (Order{Pieces: 100, Each: 50}).Discounted(); got != 4500 {' 't.Errorf("got %v", got)' '}' '}' '```')
	curl -sS -o /dev/null -w '%{http_code}' --data-urlencode "title=$1" --data-urlencode "body=$body" --data-urlencode label=agent-task \
		"$sim/demo/widgets/issues"
}

# delivered N: the final checks for issue N.
delivered() {
	check "issue $1: has only the label agent-review" within 180 reviewed "$1"
	check "issue $1: had only one worker container" same "$(created "$1")" 1
	check "issue $1: all workers have ended" within 10 sh -c "[ -z \"\$(docker ps -aq --filter label=retake.fleet=$RETAKE_STACK --filter label=retake.task=demo/widgets#$1)\" ]"
	check "issue $1: has one comment by the director" same "$(comments "$1")" 1
	check "issue $1: the work is on branch retake/$1-a1" pushed "$1"
}

# middle N SERVICE SECONDS: restarts SERVICE while the worker for issue N runs.
middle() {
	check "issue $1: created on the page" same "$(open_issue "Restart of $2" "$3")" 303
	check "issue $1: a worker is working on it" within 60 begun "$1" "Restart of $2"
	worker=$(workers "$1")
	before=$(inspect director '{{.State.StartedAt}}')
	was=$(inspect "$2" '{{.State.StartedAt}}')
	compose restart "$2" >"$work/restart" || cat "$work/restart"
	check "$2 was restarted" [ "$was" != "$(inspect "$2" '{{.State.StartedAt}}')" ]
	check "the director is healthy afterwards" within 60 healthy
	check "issue $1: the same worker continues" same "$(workers "$1")" "$worker"
	[ "$2" = director ] || check "the director was not restarted" same "$(inspect director '{{.State.StartedAt}}')" "$before"
	delivered "$1"
}

# published N: prints the output of issue N's intruder from the pushed branch.
published() { docker exec "$(container githubsim)" git --git-dir /data/demo/widgets.git show "retake/$1-a1:intruder.txt"; }

echo "== without keys"
: >"$work/no.env"
refused() { ! env -u RETAKE_BUS_KEYS $COMPOSE --env-file "$work/no.env" --profile demo config >"$work/refused" 2>&1 && grep -q deploy/bus-keys.sh "$work/refused"; }
check "compose refuses to start, and names the script that creates keys" refused
mkdir -m 700 "$work/keys"
docker run --rm --network none --read-only --cap-drop ALL --cap-add DAC_OVERRIDE -v "$work/keys:/keys" retake-director:local \
	bus init /keys --host nats --store /data --server-dir /etc/nats/retake >"$work/init" 2>&1 || { cat "$work/init"; stop "cannot create keys"; }

# The image of the demo's workers, with an agent that attacks if the issue asks for it.
mkdir "$work/image"
CGO_ENABLED=0 "$go" build -trimpath -o "$work/image/intruder" ./internal/demo/intruder || stop "cannot build the intruder"
printf 'FROM retake-demo-worker:local\nCOPY intruder /intruder\n' >"$work/image/Dockerfile"
docker build -q -t retake-try-worker:local "$work/image" >/dev/null || stop "cannot build the intruder's image"
sed -e 's|^run = \["/demo-agent"\]|run = ["/intruder", "/demo-agent"]|' -e 's|CGO_ENABLED = "0" }|CGO_ENABLED = "0", INTRUDER_TARGETS = "AT" }|' deploy/compose-demo.toml >"$RETAKE_CONFIG.in"
sed 's/"AT"/""/' "$RETAKE_CONFIG.in" >"$RETAKE_CONFIG"

docker events --filter "label=retake.fleet=$RETAKE_STACK" --filter type=container --filter event=create \
	--format '"{{.Action}}" {{index .Actor.Attributes "retake.task"}}' >"$work/events" &
watcher=$!

echo "== up"
compose up -d >"$work/up" || { cat "$work/up"; stop "compose up failed"; }
sim="http://$(compose port githubsim 8900)"
check "the director is healthy" within 60 healthy
check "the fake GitHub's pages are at $sim/" curl -sS -f -o /dev/null "$sim/demo/widgets"
check "director health succeeds in the container" docker exec "$(container director)" director health -c /etc/retake/config.toml

echo "== an issue from the page to a branch"
check "issue 1: created on the page" same "$(open_issue "Volume discount" 0)" 303
delivered 1

echo "== an intruder"
targets=
for service in nats director githubsim; do
	targets="$targets,$(inspect "$service" '{{range .NetworkSettings.Networks}}{{.IPAddress}},{{end}}')"
done
sed "s/\"AT\"/\"$targets\"/" "$RETAKE_CONFIG.in" >"$RETAKE_CONFIG"
compose restart director >"$work/restart" || cat "$work/restart"
check "the director is healthy with the intruder's targets" within 60 healthy
check "issue 2: created on the page" same "$(open_issue "An intruder" 0)" 303
delivered 2
published 2 >"$work/intruder"
sed 's/^/     /' "$work/intruder"
check "it reached only the bus, did not sign in, and found no credential" sh -c "! grep through: '$work/intruder'"
check "it made all attempts" sh -c "grep -q '^tried [1-9][0-9] addresses beside the bus at [0-9]' '$work/intruder' && grep -q '^7 of 7 were refused' '$work/intruder' && grep -q '^looked into' '$work/intruder'"

echo "== a flood of connections"
check "issue 3: created on the page" same "$(open_issue "A flood of connections" 0)" 303
check "issue 3: a worker is running" within 60 running 3
check "issue 4: created on the page" same "$(open_issue "An ordinary issue" 5)" 303
began=$(date +%s)
delivered 4
check "issue 4: delivered in $(($(date +%s) - began)) s" [ $(($(date +%s) - began)) -lt 60 ]
delivered 3
published 3 | sed 's/^/     /'
check "the relay and nats were not restarted" same "$(inspect bus '{{.RestartCount}}')$(inspect nats '{{.RestartCount}}')" 00

echo "== restart of director while a worker runs"
middle 5 director 25
check "the new director adopted the worker" sh -c "docker logs '$(container director)' 2>&1 | grep -q 'adopted a running container'"

echo "== restart of nats while a worker runs"
middle 6 nats 26

echo "== restart of the relay while a worker runs"
middle 7 bus 27

check "the director's log contains no errors" sh -c "! docker logs '$(container director)' 2>&1 | grep '\"level\":\"error\"'"
[ "$wrong" = 0 ] || docker logs --tail 40 "$(container director)"
if [ "${KEEP:-}" != 1 ]; then
	echo "== down -v"
	compose down -v >"$work/down" || cat "$work/down"
	check "no container is left" same "$(docker ps -aq --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME"; docker ps -aq --filter "label=retake.fleet=$RETAKE_STACK")" ""
	check "no network is left" same "$(docker network ls -q --filter "name=$RETAKE_STACK")" ""
	check "no volume is left" same "$(docker volume ls -q --filter "name=$RETAKE_STACK")" ""
	check "no folder is left" [ ! -e "$RETAKE_DATA_DIR" ]
fi
[ "$wrong" = 0 ] && echo "all checks passed"
exit "$wrong"
