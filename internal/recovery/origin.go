package recovery

// Resources that failures are of. A model's is ModelPrefix with the name of its provider.
const (
	ModelPrefix  = "model."
	ModelDefault = "model.default" // for an unknown provider
	GitHubAPI    = "github.api"
	GitHubGit    = "github.git" // clones, fetches and pushes
	Host         = "host"       // of the director: container engine, agent bus, disk
	Cluster      = "cluster"    // a cluster that schedules attempts on its nodes
)

// Origin is the source of a failure: the director itself, or a program in a stage.
type Origin struct {
	Director bool   // it failed itself, or saw the failure itself
	Uses     string // the resource in use; empty if none, or if not shared
	Stage    string
	Provider string // of the agent's model; empty for a command
}

// Resource returns the shared resource behind a failure, or "" if the failure concerns only this task.
//
//	the director                          the resource in use: GitHub's git, GitHub's API, the host
//	anything, for want of room            the host: checkouts are on its disk
//	an agent                              its provider's model
//	a command that stands for an agent    model.default, for failures that only a model has: its
//	                                      connections may lead anywhere
//	any other command                     nothing
func (o Origin) Resource(r Reason) string {
	about, _ := Describe(r)
	switch {
	case o.Director:
		return o.Uses
	case r == DiskFull:
		return Host
	case about.Scope == OneHost, about.Scope == OneCluster: // an engine or cluster used by the command itself
		return ""
	case o.Provider != "":
		return ModelPrefix + o.Provider
	case o.Stage == "CODE" && about.Scope != OneRemote:
		return ModelDefault
	}
	return ""
}
