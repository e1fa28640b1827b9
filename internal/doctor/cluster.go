package doctor

import (
	"context"
	"fmt"
)

// cluster is the engine, if it is one; else nil.
func (e *exam) cluster() Cluster {
	c, _ := e.engine.(Cluster)
	return c
}

func lookCluster(ctx context.Context, e *exam) {
	c := e.cluster()
	if c == nil {
		e.ok("workers run on none")
		return
	}
	lacks, err := c.Missing(ctx)
	if err != nil {
		e.problem(err.Error(), "")
		return
	}
	for _, right := range lacks {
		e.problem("the director's account may not "+right, "grant it in the namespace (a Role and its RoleBinding)")
	}
	if len(lacks) > 0 {
		e.notTried("whether the API takes a pod like those of attempts: rights are missing")
		return
	}
	e.ok("every right that a director needs is granted")
	if err := c.Admits(ctx); err != nil {
		e.problem(fmt.Sprintf("the API does not take a pod like those of attempts: %v", err), "")
		return
	}
	e.ok("the API takes a pod like those of attempts")
}
