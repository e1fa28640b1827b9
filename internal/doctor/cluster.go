package doctor

import (
	"context"
	"fmt"
)

// cluster returns the engine if it is a cluster, or nil.
func (e *exam) cluster() Cluster {
	c, _ := e.engine.(Cluster)
	return c
}

func lookCluster(ctx context.Context, e *exam) {
	c := e.cluster()
	if c == nil {
		e.ok("Kubernetes is not used")
		return
	}
	lacks, err := c.Missing(ctx)
	if err != nil {
		e.problem(err.Error(), "")
		return
	}
	for _, right := range lacks {
		e.problem("the director's account lacks permission "+
			"to "+right, "grant it in the namespace (with a Role and a RoleBinding)")
	}
	if len(lacks) > 0 {
		e.notTried("cannot dry-run a pod without these permissions")
		return
	}
	e.ok("the director has all required permissions")
	if err := c.Admits(ctx); err != nil {
		e.problem(fmt.Sprintf("the API rejects a dry run of an attempt's pod: %v", err), "")
		return
	}
	e.ok("the API accepts a dry run of an attempt's pod")
}
