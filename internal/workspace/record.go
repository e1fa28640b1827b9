package workspace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"retake/internal/checkpoint"
)

const recordVersion = 1

// record is the content of task.json: the data about a checkout that the package must know without reading the
// checkout.
type record struct {
	Version    int    `json:"version"`
	Nonce      string `json:"nonce"`
	Repo       string `json:"repo"`
	BaseBranch string `json:"base_branch"`
	BaseSHA    string `json:"base_sha"`
	// Remote is the URL for refetching damaged repositories.
	Remote string `json:"remote,omitempty"`
	// Task is the issue key. Attempt is the last attempt that the checkout was prepared for. Both are missing from
	// older records.
	Task    string `json:"task,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Agreement is missing from older records.
	Agreement *Agreement `json:"agreement,omitempty"`
	// Pushed lists, by branch, the commits that we have pushed or tried to push. A commit is recorded before its push.
	// A branch on the remote is ours if its head is in this list.
	Pushed map[string][]string `json:"pushed,omitempty"`
	// Tips maps a branch to its newest commit contained in the work tree. This is our last push, or the commit merged
	// by Join.
	Tips map[string]string `json:"tips,omitempty"`
	// Known is the tree of the last merge that contained people's commits. Ignored files in that tree count as tracked.
	// If Known is empty, ignored files of the base count as tracked.
	Known string `json:"known,omitempty"`
	// Conflicts are the files in which merges left conflicts.
	Conflicts []leftover `json:"conflicts,omitempty"`
	// Fresh is set if the work tree was discarded, so that the next Checkout creates a new one.
	Fresh bool `json:"fresh,omitempty"`
	// Validation is the tree that the last validating attempt received.
	Validation *validation `json:"validation,omitempty"`
	// Manifest describes the work tree as last published or received. It is nil if the checkout does not travel.
	Manifest *checkpoint.Digest `json:"manifest,omitempty"`
	// Changed is set if a merge or a new checkout has changed the work tree since Manifest.
	Changed bool `json:"changed,omitempty"`
	// Remade counts how often a director with different storage has restored the checkout. The record with the higher
	// count is newer.
	Remade int `json:"remade,omitempty"`
	// Merge is an unfinished merge. Some or all of its changes may be in the work tree. workTrees.settle finishes it.
	Merge *merge `json:"merge,omitempty"`
}

// parseRecord parses and checks a task's record.
func parseRecord(data []byte, nonce string) (r record, err error) {
	err = json.Unmarshal(data, &r)
	if err == nil && (r.Version != recordVersion || r.Nonce != nonce || !shaForm.MatchString(r.BaseSHA)) {
		err = fmt.Errorf("version %d, nonce %.20q, base %.40q", r.Version, r.Nonce, r.BaseSHA)
	}
	return r, err
}

// known returns the tree or commit that determines which files are tracked.
func (r *record) known() string { return cmp.Or(r.Known, r.BaseSHA) }

// tip records that the work tree contains a commit of a branch.
func (r *record) tip(branch, sha string) {
	if r.Tips == nil {
		r.Tips = map[string]string{}
	}
	r.Tips[branch] = sha
}

// push records that a commit on a branch is ours, and reports whether the record changed.
func (r *record) push(branch, sha string) bool {
	known := slices.Contains(r.Pushed[branch], sha)
	if known && r.Tips[branch] == sha {
		return false
	}
	r.tip(branch, sha)
	if r.Pushed == nil {
		r.Pushed = map[string][]string{}
	}
	if !known {
		r.Pushed[branch] = append(r.Pushed[branch], sha)
	}
	return true
}

// discard marks the work tree as discarded and clears the data about it.
func (r *record) discard() { r.Fresh, r.Merge, r.Conflicts, r.Known = true, nil, nil, "" }

// belongs refuses a request for another repository or base branch.
func (r *record) belongs(op string, q Request) error {
	if r.Repo != q.Repo || r.BaseBranch != q.BaseBranch {
		return refuse(op, "", "nonce belongs to %s at %s, not to %s at %s", r.Repo, r.BaseBranch, q.Repo, q.BaseBranch)
	}
	return nil
}
