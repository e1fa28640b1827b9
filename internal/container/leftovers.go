package container

import (
	"context"
	"errors"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
)

// RemoveLeftovers removes the containers, networks and volumes left behind by killed trials. It selects objects older
// than age in fleets with the given name prefix. A trial's owner is its fleet, whereas a director has a different owner
// and keeps its objects, even in a fleet with that prefix. RemoveLeftovers also removes the fleets' old helper
// containers. It returns the names of the removed objects, and continues after an error.
func (d *Docker) RemoveLeftovers(ctx context.Context, prefix string, age time.Duration) (removed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	before := time.Now().Add(-age)
	note := func(name string, failed error) {
		switch {
		case failed == nil:
			removed = append(removed, name)
		case !cerrdefs.IsNotFound(failed):
			err = errors.Join(err, failure("remove "+name, failed))
		}
	}
	leftover := func(labels map[string]string, label string, created time.Time) bool {
		return strings.HasPrefix(labels[label], prefix) && created.Before(before) &&
			(label != LabelFleet || labels[LabelOwner] == labels[LabelFleet])
	}
	// Containers come first, because they use the networks and volumes.
	for _, label := range []string{LabelFleet, LabelFence, labelHelper} {
		containers, failed := d.api.ContainerList(ctx,
			apicontainer.ListOptions{All: true, Filters: labelled(label)})
		err = errors.Join(err, failed)
		for _, c := range containers {
			if leftover(c.Labels, label, time.Unix(c.Created, 0)) {
				note("container "+c.ID, d.api.ContainerRemove(ctx, c.ID,
					apicontainer.RemoveOptions{Force: true, RemoveVolumes: true}))
			}
		}
	}
	networks, failed := d.api.NetworkList(ctx, network.ListOptions{Filters: labelled(LabelFleet)})
	err = errors.Join(err, failed)
	for _, n := range networks {
		if leftover(n.Labels, LabelFleet, n.Created) {
			note("network "+n.Name, d.api.NetworkRemove(ctx, n.ID))
		}
	}
	volumes, failed := d.api.VolumeList(ctx, volume.ListOptions{Filters: labelled(LabelFleet)})
	err = errors.Join(err, failed)
	for _, v := range volumes.Volumes {
		if leftover(v.Labels, LabelFleet, apiTime(v.CreatedAt)) {
			note("volume "+v.Name, d.api.VolumeRemove(ctx, v.Name, false))
		}
	}
	return removed, err
}

func labelled(label string) filters.Args { return filters.NewArgs(filters.Arg("label", label)) }
