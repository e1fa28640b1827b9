package container

import (
	"math"

	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// Docker keeps two 8 MiB log files per container, which limits disk usage and replay time.
const (
	logFileSize  = "8m"
	logFileCount = "2"
)

// tmpOptions makes /tmp executable, because toolchains run programs that they build there, and Docker's tmpfs is
// noexec by default. /tmp counts against the container's memory.
const tmpOptions = "rw,exec,nosuid,nodev,mode=1777"

// apiConfig translates a valid spec for Docker's API. It overrides every image setting that could affect an attempt.
func apiConfig(spec Spec, fleet, owner, network, home string,
	p program,
) (*apicontainer.Config, *apicontainer.HostConfig) {
	config := &apicontainer.Config{
		Image:      spec.Image,
		Entrypoint: spec.Entrypoint, // also disables the image's CMD
		Env:        spec.Env,
		User:       spec.User,
		WorkingDir: spec.Workdir,
		StopSignal: "SIGTERM", // used by a manual "docker stop"
		// A health check would start extra processes in the container.
		Healthcheck: &apicontainer.HealthConfig{Test: []string{"NONE"}},
		Labels: map[string]string{
			LabelFleet: fleet, LabelOwner: owner, LabelTask: spec.Task, LabelAttempt: spec.AttemptID,
		},
	}
	if len(spec.Stdin) > 0 { // close the input when its writer disconnects
		config.AttachStdin, config.OpenStdin, config.StdinOnce = true, true, true
	}
	pids := spec.Pids
	noInit := false // the worker is PID 1 and reaps zombies, so the daemon must not insert docker-init
	host := &apicontainer.HostConfig{
		NetworkMode:   apicontainer.NetworkMode(network),
		RestartPolicy: apicontainer.RestartPolicy{Name: apicontainer.RestartPolicyDisabled},
		LogConfig: apicontainer.LogConfig{
			Type: "json-file", Config: map[string]string{"max-size": logFileSize, "max-file": logFileCount},
		},
		IpcMode:     apicontainer.IPCModePrivate,
		CapDrop:     []string{"ALL"},
		SecurityOpt: []string{"no-new-privileges"},
		Tmpfs:       tmpfs(spec),
		Mounts:      apiMounts(spec),
		Init:        &noInit,
		Resources: apicontainer.Resources{
			Memory:     spec.Memory,
			MemorySwap: spec.Memory, // memory plus swap; equal to Memory, so swap is disabled
			NanoCPUs:   int64(math.Round(spec.CPUs * 1e9)),
			PidsLimit:  &pids,
		},
	}
	if p.volume != "" {
		host.Mounts = append(host.Mounts, p.mount(fleet, owner, true))
	}
	if spec.ReadOnly {
		memory, volumes := writable(spec, home, p)
		host.ReadonlyRootfs, host.Tmpfs, host.Mounts = true, memory, append(host.Mounts, volumes...)
	}
	return config, host
}

func tmpfs(spec Spec) map[string]string {
	all := map[string]string{"/tmp": tmpOptions}
	for _, p := range spec.Scratch {
		all[p] = tmpOptions
	}
	return all
}

func apiMounts(spec Spec) []mount.Mount {
	mounts := []mount.Mount{{Type: mount.TypeBind, Source: spec.Checkout, Target: spec.Workdir}}
	// Docker removes an anonymous volume together with its container. NoCopy keeps the image's content out of it.
	if spec.Checkout == "" {
		mounts[0] = mount.Mount{
			Type: mount.TypeVolume, Target: spec.Workdir,
			VolumeOptions: &mount.VolumeOptions{NoCopy: true},
		}
	}
	for _, m := range spec.Mounts {
		kind := mount.TypeBind
		if m.Volume {
			kind = mount.TypeVolume
		}
		mounts = append(mounts, mount.Mount{Type: kind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return mounts
}
