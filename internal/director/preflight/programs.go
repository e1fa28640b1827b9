package preflight

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/doctor"
	"retake/internal/fsm"
)

// SearchEvery is the pause between two searches while a program is missing.
const SearchEvery = time.Minute

// searchLimit limits one search, which may include downloading an image.
const searchLimit = 3 * time.Minute

// Programs searches the attempts' environment for the stages' programs. It searches once for each configuration, and
// repeats a search that failed or did not find a program.
type Programs struct {
	Owner  *loop.Owner
	Setup  func() *inforce.Setup
	Worker string        // path of the worker binary
	Every  time.Duration // pause before a repeated search
	Reread loop.Wake     // signalled when the machine has a new configuration
	Log    *zap.Logger
}

// ProgramsOf hashes the configuration that a search depends on. The result is never empty.
func ProgramsOf(c config.Config) string {
	text, err := json.Marshal([]any{
		c.Containers.Runtime, c.Containers.Image, c.Containers.Workdir, c.Containers.Env["PATH"], c.Containers.Mounts,
		c.StagePrograms(),
	})
	if err != nil {
		panic(err) // strings always encode
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Run searches until ctx is done.
func (s *Programs) Run(ctx context.Context) error {
	ended := func() bool { return ctx.Err() != nil }
	for !ended() {
		c := s.Setup().Config
		out := s.search(ctx, c)
		if ended() || !s.Owner.Decided(ctx, out) {
			return nil
		}
		if out.Failed || out.Missing != "" {
			s.Reread.Await(ctx, s.Every, true)
			continue
		}
		for ProgramsOf(s.Setup().Config) == out.For {
			select {
			case <-s.Reread:
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}

// search runs one search and returns the result as an event.
func (s *Programs) search(ctx context.Context, c config.Config) fsm.ProgramsSearched {
	out := fsm.ProgramsSearched{For: ProgramsOf(c)}
	ctx, cancel := context.WithTimeout(ctx, searchLimit)
	defer cancel()
	programs := c.StagePrograms()
	var names []string
	for _, p := range programs {
		names = append(names, p.Name)
	}
	missing, err := preflight{Options{Config: c, WorkerBinary: s.Worker, volumes: true}}.missing(ctx, names)
	if err != nil {
		if ctx.Err() == nil {
			s.Log.Warn("failed to search for the stages' programs", zap.Error(err))
		}
		out.Failed = true
		return out
	}
	var texts []string
	for _, p := range programs {
		if slices.Contains(missing, p.Name) {
			texts = append(texts, p.Name+", which "+p.Stage+" runs, is not "+placeOf(c))
		}
	}
	out.Missing = strings.Join(texts, "; ")
	return out
}

// placeOf describes where attempts run.
func placeOf(c config.Config) string {
	if c.Containers.Runtime == "process" {
		return "on the director's machine"
	}
	return "in the image " + c.Containers.Image
}

// missing returns the programs that do not exist where attempts run.
func (p preflight) missing(ctx context.Context, names []string) ([]string, error) {
	c := p.o.Config
	if len(names) == 0 {
		return nil, nil
	}
	if c.Containers.Runtime == "process" {
		return container.MissingPrograms(c.Containers.Env["PATH"], names), nil
	}
	engine, err := p.engine(ctx)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	if docker, ok := engine.(*dockerSeen); ok {
		if err := docker.EnsureImage(ctx, c.Containers.Image); err != nil {
			return nil, err
		}
	}
	found, err := engine.Try(ctx, doctor.Trial{Programs: names})
	return found.Missing, err
}
