package doctor

import (
	"context"
	"time"
)

// Needs says what a check cannot do without.
type Needs string

// What checks need, each with more that can be in the way.
const (
	Offline     Needs = "offline" // configuration, variables and files: `director config check` looks at these
	OnMachine   Needs = "machine" // programs, disk, ports, and what a director has left here
	NeedsGitHub Needs = "github"
	NeedsEngine Needs = "engine"
)

// check is one row: everything there is to know about it.
type check struct {
	name  string
	needs Needs
	about string // for the documentation: what it looks at
	opens bool   // it opens what it needs
	limit time.Duration
	look  func(context.Context, *exam)
}

// checks are all, in the order in which they are made and shown. A new one is a row here.
var checks = []check{
	{name: "configuration", needs: Offline, about: "The file is found, and all its keys are right; settings that " +
		"have no effect.", look: lookConfiguration},
	{
		name: "work", needs: Offline, about: "Repositories and stages are named.",
		look: lookNeeds("github.repositories", "stage"),
	},
	{name: "credential", needs: Offline, about: "The token, the App's key and the webhooks' secret are there, and " +
		"not readable for everybody.", look: lookCredential},
	{name: "variables", needs: Offline, about: "Variables that workers get are set, and agents get one that they can " +
		"log in with.", look: lookVariables},
	{name: "data_dir", needs: Offline, about: "`director.data_dir` can be written to or created, and others cannot " +
		"look into it.", look: lookDataDir},

	{name: "programs", needs: OnMachine, about: "git and the worker's program are here; without containers also the " +
		"stages' programs.", look: lookPrograms},
	{name: "disk", needs: OnMachine, about: "Free space and files of the disks of `data_dir` and `shared_dir`, " +
		"against `director.disk_watermark`.", look: lookDisk},
	{name: "quota", needs: OnMachine, about: "Each checkout can be given `checkout.quota` of the disk here; without " +
		"one, what bounds them instead.", look: lookQuota},
	{
		name: "director", needs: OnMachine, about: "Whether a director runs already, and is well; tasks of another fleet.",
		look: lookDirector,
	},
	{
		name: "journal", needs: OnMachine, about: "The journal can be read, and is whole; only if no director runs.",
		limit: 10 * time.Minute, look: lookJournal,
	},

	{name: "github", needs: NeedsGitHub, opens: true, about: "GitHub answers and takes the credential; which account " +
		"it is, and whether it is a person's own.", look: lookAccount},
	{name: "clock", needs: NeedsGitHub, about: "This machine's clock against GitHub's.", look: lookClock},
	{
		name: "rights", needs: NeedsGitHub, about: "Scopes of a classic token, permissions of an App, end of the token.",
		look: lookRights,
	},
	{name: "repositories", needs: NeedsGitHub, about: "Each repository is there, takes issues and pushes, and can be " +
		"read as a director reads it.", look: lookRepositories},
	{name: "base branch", needs: NeedsGitHub, about: "`github.base_branch` is in each repository.", look: lookBranch},
	{name: "labels", needs: NeedsGitHub, about: "Our four labels are in each repository.", look: lookLabels},

	{name: "engine", needs: NeedsEngine, opens: true, about: "Docker answers, or the API of Kubernetes, or workers " +
		"are to be plain processes.", look: lookEngine},
	{name: "cluster", needs: NeedsEngine, about: "On Kubernetes: every verb that a director needs is granted in its " +
		"namespace, and the API takes a pod like those of attempts (a dry run): its runtime and priority class are " +
		"there, no rule or quota is against it.", look: lookCluster},
	{name: "isolation", needs: NeedsEngine, about: "What stands between containers and the engine's host: user " +
		"namespaces, the filter of system calls, a read-only root file system.", look: lookIsolation},
	{
		name: "image", needs: NeedsEngine, about: "`containers.image` is here, or its registry would give it.",
		look: lookImage,
	},
	{name: "network", needs: NeedsEngine, about: "`containers.network` is there and can serve.", look: lookNetwork},
	{name: "egress", needs: NeedsEngine, about: "The kernel of the engine's host keeps what workers reach, as " +
		"`containers.egress` says; tried on a network made for it.", limit: 3 * time.Minute, look: lookEgress},
	{name: "container", needs: NeedsEngine, about: "From inside of a container of the image: the bus is reached, the " +
		"stages' programs are there. Nothing is pulled for it.", limit: 3 * time.Minute, look: lookInside},
	{
		name: "ports", needs: OnMachine, about: "`agent_bus.listen_port` and `director.http_listen` are free.",
		look: lookPorts,
	},
}

// Row is what the documentation says of a check.
type Row struct {
	Name, About string
	Needs       Needs
}

// Rows lists the checks in their order.
func Rows() (out []Row) {
	for _, c := range checks {
		out = append(out, Row{c.name, c.about, c.needs})
	}
	return out
}
