package container

import (
	"bytes"
	"context"
	"errors"
	"time"

	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

// Printed is one piece of an attempt's output.
type Printed struct {
	At     time.Time // time of the output; zero if unknown
	Stderr bool
	Data   []byte // in Docker, a part of one line, at most 16 KiB; valid only during the call
}

// FollowOutput calls take with the output of an attempt, from the beginning of its log file until the attempt ends or
// ctx is done. It does not wait for other operations on the attempt, and several calls can run at once. For an absent
// attempt it returns nil. Error: ErrDaemon, for example if the log ends while the attempt runs. The caller can then
// start over.
func (d *Docker) FollowOutput(ctx context.Context, attemptID string, take func(Printed)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.background.ctx, cancel)()
	info, found, err := d.lookup(ctx, attemptID)
	if err != nil || !found {
		return err
	}
	logs, err := d.api.ContainerLogs(ctx, info.ID, apicontainer.LogsOptions{
		ShowStdout: true, ShowStderr: true,
		Follow: true, Timestamps: true,
	})
	if err != nil {
		return failure("read the output of "+attemptID, err)
	}
	defer logs.Close()
	if _, err := stdcopy.StdCopy(stamped{take, false}, stamped{take, true}, logs); err != nil {
		return failure("read the output of "+attemptID, err)
	}
	if info, found, err = d.lookup(ctx, attemptID); err == nil && found && stateOf(info).Live() {
		err = failure("read the output of "+attemptID, errors.New("its log ended, but it is still running"))
	}
	return err
}

// stamped parses log entries, one per Write, which begin with the daemon's timestamp.
type stamped struct {
	take   func(Printed)
	stderr bool
}

func (s stamped) Write(p []byte) (int, error) {
	said, data, ok := bytes.Cut(p, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(said))
	if !ok || err != nil {
		at, data = time.Time{}, p
	}
	s.take(Printed{At: at, Stderr: s.stderr, Data: data})
	return len(p), nil
}
