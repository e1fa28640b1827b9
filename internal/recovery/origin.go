package recovery

// Resources that failures are of. A model's is ModelPrefix with the name of its provider.
const (
	ModelPrefix  = "model."
	ModelDefault = "model.default" // nothing says which
	GitHubAPI    = "github.api"
	GitHubGit    = "github.git" // clones, fetches and pushes
	Host         = "host"       // the director's: container engine, agent bus, disk
	Cluster      = "cluster"    // where a runtime that places attempts by itself finds room for them
)

// Origin is where a failure comes from: from the director itself, or from what ran in a stage.
type Origin struct {
	Director bool   // it failed itself, or saw the failure itself
	Uses     string // the resource that it used then; empty: none, or none that others use
	Stage    string
	Provider string // of an agent's model; empty: it was a command
}

// Resource names what the failure is of, so that whoever uses it fails alike; empty: the failure is the task's alone.
//
//	the director                          what it used: GitHub's git, GitHub's API, the host
//	anything, for want of room            the host: checkouts are on its disk
//	an agent                              its provider's model
//	a command that stands for an agent    model.default, where only a model fails like that; its connections may be to anywhere
//	any other command                     nothing
func (o Origin) Resource(r Reason) string {
	about, _ := Describe(r)
	switch {
	case o.Director:
		return o.Uses
	case r == DiskFull:
		return Host
	case about.Scope == OneHost, about.Scope == OneCluster: // an engine, or a cluster, of the command's own
		return ""
	case o.Provider != "":
		return ModelPrefix + o.Provider
	case o.Stage == "CODE" && about.Scope != OneRemote:
		return ModelDefault
	}
	return ""
}
