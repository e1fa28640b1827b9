package doctor

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/docker/go-units"

	"retake/internal/config"
)

func lookPrograms(_ context.Context, e *exam) {
	if missing := e.Machine.Programs("", []string{"git"}); len(missing) > 0 {
		e.problem("git is not in the director's PATH", "install git")
	} else {
		e.ok("git")
	}
	if at, err := e.Machine.Worker(); err != nil {
		e.problem(err.Error(), "")
	} else {
		e.ok("worker: " + at)
	}
	if e.Config.Containers.Runtime == "process" {
		e.programsHere()
	}
}

// programsHere searches for the stages' programs in the PATH of plain processes.
func (e *exam) programsHere() {
	names := e.stagePrograms()
	missing := e.Machine.Programs(e.Config.Containers.Env["PATH"], names)
	for _, name := range missing {
		e.problem(name+" is not installed on this machine, but a stage runs it as a plain process",
			"install it, or set PATH in containers.env")
	}
	if len(missing) == 0 && len(names) > 0 {
		e.ok("the stages' programs are installed: " + strings.Join(names, ", "))
	}
}

// stagePrograms returns the programs that stages start, except programs in the checkout.
func (e *exam) stagePrograms() (names []string) {
	for _, p := range e.Config.StagePrograms() {
		names = append(names, p.Name)
	}
	return names
}

// The director still works below these limits, but the check warns.
const (
	scarceBytes = 8 << 30
	scarceFiles = 500_000
)

func lookDisk(_ context.Context, e *exam) {
	for _, f := range [...]struct{ key, dir string }{
		{"director.data_dir", e.Config.Director.DataDir},
		{"director.shared_dir", e.Config.Director.SharedDir},
	} {
		if f.dir == "" {
			continue
		}
		d, err := e.Machine.Disk(f.dir)
		if err != nil {
			e.problem(f.key+": "+err.Error(), "")
			continue
		}
		text := fmt.Sprintf("%s: %s free, %.0f%% used", f.key, units.BytesSize(float64(d.FreeBytes)), d.UsedPercent)
		switch {
		case d.Full:
			e.problem(fmt.Sprintf("%s: above director.disk_watermark (%.0f%%), so no attempt starts", text,
				e.Config.Director.DiskWatermark), "free some space, or use a directory on another disk")
		case d.FreeBytes < scarceBytes:
			e.warn(text, "free some space: checkouts, mirrors and the journal grow there")
		case d.FreeFiles < scarceFiles && d.FreeFiles+d.UsedFiles > 0:
			e.warn(fmt.Sprintf("%s: space for only %d more files", text, d.FreeFiles), "remove files, such as old "+
				"checkouts")
		default:
			e.ok(text)
		}
	}
}

func lookQuota(_ context.Context, e *exam) {
	quota := e.Config.Checkout.QuotaBytes()
	if quota == 0 {
		e.warn(fmt.Sprintf("checkout.quota is empty: a single checkout can fill the disk up to "+
			"director.disk_watermark (%.0f%%), and then no attempt starts", e.Config.Director.DiskWatermark),
			`set checkout.quota = "10GiB" if the director runs as root directly on the host`)
		return
	}
	if err := e.Machine.Quota(quota); err != nil {
		e.problem(err.Error(), "")
		return
	}
	text := "a checkout uses at most " + units.BytesSize(float64(quota))
	if e.Config.Containers.Runtime == "docker" {
		text += "; the quota does not cover a worker's home directory in a container, which is a volume"
	}
	e.ok(text)
}

func lookDirector(ctx context.Context, e *exam) {
	says, err := e.Machine.Running(ctx)
	e.running = says != "" || err != nil
	switch {
	case err != nil:
		e.problem(err.Error(), "check its log")
	case e.running:
		e.ok("a director with this data_dir is already running: " + says)
	default:
		e.ok("no director is running with this data_dir")
	}
	if err := e.Machine.Fleet(); err != nil && !e.running {
		e.problem(err.Error(), "")
	}
}

func lookJournal(ctx context.Context, e *exam) {
	if e.running {
		e.notTried("a director is running and has the journal open: director health reports any damage")
		return
	}
	says, err := e.Machine.Journal(ctx)
	if err != nil {
		e.problem(err.Error(), "director journal verify lists all damage; director journal rebuild creates a new "+
			"journal from GitHub and the checkouts")
		return
	}
	e.ok(says)
}

// lookPorts runs after the engine check, which finds the gateway on which the bus listens.
func lookPorts(ctx context.Context, e *exam) {
	if e.running {
		e.ok("used by the running director")
		return
	}
	free := []string{}
	for _, a := range e.addresses() {
		if err := e.Machine.Listen(ctx, a.address); err != nil {
			e.problem(fmt.Sprintf("%s: cannot listen on %s: %v", a.key, a.address, err),
				"stop the program on that port, or change "+a.key)
			continue
		}
		free = append(free, a.address)
	}
	if len(free) > 0 {
		e.ok("free: " + strings.Join(free, ", "))
	} else if e.problems() == 0 || len(e.addresses()) == 0 {
		e.ok("no ports are required")
	}
}

type listening struct{ key, address string }

// addresses returns the director's listening addresses.
func (e *exam) addresses() (out []listening) {
	bus := e.Config.AgentBus
	if bus.URL == "" && bus.ListenPort != 0 { // port 0 picks any free port
		hosts := []string{bus.ListenAddr}
		if bus.ListenAddr == "auto" {
			hosts = []string{"127.0.0.1"}
			switch {
			case e.Config.Containers.Runtime == config.OnKubernetes:
				hosts = []string{""} // an empty host means all addresses
			case e.gateway != "":
				hosts = append(hosts, e.gateway)
			}
		}
		for _, h := range hosts {
			out = append(out, listening{"agent_bus.listen_port", net.JoinHostPort(h, strconv.Itoa(bus.ListenPort))})
		}
	}
	if at := e.Config.Containers.ProxyListen; len(e.Config.Containers.EgressHosts()) > 0 {
		switch {
		case at == "auto" && e.Config.Containers.Runtime == config.OnKubernetes:
			at = net.JoinHostPort("", strconv.Itoa(config.ProxyPort))
		case at == "auto" && e.gateway != "":
			at = net.JoinHostPort(e.gateway, strconv.Itoa(config.ProxyPort))
		}
		if at != "auto" {
			out = append(out, listening{"containers.proxy_listen", at})
		}
	}
	if e.Config.Director.HTTPListen != "" {
		out = append(out, listening{"director.http_listen", e.Config.Director.HTTPListen})
	}
	return out
}
