#!/bin/sh
# Stops everything in docker-compose.yml, including running workers, which "docker-compose down" leaves to the next
# director. Arguments go to "down": deploy/compose-down.sh -v also removes the volumes (journal, checkouts).
#
# Environment: COMPOSE (default: docker-compose, or else "docker compose"), RETAKE_STACK as in .env.
set -eu
cd "$(dirname "$0")/.."

if [ -z "${COMPOSE:-}" ]; then
	COMPOSE="docker compose"
	if command -v docker-compose >/dev/null; then COMPOSE=docker-compose; fi
fi
if [ -z "${RETAKE_STACK:-}" ] && [ -f .env ]; then
	RETAKE_STACK=$(sed -n 's/^RETAKE_STACK=//p' .env | tail -n 1)
fi

# Stop the director first, because it would replace missing workers.
$COMPOSE --profile demo stop director
workers=$(docker ps -aq --filter "label=retake.fleet=${RETAKE_STACK:-compose}")
if [ -n "$workers" ]; then
	# shellcheck disable=SC2086 # one argument each
	docker rm -f $workers
fi
volumes=$(docker volume ls -q --filter "label=retake.fleet=${RETAKE_STACK:-compose}") # these contain the worker program
if [ -n "$volumes" ]; then
	# shellcheck disable=SC2086
	docker volume rm $volumes
fi
$COMPOSE --profile demo down "$@"
