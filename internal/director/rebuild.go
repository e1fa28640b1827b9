package director

import (
	"context"
	"fmt"

	"retake/internal/director/restore"
)

// Rebuild implements `director journal rebuild`. No director may be running on the data directory.
func Rebuild(ctx context.Context, o Options) (tasks []restore.Rebuilt, aside string, err error) {
	d, err := open(ctx, o, false)
	if err != nil {
		return nil, "", err
	}
	defer d.close()
	t, err := d.candidate.Take(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("director: rebuild: nothing was changed: %w", err)
	}
	defer t.Release()
	if err := d.hub.Bus().ShareSecret(t.Context()); err != nil {
		return nil, "", fmt.Errorf("director: rebuild: nothing was changed: %w", err)
	}
	return d.restorer.Rebuild(t.Context())
}
