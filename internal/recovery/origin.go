package recovery

// Resources that can fail. A model's resource is ModelPrefix followed by its provider's name.
const (
	ModelPrefix  = "model."
	ModelDefault = "model.default" // for an unknown provider
	GitHubAPI    = "github.api"
	GitHubGit    = "github.git" // clones, fetches and pushes
	Host         = "host"       // the director's machine: container engine, agent bus, disk
	Cluster      = "cluster"    // the cluster that schedules attempts on its nodes
)

// RefusesAll is the prefix of the reason for GitHubAPI's cooldown when GitHub refuses every request from the account.
// It never changes, because journals contain it.
const RefusesAll = "GitHub refuses every request of this account: "

// Origin is the source of a failure: the director itself, or a program in a stage.
type Origin struct {
	Director bool   // the director failed, or observed the failure
	Uses     string // the shared resource that it used, or empty
	Stage    string
	Provider string // provider of the agent's model; empty for a command
}

// Resource returns the shared resource behind a failure, or "" if the failure concerns only this task.
//
//	the director                          the resource in use: GitHub's git, GitHub's API, the host
//	a full disk                           the host: checkouts are on its disk
//	an agent                              its provider's model
//	a command in the CODE stage           model.default, unless a connection failed (its host
//	                                      is unknown)
//	any other command                     none
func (o Origin) Resource(r Reason) string {
	about, _ := Describe(r)
	switch {
	case o.Director:
		return o.Uses
	case r == DiskFull:
		return Host
	case about.Scope == OneHost, about.Scope == OneCluster: // the command itself used an engine or cluster
		return ""
	case o.Provider != "":
		return ModelPrefix + o.Provider
	case o.Stage == "CODE" && about.Scope != OneRemote:
		return ModelDefault
	}
	return ""
}
