package chaos

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"retake/internal/sys/cgroup"
)

// quotas lists the files that limit processor time in control groups v2 and v1.
var quotas = []struct {
	cgroup.Hierarchy
	limit func(group string, runs, period time.Duration) error
	lift  func(group string) error
}{
	{
		cgroup.Hierarchy{Mount: "sys/fs/cgroup"},
		func(group string, runs, period time.Duration) error {
			return write(group, "cpu.max", fmt.Sprint(runs.Microseconds(), " ", period.Microseconds()))
		},
		func(group string) error { return write(group, "cpu.max", "max") },
	},
	{cgroup.Hierarchy{Mount: "sys/fs/cgroup/cpu", Controller: "cpu"}, limitV1, liftV1},
	{cgroup.Hierarchy{Mount: "sys/fs/cgroup/cpu,cpuacct", Controller: "cpu"}, limitV1, liftV1},
}

func liftV1(group string) error { return write(group, "cpu.cfs_quota_us", "-1") }

func limitV1(group string, runs, period time.Duration) error {
	return errors.Join(write(group, "cpu.cfs_period_us", fmt.Sprint(period.Microseconds())),
		write(group, "cpu.cfs_quota_us", fmt.Sprint(runs.Microseconds())))
}

// write writes to a file that the kernel has created.
func write(group, file, text string) error {
	f, err := os.OpenFile(filepath.Join(group, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// limit moves a process into a control group that restricts it to a share of a processor, in per cent. The process's
// later children join the group as well. lift moves all of them back.
func limit(pid, share int, period time.Duration) (lift func() error, err error) {
	runs := max(time.Millisecond, period*time.Duration(share)/100)
	for _, q := range quotas {
		parent := q.Folders("/")[0]
		group := filepath.Join(parent, "retake-chaos-"+strings.ToLower(rand.Text()[:8]))
		if failed := os.Mkdir(group, 0o755); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		failed := errors.Join(write(group, "cgroup.procs", strconv.Itoa(pid)), q.limit(group, runs, period))
		if failed == nil {
			// Lift the quota first, because a move waits for every process that is being created on the machine.
			return func() error { return errors.Join(q.lift(group), leave(group, parent)) }, nil
		}
		err = errors.Join(err, failed, leave(group, parent))
	}
	return nil, err
}

// leave moves all processes of a group to its parent and removes the group.
func leave(group, parent string) (err error) {
	for range 50 { // because processes may start others at the same time
		data, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(data)) {
			_ = write(parent, "cgroup.procs", pid) // the process may have ended
		}
		if err = os.Remove(group); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}
