#!/bin/sh
# Creates the keys for compose's agent bus once, and writes their path to .env. It does nothing if .env already contains
# the path of existing keys.
#
#   deploy/bus-keys.sh [FOLDER]      default: bus-keys, next to docker-compose.yml
#
# Environment: RETAKE_IMAGE (default: retake-director:local), RETAKE_BUS_KEYS (the folder; overrides .env). It runs:
#
#   docker run --rm -v /path/to/bus-keys:/keys retake-director:local bus init /keys --host nats --store /data --server-dir /etc/nats/retake
#
# The files belong to root, the user of nats and director in their containers. operator.json is the operator's
# credential.
set -eu
cd "$(dirname "$0")/.."

fail() {
	echo "bus-keys: $1" >&2
	exit 2
}
image=${RETAKE_IMAGE:-retake-director:local}
named=${RETAKE_BUS_KEYS:-}
if [ -z "$named" ] && [ -f .env ]; then
	named=$(sed -n 's/^RETAKE_BUS_KEYS=//p' .env | tail -n 1 | sed "s/^\"\(.*\)\"\$/\1/; s/^'\(.*\)'\$/\1/")
fi
folder=${1:-${named:-bus-keys}}
case $folder in
/*) ;;
*) folder=$PWD/$folder ;;
esac

if [ -d "$folder/director" ]; then
	echo "$folder already has keys"
else
	docker image inspect "$image" >/dev/null 2>&1 || fail "image $image is missing: run \"make images\" first"
	mkdir -p -m 700 "$folder"
	docker run --rm --network none --read-only --cap-drop ALL --cap-add DAC_OVERRIDE --security-opt no-new-privileges:true -v "$folder:/keys" "$image" \
		bus init /keys --host nats --store /data --server-dir /etc/nats/retake >/dev/null || fail "cannot create keys in $folder"
	echo "created $folder"
fi
if [ "$named" != "$folder" ]; then
	if [ -s .env ] && [ -n "$(tail -c 1 .env)" ]; then echo >>.env; fi # terminate the last line
	(umask 077 && printf 'RETAKE_BUS_KEYS=%s\n' "$folder" >>.env)
	echo "added RETAKE_BUS_KEYS=$folder to .env"
fi
