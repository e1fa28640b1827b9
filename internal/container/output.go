package container

import (
	"bytes"
	"context"
	"errors"
	"time"

	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

// Printed is a piece of what an attempt printed.
type Printed struct {
	At     time.Time // when it was printed; zero: not known
	Stderr bool
	Data   []byte // in Docker of one line, of long lines 16 KiB at most; only for the time of the call
}

// FollowOutput hands over what an attempt has printed, as far as its log file has it, and then what it prints,
// until it has ended, without an error, or ctx ends. It asks for nothing else, waits for no other operation,
// and may run many times at once. One that is absent has printed nothing. Errors: ErrDaemon, also if the log
// broke off: all of it can be asked for again.
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
		err = failure("read the output of "+attemptID, errors.New("its log ended, and it goes on"))
	}
	return err
}

// stamped takes the entries of a log, one in each call, with the daemon's time in front.
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
