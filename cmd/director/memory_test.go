package main

import (
	"errors"
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestMemoryLimitFollowsTheControlGroup(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for _, c := range []struct {
		name        string
		group       uint64
		err         error
		environment string
		want        int64
		logged      int
	}{
		{name: "1 GiB", group: 1 << 30, want: 1<<30 - 1<<30/10, logged: 1},
		{name: "128 MiB", group: 128 << 20, want: 96 << 20, logged: 1},
		{name: "32 MiB", group: 32 << 20, want: 16 << 20, logged: 1},
		{name: "no limit", err: memlimit.ErrNoLimit, want: math.MaxInt64},
		{name: "no control group", err: errors.New("no cgroup"), want: math.MaxInt64},
		{name: "set by its user", group: 128 << 20, environment: "64MiB", want: math.MaxInt64},
	} {
		t.Run(c.name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			if c.environment != "" {
				t.Setenv("GOMEMLIMIT", c.environment)
			}
			core, logs := observer.New(zap.InfoLevel)
			limitMemory(zap.New(core), func() (uint64, error) { return c.group, c.err })
			got := debug.SetMemoryLimit(-1)
			if got != c.want || logs.Len() != c.logged {
				t.Errorf("limit %d with %d lines in the log, want %d with %d", got, logs.Len(), c.want, c.logged)
			}
		})
	}
}
