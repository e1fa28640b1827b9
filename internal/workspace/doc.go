// Package workspace gives every task a checkout and keeps it across the task's attempts. It commits the agent's changes
// to a branch of the remote. Each further delivery becomes a child of that commit. The package runs the git program,
// but never a program from a repository or an agent.
//
//	<dir>/mirrors/<owner>/<repo>.git   objects of one repository, fetched before each new checkout, never pruned
//	<dir>/tasks/<nonce>/checkout       the work tree, the only directory that a worker sees, and untrusted afterwards
//	<dir>/tasks/<nonce>/checkout.img   its file system, if there are quotas
//	<dir>/tasks/<nonce>/git            the task's git directory, which borrows the mirror's objects
//	<dir>/tasks/<nonce>/task.json      base commit, pushed branches, conflicts (written last, to mark completion)
//	<dir>/tasks/<nonce>/checkout/.retake/STATE.json   the director's view of the task, for people and agents
//	<dir>/tasks/<nonce>/validation     the tree to deliver, for a validating attempt (removed with its container)
//	<dir>/locks/                       one lock file per mirror and per task
//
// # Invariants
//
// Git never reads a checkout that a worker has touched. Snapshots link the files into a private staging directory
// without anything named .git, and commit that directory. They never link directories or the targets of symbolic links.
// As a result, git never reads the agent's hooks, filters, fsmonitor programs or nested repositories. A nested
// repository becomes plain files and cannot turn into a gitlink. A submodule of the base stays at its commit.
// DeliverRequest.Check receives the files that a commit cannot contain: files in submodules, files whose names git
// refuses, and the .git of nested repositories.
//
// After a worker's run, the package measures a checkout before it reads a file in it. A checkout that exceeds Limits
// causes ErrTooMuch and stays unchanged. A base that exceeds Limits causes ErrLimitTooLow before a worker gets the
// checkout. Walks open directories by descriptor, and their memory does not grow with the tree. Each git process starts
// with a deadline and resource limits. Its output is bounded or processed record by record.
//
// Commits contain the exact bytes of the work tree. Converting attributes (text, eol, ident, filter,
// working-tree-encoding) are off in checkouts and commits, so that the delivered bytes equal the validated bytes.
// Patch.Filtered lists files that a filter would convert. Large-file pointers stay pointers, and submodules stay empty
// directories. Symbolic links are stored as links. Commits omit ignored files. Regardless of ignore files, they also
// omit .retake/ and agent state (StatePaths), except for files in the base.
//
// DeliverRequest.Check reads the same objects that Deliver pushes.
//
// A validating attempt gets the tree that Deliver would commit, written by git from its objects into a separate
// directory. The directory contains no other files of the checkout. The tree is recorded first, and Deliver delivers
// exactly that tree as validated work, or fails.
//
// A delivered branch only moves forward. A further delivery is a child of the branch's head, and of the base if Sync
// has merged the base since. Other people's commits are never overwritten: Join merges them into the work first, and a
// push between Join and Deliver causes ErrBranchMoved.
//
// Task directories are never reused, because nonces never repeat. Mirrors are never pruned or garbage-collected
// (gc.auto=0), because the tasks' git directories depend on their objects.
//
// Sync merges new commits of the base branch into a checkout. Git computes a three-way merge of trees in the git
// directory, without a work tree. By default, a conflict is an error, and Sync then touches no file. With
// KeepConflicts, Sync writes git's conflict markers into the files instead. The record lists those files. Unless
// Unfinished is set, Deliver refuses the work while one of the files has all three markers of a conflict.
//
// Sync records the result of a merge before it changes the first file. The next operation finishes an interrupted
// merge, so callers never see a half-merged tree. Sync writes files through os.Root, never through an agent's link.
//
// The caller guarantees that no worker runs in a checkout during Checkout, Sync, Mergeable, Join, Deliver, Patch,
// Unchanged, Fresh and Remove. In other words, the worker's container must be confirmed gone. During Sweep, no task may
// need a new checkout. Drift and WriteState are safe with a running worker. Locks are flock(2), and git inherits them.
// If the director is killed while git is running, the next director waits for that git process before it touches the
// same directory. It may then remove leftover lock files.
//
// The package imports checkpoint, redact, ring, safefile and worktree, but never another adapter. The director decides
// when a task gets a checkout. Package config checks branch and repository names.
//
// A power cut causes no damage. Git syncs its files, and the package syncs a work tree before the record declares it
// complete. If git still reports a repository as damaged, the package recreates it (mend.go) and repeats the operation.
// The remote has every object of a mirror, and a git directory is never the only copy of the work. Unrecoverable damage
// causes ErrLost, and the next Checkout starts over.
//
// # Clock
//
// Drift compares the wall clock with the dates claimed by committers, and is never negative. Callers supply the times
// to store (DeliverRequest.AuthoredAt, State.UpdatedAt). Otherwise, the package uses the clock for timeouts, polling a
// busy lock (20 ms), pauses requested by a server, and the interval between mirror refetches.
//
// # Failure policy
//
// Every error except ErrNothingToDeliver is an *Error with a Kind, part of git's output and, if possible, the next step
// for a person. Every operation is idempotent. Callers supply the author date and message of a commit, so a repeated
// delivery produces the same SHA. If the context is canceled, git and its children are killed, and the error is
// transient. Credentials are passed in git's environment only, and are masked in its output.
package workspace
