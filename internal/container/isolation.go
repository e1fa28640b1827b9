package container

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ringsRefusedSince is the first engine version whose system call filter refuses io_uring.
const ringsRefusedSince = 25

// Isolation lists the protections that separate a container from this engine's host (holds), and the protections that
// are missing (lacks). For limits that the engine cannot enforce, see Cannot.
func (e *engine) Isolation(ctx context.Context) (holds, lacks []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.limits.operation)
	defer cancel()
	info, err := e.api.Info(ctx)
	if err != nil {
		return nil, nil, failure("inspect the engine", err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(info.SecurityOptions,
			func(o string) bool { return o == name || strings.HasPrefix(o, "name="+name) })
	}
	if e.oci != "" {
		holds = append(holds, fmt.Sprintf("workers run in the engine's runtime %s (containers.oci_runtime)",
			e.oci))
	}
	switch {
	case has("rootless"):
		holds = append(holds, "root in a container is not root on the host, because the engine is rootless")
	case has("userns"):
		holds = append(holds, "root in a container is not root on the host, because the engine maps users "+
			"(userns-remap)")
	default:
		lacks = append(lacks, "root in a container is root on the host, because the engine has no user namespaces "+
			"(workers never run as root or gain privileges; userns-remap or a rootless engine adds another barrier)")
	}
	if !has("seccomp") {
		lacks = append(lacks, "no system call filter, because the engine does not support seccomp")
	} else if major, err := strconv.Atoi(strings.SplitN(info.ServerVersion, ".", 2)[0]); err == nil &&
		major < ringsRefusedSince {
		lacks = append(lacks, fmt.Sprintf("the engine (%s) lets containers use io_uring, which bypasses its system "+
			"call filter, so only the worker blocks it; Docker %d and later also block it", info.ServerVersion,
			ringsRefusedSince))
	}
	return holds, lacks, nil
}
