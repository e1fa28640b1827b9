package doctor

import (
	"context"
	"time"
)

// Needs is the resource that a check requires.
type Needs string

// The requirements, easiest to meet first.
const (
	Offline     Needs = "offline" // configuration, variables and files; used by `director config check`
	OnMachine   Needs = "machine" // programs, disk, ports, and leftovers of earlier directors on this machine
	NeedsGitHub Needs = "github"
	NeedsEngine Needs = "engine"
)

// check is one check of the table.
type check struct {
	name  string
	needs Needs
	about string // description for the documentation
	opens bool   // set if later rows use the resources that the check opens
	limit time.Duration
	look  func(context.Context, *exam)
}

// checks lists all checks in the order in which they run and appear. To add a check, add a row.
var checks = []check{
	{name: "configuration", needs: Offline, about: "The file exists and its keys are valid. Lists ineffective " +
		"settings.", look: lookConfiguration},
	{
		name: "work", needs: Offline, about: "Repositories and stages are set.",
		look: lookNeeds("github.repositories", "stage"),
	},
	{name: "credential", needs: Offline, about: "The token, the App's key and the webhook secret exist, and other " +
		"users cannot read them.", look: lookCredential},
	{name: "variables", needs: Offline, about: "The variables to pass to workers are set, and at least one allows " +
		"agents to log in.", look: lookVariables},
	{name: "data_dir", needs: Offline, about: "`director.data_dir` is writable or can be created, and other users " +
		"cannot access files in it.", look: lookDataDir},

	{name: "programs", needs: OnMachine, about: "git, the worker program and, without containers, the stages' " +
		"programs are installed.", look: lookPrograms},
	{name: "disk", needs: OnMachine, about: "Free space and free files for `data_dir` and `shared_dir`, compared " +
		"with `director.disk_watermark`.", look: lookDisk},
	{name: "quota", needs: OnMachine, about: "The machine supports `checkout.quota` for each checkout. Without a " +
		"quota, shows the limit that applies instead.", look: lookQuota},
	{
		name: "director", needs: OnMachine, about: "Shows a running director's health, and tasks of other fleets.",
		look: lookDirector,
	},
	{
		name: "journal", needs: OnMachine, about: "The journal is readable and complete. Runs only while no director " +
			"is running.",
		limit: 10 * time.Minute, look: lookJournal,
	},

	{name: "github", needs: NeedsGitHub, opens: true, about: "GitHub answers and accepts the credential. Shows the " +
		"account, and whether it belongs to a person.", look: lookAccount},
	{
		name: "clock", needs: NeedsGitHub, about: "Difference between this machine's clock and GitHub's clock.",
		look: lookClock,
	},
	{
		name: "rights", needs: NeedsGitHub, about: "Scopes of a classic token, permissions of an App, and the " +
			"token's expiry date.",
		look: lookRights,
	},
	{name: "repositories", needs: NeedsGitHub, about: "Each repository exists, accepts issues and pushes, and grants " +
		"the read permissions that the director needs.", look: lookRepositories},
	{name: "base branch", needs: NeedsGitHub, about: "`github.base_branch` exists in each " +
		"repository.", look: lookBranch},
	{name: "labels", needs: NeedsGitHub, about: "The director's four labels exist in each " +
		"repository.", look: lookLabels},

	{name: "engine", needs: NeedsEngine, opens: true, about: "The Docker or Kubernetes API answers. Warns about " +
		"plain processes.", look: lookEngine},
	{name: "cluster", needs: NeedsEngine, about: "On Kubernetes, the director has all required permissions in its " +
		"namespace, and a dry run shows that the API accepts a pod with an attempt's settings. The pod's runtime and " +
		"priority class exist, and all policies and quotas accept it.", look: lookCluster},
	{name: "isolation", needs: NeedsEngine, about: "Barriers between containers and the engine's host: user " +
		"namespaces, the system call filter, a read-only root file system.", look: lookIsolation},
	{
		name: "image", needs: NeedsEngine, about: "`containers.image` is available locally or in its registry.",
		look: lookImage,
	},
	{name: "network", needs: NeedsEngine, about: "`containers.network` exists, or can be created, and is " +
		"usable.", look: lookNetwork},
	{name: "egress", needs: NeedsEngine, about: "The kernel of the engine's host enforces `containers.egress`. The " +
		"check uses a temporary network.", limit: 3 * time.Minute, look: lookEgress},
	{name: "container", needs: NeedsEngine, about: "A container from the image reaches the bus and has the stages' " +
		"programs. The check does not pull images.", limit: 3 * time.Minute, look: lookInside},
	{
		name: "ports", needs: OnMachine, about: "`agent_bus.listen_port` and `director.http_listen` are available.",
		look: lookPorts,
	},
}

// Row documents one check.
type Row struct {
	Name, About string
	Needs       Needs
}

// Rows returns the checks in order.
func Rows() (out []Row) {
	for _, c := range checks {
		out = append(out, Row{c.name, c.about, c.needs})
	}
	return out
}
