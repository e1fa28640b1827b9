// Package program builds static programs of this repository for tests, with the settings of go test and go vet, so that
// all three share the build cache.
package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// Build builds a package as a static binary. to is the path of the file, or of a directory for it. Build runs in dir,
// or in the working directory if dir is empty.
func Build(ctx context.Context, dir, what, to string) error {
	if os.Getenv("CGO_ENABLED") != "0" &&
		build(ctx, dir, what, to, "-linkmode external -extldflags -static", os.Environ()) == nil {
		return nil
	}
	// Without cgo, Go's own linker makes static programs. This is also the fallback on machines without a static C
	// library.
	return build(ctx, dir, what, to, "", append(os.Environ(), "CGO_ENABLED=0"))
}

func build(ctx context.Context, dir, what, to, link string, env []string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", "-s -w "+link, "-o", to, what)
	cmd.Dir, cmd.Env = dir, slices.Concat(env, []string{"GOOS=linux"})
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("program: go build %s: %w\n%s", what, err, out)
	}
	return nil
}
