// Package workspace gives every task a checkout, keeps it across the task's attempts, and turns what an agent
// left in it into a commit on a branch of the remote, and into a child of it for each further delivery. It runs
// the git program, and never anything that a repository or an agent brought along.
//
//	<dir>/mirrors/<owner>/<repo>.git   objects of one repository, fetched before each new checkout, never pruned
//	<dir>/tasks/<nonce>/checkout       the work tree: the only folder that a worker sees, and untrusted from then on
//	<dir>/tasks/<nonce>/checkout.img   its file system, if there are quotas
//	<dir>/tasks/<nonce>/git            the task's git directory; borrows the mirror's objects
//	<dir>/tasks/<nonce>/task.json      repository, base commit, branches pushed, conflicts left; written last, so it marks a whole checkout
//	<dir>/tasks/<nonce>/checkout/.retake/STATE.json   what the director knows of the task, for whoever looks in
//	<dir>/tasks/<nonce>/validation     a copy of what would be delivered, for an attempt that only validates; gone with its container
//	<dir>/locks/                       one lock file per mirror and per task
//
// # Invariants
//
// Git never looks into a checkout that a worker has touched. Deliver and Sync link the files (not the folders,
// not the symbolic links' targets) into a staging folder of our own, leaving out everything named .git, and
// commit that. So hooks, filters, fsmonitor programs and nested repositories of the agent are never read, and a
// nested repository arrives as the plain files in it: it can't become a gitlink silently. A submodule of the
// base stays at the commit where it was.
//
// Before anything in a checkout is read that a worker had, it is measured: beyond Limits it is ErrTooMuch, and
// left alone. The base alone beyond them is ErrLimitTooLow, found before a worker has it. Walks go by
// descriptors, and need neither a descriptor nor memory for what is there. Each git process has limits of its
// own from its first step on, a deadline, and an answer that is bounded or looked at record by record.
//
// Bytes are committed as they lie in the work tree: attributes that convert (text, eol, ident, filter,
// working-tree-encoding) are off for checkout and commit alike, so what was validated is what is delivered. Large-file
// pointers stay pointers, submodules stay empty folders. Symbolic links are stored as links. Ignored files stay out,
// and so do, whatever an ignore file says, .retake/ and the state of agents (StatePaths), unless the base has the file.
//
// Nothing is pushed that DeliverRequest.Check did not see: the check gets the very objects that would go.
//
// An attempt that only validates gets the tree that Deliver would commit, written out by git from its objects
// into a folder of its own: nothing that is only in the checkout gets there. The tree is on record before, and
// Deliver, asked for what that attempt has validated, hands in that tree or nothing.
//
// A branch that was delivered once only moves forward: a further delivery is a child of what is there, and of
// the base if that was merged since. What people pushed to it is never pushed over: Join merges it into the
// work first, and if they push between Join and Deliver, that is ErrBranchMoved.
//
// Names are unique for ever because the nonce is; nothing here invents one. Mirrors are never pruned or collected
// (gc.auto=0): the tasks' git directories depend on their objects.
//
// Sync brings the base branch into a checkout that has drifted from it: a three-way merge of trees, in objects
// only. Either it goes through as a whole or no file is touched; only if the caller wants conflicts kept, git's
// conflict markers are written into the files. Then the files are on record, and Deliver refuses the work while
// one of them has all three markers of a conflict, unless it is to be shown unfinished. What a merge will do is
// on record before the first file changes, and the next operation finishes what a crash interrupted, so nobody
// ever sees a half merged tree. Files are written through os.Root, never through a link of the agent's.
//
// The caller makes sure that no worker runs in a checkout during Checkout, Sync, Mergeable, Join, Deliver,
// Patch, Unchanged, Fresh and Remove (its container is confirmed gone), and that nobody comes to want a
// checkout during Sweep. Drift and WriteState are fine beside a running worker. Locks are flock(2) and are
// inherited by git: if the director is killed while git runs, the next director waits for that git to end
// before it touches the same folder, and may then remove the lock files that it left.
//
// The package imports redact, ring, safefile and worktree, and nothing else of this module: what a task is, and
// when it gets a checkout, is the director's business. Names of branches and repositories are checked with the
// configuration.
//
// A power cut damages none of this: git syncs what it writes, and a work tree is synced before the record says
// that it is there. What git calls damaged all the same is made again where it is noticed (mend.go), and the
// operation is repeated: all of a mirror is on the remote, and the work is in the work tree, never in a git
// directory alone. What cannot be made again is ErrLost, and the next Checkout begins anew.
//
// # Clock
//
// Drift compares the wall clock with the dates of commits, which are whatever a committer claimed; it is never
// negative. All other times are given (DeliverRequest.AuthoredAt, State.UpdatedAt), but for the polling of a
// busy lock (20 ms).
//
// # Failure policy
//
// Everything returns *Error with a Kind (transient, permanent, conflict, auth), the last lines of git's own
// words, and the next step for a person where there is one. Every operation may be repeated and gives the same
// answer: the commit's author, dates and message are given, so its SHA is the same. A canceled context ends git
// with its children and is transient. Credentials travel in git's environment only, and are masked in whatever
// git says.
package workspace
