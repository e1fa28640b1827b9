package config

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/docker/go-units"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// EgressOpen reports whether workers can reach all public addresses.
func (c Containers) EgressOpen() bool { return slices.Equal(c.Egress, []string{egressAll}) }

// EgressHosts returns the only hosts that workers can reach, or nil if Egress is all or none. Each host is a name,
// optionally with the prefix "*." and with a port.
func (c Containers) EgressHosts() []string {
	if c.EgressOpen() || slices.Equal(c.Egress, []string{egressNone}) {
		return nil
	}
	return c.Egress
}

// NeedsProxy reports whether the director has to run a proxy for its workers.
func (c Config) NeedsProxy() bool {
	return len(c.Containers.EgressHosts()) > 0 || len(c.Containers.ProxiedKeys) > 0
}

// Doors returns the valid addresses in Reachable.
func (c Containers) Doors() (all []netip.AddrPort) {
	for _, s := range c.Reachable {
		if a, err := netip.ParseAddrPort(s); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// UIDGID returns the numbers in User. If the configuration is valid, both are above 0.
func (c Containers) UIDGID() (uid, gid int) {
	u, g, _ := strings.Cut(c.User, ":")
	uid, _ = strconv.Atoi(u)
	gid, _ = strconv.Atoi(g)
	return uid, gid
}

// MemoryBytes returns Memory in bytes.
func (c Containers) MemoryBytes() int64 {
	n, _ := units.RAMInBytes(c.Memory)
	return n
}

// ParsedMounts returns Mounts in parsed form.
func (c Containers) ParsedMounts() []Mount {
	mounts := make([]Mount, len(c.Mounts))
	for i, s := range c.Mounts {
		mounts[i], _ = parseMount(s)
	}
	return mounts
}

// Travels reports whether the bus transports checkouts to workers and back.
func (w Workspace) Travels() bool { return w.Transport == TransportSync }

// DiskReserveBytes returns DiskReserve in bytes, or 0 if it is disabled.
func (d Director) DiskReserveBytes() int64 {
	n, _ := units.RAMInBytes(d.DiskReserve)
	return n
}

// QuotaBytes returns Quota in bytes, or 0 if it is not set.
func (c Checkout) QuotaBytes() int64 {
	n, _ := units.RAMInBytes(c.Quota)
	return max(n, 0)
}

// GitMemoryBytes returns GitMemory in bytes.
func (c Checkout) GitMemoryBytes() int64 {
	n, _ := units.RAMInBytes(c.GitMemory)
	return n
}

// ValidatesFresh reports whether a separate attempt validates the work in a clean container.
func (c Config) ValidatesFresh() bool { return c.Worker.Validate == "fresh" }

// Limits returns the configuration's limits for the policy. A value that differs from its default counts as set, even
// if a caller changed the field of the Config.
func (c Config) Limits() policy.Limits {
	limits, built := c.limits(), builtInLimits()
	limits.Assumed = slices.DeleteFunc(slices.Clone(c.assumed), func(b policy.Bound) bool {
		return bounded[b](limits) != bounded[b](built)
	})
	return limits
}

var builtInLimits = sync.OnceValue(func() policy.Limits { return Default().limits() })

// bounded maps each bound to its value in limits.
var bounded = map[policy.Bound]func(policy.Limits) any{
	policy.BoundRetries:     func(l policy.Limits) any { return l.MaxRetries },
	policy.BoundConsecutive: func(l policy.Limits) any { return l.MaxConsecutiveErrors },
	policy.BoundIterations:  func(l policy.Limits) any { return l.IterationBudget },
	policy.BoundPaidCalls:   func(l policy.Limits) any { return l.PaidCallBudget },
	policy.BoundCost:        func(l policy.Limits) any { return l.CostBudgetUSD },
	policy.BoundBackoff:     func(l policy.Limits) any { return l.Backoff },
}

func (c Config) limits() policy.Limits {
	return policy.Limits{
		MaxRetries: c.Director.MaxRetries, MaxConsecutiveErrors: c.Recovery.MaxConsecutiveErrors,
		IterationBudget: c.Recovery.IterationBudget, PaidCallBudget: c.Recovery.PaidCallBudget,
		CostBudgetUSD: c.Recovery.CostBudgetUSD, ContinueOnError: c.Recovery.ContinueOnError,
		Backoff: recovery.Backoff{
			Linear: c.Retry.BackoffMode == "linear", Initial: c.Retry.BackoffInitial, Max: c.Retry.BackoffMax,
			Factor: c.Retry.BackoffFactor, Jitter: recovery.Jitter(c.Retry.Jitter),
		},
	}
}

// assumed returns the bounds that are not set explicitly.
func assumed(set map[string]Problem) []policy.Bound {
	bounds := []policy.Bound{
		policy.BoundRetries, policy.BoundConsecutive, policy.BoundIterations, policy.BoundPaidCalls, policy.BoundCost,
		policy.BoundBackoff,
	}
	return slices.DeleteFunc(bounds, func(b policy.Bound) bool {
		for key := range set {
			if setsBound(key, b) {
				return true
			}
		}
		return false
	})
}

// setsBound reports whether a key sets a bound.
func setsBound(key string, b policy.Bound) bool {
	section, last := cutLast(key)
	return last == string(b) || section == "retry" && b == policy.BoundBackoff
}

// limitKeys lists the limits, except for stages, that can end an attempt.
var limitKeys = []string{"timeouts.worker_watchdog_seconds", "containers.memory", "recovery.paid_call_budget"}

// DefaultLimits returns which limitKeys and stage timeouts have their default values. The timeout of the first stage is
// "stage[1].timeout_seconds".
func (c Config) DefaultLimits() (out []string) {
	d := Default()
	before := keys(&d)
	for i, r := range keys(&c) {
		if slices.Contains(limitKeys, r.key) && r.literal() == before[i].literal() {
			out = append(out, r.key)
		}
	}
	for i := range c.Stages {
		for _, r := range stageKeys(&c.Stages[i]) {
			if r.key == "stage.timeout_seconds" && r.literal() == defaultStageTimeout() {
				out = append(out, "stage["+strconv.Itoa(i+1)+"].timeout_seconds")
			}
		}
	}
	return out
}

// defaultStageTimeout returns the default of stage.timeout_seconds as TOML.
func defaultStageTimeout() string {
	var s Stage
	for _, r := range stageKeys(&s) {
		if r.key == "stage.timeout_seconds" {
			_ = r.setText(r.def) // cannot fail: a test sets all defaults
			return r.literal()
		}
	}
	return ""
}
