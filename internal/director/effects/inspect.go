package effects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"retake/internal/bus"
	"retake/internal/fsm"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/scope"
	"retake/internal/workspace"
)

// Secrets searches workers' output for values that must not leave the machine.
type Secrets struct {
	Contracts *Contracts
	Token     func(context.Context) (string, error) // returns GitHub's current token
	Values    []leak.Value                          // values passed to containers, and GitHub's token at startup
	Bus       *bus.Bus
}

// TokenName is the name of GitHub's token in messages to people.
const TokenName = "GitHub token"

// searchTime limits how long one patch is searched for secrets. A patch of 50 MB takes 25 s of processor time. The
// director's memory use does not depend on the patch's size.
const searchTime = 5 * time.Minute

// Inspect returns a function that checks the patch of an effect's worker before the push. labels are the issue's
// labels. The function sets asked to the files that only a draft may change. If asked is nil, the delivery cannot be a
// draft, and these files are refused.
func (v *Secrets) Inspect(e fsm.Effect, labels []string, asked *[]scope.Asked) func(context.Context,
	*workspace.Patch) error {
	return func(ctx context.Context, p *workspace.Patch) error {
		limited, cancel := context.WithTimeout(ctx, searchTime)
		defer cancel()
		known, err := v.Known(ctx, e.Worker)
		if err != nil { // without all values, the search could miss a secret
			return &workspace.Error{Kind: workspace.Transient, Op: "examine the work", Detail: err.Error(), Err: err}
		}
		in, err := v.Contracts.Of(ctx, e)
		if err != nil {
			return err
		}
		look := in.Pushable.Look(labels, known)
		err = lookThrough(limited, look, p, asked == nil)
		if asked != nil {
			*asked = look.Asked()
		}
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return scope.TooLong(searchTime.String())
		}
		return err
	}
}

// Known returns a finder for the values that must not leave the machine in a worker's output. These are the values
// passed to containers, GitHub's token, and the worker's own secrets: its key and its bus credential. Known fails if it
// cannot read one of them, because a finder without that value would let unsafe output pass.
func (v *Secrets) Known(ctx context.Context, worker string) (*leak.Finder, error) {
	token, err := v.Token(ctx) // the token may have changed since startup
	if err != nil {
		return nil, fmt.Errorf("search the work for the GitHub token: %w", err)
	}
	known := append(slices.Clone(v.Values), leak.Value{Name: TokenName, Text: token})
	if worker != "" {
		known = append(known, leak.Value{Name: "key of the attempt", Text: string(v.Bus.AttemptKey(worker))})
		seed, err := v.Bus.Seed(worker) // the credential's JWT is useless without the seed
		if err != nil {
			return nil, fmt.Errorf("search the work for the worker's credential: %w", err)
		}
		known = append(known, leak.Value{Name: "bus credential", Text: seed})
	}
	return leak.New(known...), nil
}

// lookThrough passes all files in a patch to look.
func lookThrough(ctx context.Context, look *scope.Look, p *workspace.Patch, refuseAsked bool) error {
	for _, l := range p.LeftOut {
		if l.Kind == workspace.NestedHistory {
			look.Nested(l.Path)
		} else {
			look.LeftOut(l.Path, l.Submodule)
		}
	}
	filtered, err := p.Filtered(ctx)
	if err != nil {
		return err
	}
	for _, f := range filtered {
		look.Filtered(f.Path, f.Filter)
	}
	targets, err := p.Links(ctx)
	if err != nil {
		return err
	}
	links := make([]scope.Link, 0, len(targets))
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		links = append(links, scope.Link{Path: name, Target: targets[name]})
	}
	look.Links(links)
	for _, f := range p.All() {
		look.Ask(scopeFile(f))
	}
	if refuseAsked {
		look.RefuseAsked()
	}
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
	return scope.File{Path: f.Path, Link: f.Link, Gone: f.Gone, Old: f.Old, Bytes: f.Bytes}
}
