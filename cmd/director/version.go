package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
)

// versions is the output of `director version`.
type versions struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit,omitempty"`
	Modified bool     `json:"modified,omitempty"` // set if the sources had uncommitted changes
	Built    string   `json:"commit_time,omitempty"`
	Protocol string   `json:"protocol"` // the protocol between director and workers
	Envelope string   `json:"envelope"` // schema version of the message envelope
	Messages []string `json:"messages"` // each with its major version
	Snapshot int      `json:"snapshot"` // version of the snapshot format in the journal
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
}

func currentVersions() versions {
	v := versions{
		Version: version(), Protocol: wire.ProtocolVersion, Messages: wire.Types(), Envelope: wire.SchemaVersion,
		Snapshot: fsm.SnapshotVersion,
		Go:       runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	slices.Sort(v.Messages)
	if i, ok := debug.ReadBuildInfo(); ok {
		for _, s := range i.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.time":
				v.Built = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return v
}

func versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Args: cobra.NoArgs, Short: "Print the version, the commit, and the protocol and journal " +
			"versions",
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := currentVersions()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			commit := v.Commit
			if v.Modified {
				commit += ", modified"
			}
			fmt.Fprintf(w, "retake\t%s\ncommit\t%s\nprotocol\t%s, %s: %s\njournal\tsnapshot version %d\ngo\t%s, %s\n",
				v.Version, dash(commit), v.Protocol, v.Envelope, strings.Join(v.Messages, ", "), v.Snapshot, v.Go,
				v.Platform)
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "machine-readable")
	return c
}

// version returns the module's version or, in a development build, the commit.
func version() string {
	i, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := strings.TrimPrefix(i.Main.Version, "v"); v != "" && v != "(devel)" {
		return v
	}
	text := "development build"
	for _, s := range i.Settings {
		switch {
		case s.Key == "vcs.revision":
			text += ", commit " + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			text += ", modified"
		}
	}
	return text
}
