package doctor

import (
	"context"
	"time"

	"retake/internal/config"
)

// World is what is looked at.
type World struct {
	File     string          // of the configuration, as it was found; empty: none was, or none was wanted
	How      string          // it was found: "-c", "RETAKE_CONFIG", …
	Problems config.Problems // of the configuration; with any, nothing else is looked at
	Config   config.Config
	Warnings []string // about the policy
	Lookup   func(name string) (value string, set bool)
	Machine  Machine
	GitHub   func(context.Context) (GitHub, error)
	Engine   func(context.Context) (Engine, error)
}

// Machine is this machine and what a director leaves on it.
type Machine interface {
	Now() time.Time
	// Programs returns those of the names that no folder of path has; path "" is the director's own.
	Programs(path string, names []string) (missing []string)
	// Worker is the static program that is put into containers.
	Worker() (path string, err error)
	// Disk is that of a folder, or of the nearest one above it that is there.
	Disk(dir string) (Disk, error)
	// Quota fails if checkouts could not be given a file system of so many bytes each.
	Quota(bytes int64) error
	// Listen fails if nobody could listen at an address now.
	Listen(ctx context.Context, address string) error
	// Running is what a director says that runs with the configuration's data_dir; empty: none runs. Its error:
	// one runs and is not well, or it cannot be told.
	Running(ctx context.Context) (says string, err error)
	// Journal reads the journal, if no director runs, and says what is there. It changes nothing.
	Journal(ctx context.Context) (says string, err error)
	// Fleet fails if tasks of another fleet are not finished in data_dir.
	Fleet() error
}

// Disk is a file system, as df says it to those who are not root.
type Disk struct {
	Path        string // what was looked at
	FreeBytes   int64
	FreeFiles   int64   // 0 with UsedFiles 0: it does not count them
	UsedFiles   int64   //
	UsedPercent float64 // of bytes, or of files if that is more
	Full        bool    // nothing new would be begun: director.disk_watermark
}

// GitHub is read, and never changed.
type GitHub interface {
	Account(ctx context.Context) (Account, error)
	Repository(ctx context.Context, name string) (Repository, error)
	HasBranch(ctx context.Context, repo, branch string) error
	// MissingLabels are ours that the repository lacks.
	MissingLabels(ctx context.Context, repo string) ([]string, error)
	// MayRead returns the permissions without which the credential cannot read what a director reads, as GitHub
	// calls them.
	MayRead(ctx context.Context, repo, branch string) (lacks []string, err error)
}

// Account is whom GitHub takes the credential for.
type Account struct {
	Login   string
	Person  bool
	Kind    string            // "classic token", "fine-grained token", "token", "GitHub App"
	Told    bool              // Scopes are what GitHub says
	Scopes  []string          // of a classic token
	Rights  map[string]string // of an App: permission → read or write; nil: not told
	Expires time.Time         // zero: never, or not told
	Date    time.Time         // GitHub's clock; zero: not told
	At      time.Time         // ours, when the answer came
}

// Repository is what GitHub says of one, and of the account's rights in it.
type Repository struct {
	Push          bool
	Archived      bool
	HasIssues     bool
	DefaultBranch string
}

// Engine is what runs workers.
type Engine interface {
	// Name says which it is.
	Name() string
	// Confines reports whether workers run in containers, Cannot lists what workers are promised and it does not keep.
	Confines() bool
	Cannot() []string
	// Isolation says what stands between a container and the engine's host, and what does not.
	Isolation(ctx context.Context) (holds, lacks []string, err error)
	// HasImage reports whether an image is on the engine's host, Pullable fails if its registry would not give
	// it to the engine.
	HasImage(ctx context.Context, image string) (bool, error)
	Pullable(ctx context.Context, image string) error
	// Gateway is the address at which containers reach this machine; empty: their network is not there yet.
	Gateway(ctx context.Context) (address string, err error)
	// Confine tries, on a network that is made for it, whether the engine's host keeps what workers reach, and
	// removes all that it made.
	Confine(ctx context.Context) error
	// Try runs our own program in a container like those of attempts, and removes all that it made.
	Try(ctx context.Context, t Trial) (Tried, error)
	Close() error
}

// Cluster is an Engine on whose nodes workers run, and not on one host.
type Cluster interface {
	Engine
	// Missing are the rights that a director needs there, and that this account does not have.
	Missing(ctx context.Context) ([]string, error)
	// Admits fails if the cluster would not take a pod like those of attempts. It makes none.
	Admits(ctx context.Context) error
}

// Trial is what is looked for from inside of a container.
type Trial struct {
	Addresses []string // host:port; an empty host: the gateway of the network
	Listen    bool     // nobody listens at the gateway: it is done for as long as the trial takes
	Programs  []string
}

// Tried is what was found there.
type Tried struct {
	Reached map[string]string // address as asked → why it was not reached; empty: it was
	Missing []string          // of Programs
	Network string            // in words: which network the container was on
}
