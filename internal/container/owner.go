package container

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apicontainer "github.com/docker/docker/api/types/container"
)

// noStrangers refuses a fleet whose containers another installation has made. Two directors of one fleet on one engine
// would each remove the other's workers as strays.
func (d *Docker) noStrangers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	found, err := d.api.ContainerList(ctx, apicontainer.ListOptions{All: true, Filters: fleetFilter(d.fleet)})
	if err != nil {
		return failure("list containers", err)
	}
	var strangers []string
	for _, c := range found {
		if c.Labels[LabelOwner] != d.owner {
			strangers = append(strangers, c.Labels[LabelAttempt])
		}
	}
	if len(strangers) == 0 {
		return nil
	}
	slices.Sort(strangers)
	return &Error{
		Kind: ErrSpec, Doing: "open",
		Cause: fmt.Errorf("fleet %s has containers of another director, or of a data directory that is lost (%s)", d.fleet, strings.Join(strangers, ", ")),
		Next: fmt.Sprintf("give this director a director.fleet of its own; if no other one runs, remove them: docker rm -f $(docker ps -aq --filter label=%s=%s)",
			LabelFleet, d.fleet),
	}
}
