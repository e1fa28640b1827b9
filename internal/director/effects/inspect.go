package effects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"retake/internal/bus"
	"retake/internal/director/inforce"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/scope"
	"retake/internal/workspace"
)

// Secrets knows what must not leave the machine in what a worker made.
type Secrets struct {
	Setup  func() *inforce.Setup
	Token  func(context.Context) (string, error) // GitHub's, as it is now
	Values []leak.Value                          // those that containers are given, and GitHub's token at the start
	Bus    *bus.Bus
}

// TokenName is what people read as the name of GitHub's token.
const TokenName = "GitHub token"

// searchTime bounds how long a patch is searched for secrets. 50 MB of code take 25 s of a processor, and the
// director's memory does not grow with them.
const searchTime = 5 * time.Minute

// Inspect returns the look at the patch of a worker before it is pushed, for an issue with these labels.
func (v *Secrets) Inspect(worker string, labels []string) func(context.Context, *workspace.Patch) error {
	return func(ctx context.Context, p *workspace.Patch) error {
		limited, cancel := context.WithTimeout(ctx, searchTime)
		defer cancel()
		known, err := v.Known(ctx, worker)
		if err != nil { // what is not known cannot be found
			return &workspace.Error{Kind: workspace.Transient, Op: "look at the work", Detail: err.Error(), Err: err}
		}
		err = lookThrough(limited, v.Setup().Pushable.Look(labels, known), p)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return scope.TooLong(searchTime.String())
		}
		return err
	}
}

// Known returns what must not leave the machine in what a worker made: the values that containers are
// given, GitHub's token, and what PID 1 of its own container knows. An error: one of them cannot be had, so
// nothing can be said to be free of it.
func (v *Secrets) Known(ctx context.Context, worker string) (*leak.Finder, error) {
	token, err := v.Token(ctx) // it may be another one by now
	if err != nil {
		return nil, fmt.Errorf("the work cannot be searched for GitHub's token: %w", err)
	}
	known := append(slices.Clone(v.Values), leak.Value{Name: TokenName, Text: token})
	if worker != "" {
		known = append(known, leak.Value{Name: "key of the attempt", Text: string(v.Bus.AttemptKey(worker))})
		seed, err := v.Bus.Seed(worker) // the credential's other half is worth nothing without it
		if err != nil {
			return nil, fmt.Errorf("the work cannot be searched for the worker's credential: %w", err)
		}
		known = append(known, leak.Value{Name: "bus credential", Text: seed})
	}
	return leak.New(known...), nil
}

// lookThrough shows all of a patch to a look.
func lookThrough(ctx context.Context, look *scope.Look, p *workspace.Patch) error {
	files, err := p.Files(ctx)
	if err != nil {
		return err
	}
	var contents []workspace.PatchFile
	for _, f := range files {
		if look.File(scopeFile(f)) {
			contents = append(contents, f)
		}
	}
	err = p.Read(ctx, contents, func(f workspace.PatchFile, content string) error {
		return look.Content(ctx, scopeFile(f), content, func() (string, error) { return p.ReadBase(ctx, f) })
	})
	if err != nil {
		return err
	}
	return look.Err(ctx)
}

func scopeFile(f workspace.PatchFile) scope.File {
	return scope.File{Path: f.Path, Link: f.Link, Gone: f.Gone, Bytes: f.Bytes}
}
