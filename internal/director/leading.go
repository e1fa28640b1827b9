package director

import (
	"context"
	"slices"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/keys"
	"retake/internal/bus/server"
	"retake/internal/director/effects"
	"retake/internal/director/intake"
	"retake/internal/director/lead"
	"retake/internal/director/reports"
	"retake/internal/director/restore"
	"retake/internal/fsm"
	"retake/internal/github/approval"
	"retake/internal/github/inbox"
)

// connect opens the bus. It starts the embedded server, unless a shared bus is configured.
func (d *daemon) connect(ctx context.Context) (_ *bus.Bus, err error) {
	b := d.config.AgentBus
	hosts := []string{b.ListenAddr}
	switch {
	// Pods connect from any node. The gateway may be the address of a Service, on which a process cannot listen.
	case b.ListenAddr == "auto" && d.config.OnCluster():
		hosts = []string{"0.0.0.0"}
	case b.ListenAddr == "auto":
		hosts = []string{"127.0.0.1", d.gateway}
	}
	o := lead.BusOptions(d.config)
	o.RunID, o.Leads, o.Log = d.runID, d.candidate.MayWrite, d.log
	o.JournalBytes, o.TraceParent = d.journalBytes, d.telemetry.Parent
	o.MaxMessageBytes, o.WorkerLife = b.MaxMessageBytes, d.watchdog+workerLifeAfter
	o.OnOffence = func(bus.Offence) { d.offences.Signal() }
	if b.URL != "" {
		o.Keys, err = keys.Load(b.Credentials)
	} else {
		d.server, err = server.Start(ctx, server.Options{
			Dir: o.Dir, ListenHosts: slices.Compact(hosts), Names: []string{d.gateway}, Port: b.ListenPort,
			MaxWorkers: d.setup().Director.MaxWorkers,
			Prefix:     b.Prefix, Fleet: d.config.Director.Fleet, SyncAlways: b.Sync == "always", Log: d.log,
		})
		o.Server = d.server
	}
	if err != nil {
		return nil, err
	}
	return bus.Open(ctx, o)
}

// newCandidate returns the candidate that makes this process lead or stand by.
func (d *daemon) newCandidate() *lead.Candidate {
	return &lead.Candidate{
		Joined: d.config.AgentBus.URL != "", Period: d.config.Director.Lease, Bus: d.hub.Bus, Able: d.disk.Able,
		StandBy: d.standBy, Log: d.log,
		Identity: func() (bus.Leader, error) {
			return lead.Identity(d.writer, d.runID, d.config.Director.DataDir, &d.lock, d.log)
		},
	}
}

func (d *daemon) fleetFile() *restore.FleetFile {
	return &restore.FleetFile{
		Dir: d.config.Director.DataDir, Fleet: d.config.Director.Fleet, Labels: fsm.LabelNames(d.config.GitHub.Labels),
		Log: d.log,
	}
}

func (d *daemon) newOffers() *intake.Offers {
	return &intake.Offers{
		GitHub: struct {
			*inbox.Inbox
			*approval.Approvals
		}{d.github.Inbox, d.github.Approvals},
		Config: &d.inForce, Unusable: &d.unusable, Log: d.log,
	}
}

func newHub(d *daemon) *lead.Hub {
	return &lead.Hub{
		Joined: d.config.AgentBus.URL != "", Connect: d.connect, Disk: d.disk, DataDir: d.config.Director.DataDir,
		Say: d.operator.Say, Log: d.log,
	}
}

// baseBranch returns the branch on which a repository's work is based.
func (d *daemon) baseBranch(repo string) string { return d.setup().For(repo).GitHub.BaseBranch }

func (d *daemon) newRestorer(patience time.Duration) *restore.Restorer {
	offers := d.newOffers()
	origin := effects.Origin{APIURL: d.config.GitHub.APIURL, BaseBranch: d.baseBranch}
	return &restore.Restorer{
		Config: d.config, Setup: d.setup, Machine: d.machineConfig, Bus: d.hub.Bus, Writer: d.writer,
		Leads: d.candidate.Leads, Fleet: d.fleetFile(), Shared: d.config.SharedDir(),
		GitHub: d.github, Runtime: d.runtime, Workspace: d.workspace, Reports: d.storedReports,
		IssueView: offers.IssueView, Remote: origin.Remote,
		Patience: patience, Log: d.log,
	}
}

// storedReports returns a worker's reports stored on the bus.
func (d *daemon) storedReports(ctx context.Context, worker string) (all []fsm.Report, err error) {
	stored, err := reports.NewCache(d.hub.Bus().Reports(), d.github.Text.Secrets).Of(ctx, worker)
	for _, r := range stored {
		all = append(all, reports.Translate(r))
	}
	return all, err
}
