package doctor

import (
	"context"
	"time"

	"retake/internal/config"
)

// World gives the checks access to the environment.
type World struct {
	File     string          // path of the configuration; empty if there is no file
	How      string          // origin of the file: "-c", "RETAKE_CONFIG", …
	Problems config.Problems // problems with the configuration; any problem disables the other checks
	Config   config.Config
	Warnings []string // warnings about the policy
	Lookup   func(name string) (value string, set bool)
	Machine  Machine
	GitHub   func(context.Context) (GitHub, error)
	Engine   func(context.Context) (Engine, error)
}

// Machine gives access to this machine and the director's files on it.
type Machine interface {
	Now() time.Time
	// Programs returns the names that are missing from every directory of path. An empty path means the director's
	// PATH.
	Programs(path string, names []string) (missing []string)
	// Worker returns the path of the static program that runs in containers.
	Worker() (path string, err error)
	// Disk describes the file system that holds a directory or, if it does not exist, its nearest existing parent.
	Disk(dir string) (Disk, error)
	// Quota returns an error if checkouts cannot get their own file systems of this size.
	Quota(bytes int64) error
	// Listen returns an error if the address is not available.
	Listen(ctx context.Context, address string) error
	// Running describes the director that uses the configuration's data_dir, or returns "" if no director uses it. It
	// returns an error if the director is unhealthy or its state is unknown.
	Running(ctx context.Context) (says string, err error)
	// Journal reads the journal if no director is running, and summarises it.
	Journal(ctx context.Context) (says string, err error)
	// Fleet returns an error if data_dir has unfinished tasks of another fleet.
	Fleet() error
}

// Disk describes a file system, with the space available to users other than root.
type Disk struct {
	Path        string // as passed to Machine.Disk
	FreeBytes   int64
	FreeFiles   int64   // number of files that can still be created
	UsedFiles   int64   // number of existing files; both are 0 if the file system does not count files
	UsedPercent float64 // used part of the bytes or of the files, whichever is higher
	Full        bool    // above director.disk_watermark, so no attempt starts
}

// GitHub gives the checks read-only access to GitHub.
type GitHub interface {
	Account(ctx context.Context) (Account, error)
	Repository(ctx context.Context, name string) (Repository, error)
	HasBranch(ctx context.Context, repo, branch string) error
	// MissingLabels returns the configured labels that are missing from the repository.
	MissingLabels(ctx context.Context, repo string) ([]string, error)
	// MayRead returns the read permissions that the credential is missing, with GitHub's names for them.
	MayRead(ctx context.Context, repo, branch string) (lacks []string, err error)
}

// Account is the account that the credential belongs to.
type Account struct {
	Login   string
	Person  bool
	Kind    string            // "classic token", "fine-grained token", "token", "GitHub App"
	Told    bool              // GitHub listed the scopes
	Scopes  []string          // scopes of a classic token
	Rights  map[string]string // maps an App's permissions to read or write; nil if unknown
	Expires time.Time         // zero if unlimited or unknown
	Date    time.Time         // GitHub's clock; zero if unknown
	At      time.Time         // our clock at the time of the answer
}

// Repository describes a repository, and the account's permissions on it.
type Repository struct {
	Push          bool
	Archived      bool
	HasIssues     bool
	DefaultBranch string
}

// Engine is the container engine, or a substitute for plain processes.
type Engine interface {
	// Name returns the engine's display name.
	Name() string
	// Confines reports whether workers run in containers. Cannot lists the guarantees that the engine cannot give.
	Confines() bool
	Cannot() []string
	// Isolation lists the existing and the missing barriers between a container and the engine's host.
	Isolation(ctx context.Context) (holds, lacks []string, err error)
	// HasImage reports whether an image is on the engine's host. Pullable returns an error if the engine cannot pull
	// the image, and reports whether the registry answered.
	HasImage(ctx context.Context, image string) (bool, error)
	Pullable(ctx context.Context, image string) (answered bool, err error)
	// Gateway returns the address at which containers reach this machine, or "" before their network exists.
	Gateway(ctx context.Context) (address string, err error)
	// Confine creates a temporary network and checks that the engine's host restricts the workers' traffic.
	Confine(ctx context.Context) error
	// Try runs our worker in a temporary container with an attempt's settings.
	Try(ctx context.Context, t Trial) (Tried, error)
	Close() error
}

// Cluster is an Engine that runs workers on several nodes.
type Cluster interface {
	Engine
	// Missing returns the cluster permissions that a director needs but this account does not have.
	Missing(ctx context.Context) ([]string, error)
	// Admits returns an error if the cluster would reject a pod with an attempt's settings. It does not create a pod.
	Admits(ctx context.Context) error
}

// Trial describes the checks inside a container.
type Trial struct {
	Addresses []string // host:port; an empty host means the gateway of the network
	Listen    bool     // listen on the gateway during the trial, because no director listens there
	Programs  []string
}

// Tried is the result of a Trial.
type Tried struct {
	Reached map[string]string // maps each requested address to why it was unreachable, or to ""
	Missing []string          // programs missing from the container
	Network string            // description of the container's network
}
