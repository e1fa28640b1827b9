// Package supervisor is the parent of one worker that runs as a plain process, as a container engine is that of
// a container. The worker's program is run with "supervise FOLDER", and does this instead of its work; see
// Main.
//
//	director ──order──▶ supervisor ──fork──▶ worker ──▶ stages
//	            (pipe)      │  ▲               │          │
//	                        │  └── exit code ──┘          │
//	                        │  └── orphans ◀──────────────┘   (child subreaper)
//	                        ▼
//	            FOLDER: started.json, stdout, stderr, ended.json, lock
//
// Invariants:
//   - Nobody but root reads its memory, since the order has the worker's input.
//   - The supervisor is a session of its own and holds no pipe to the director once the worker runs: the director may end at
//     any moment, by SIGKILL too, without either of them noticing.
//   - It holds the lock on FOLDER/lock from before it exists (the director takes it and passes it on) until after
//     nothing of the worker is left. The kernel lets go of it when the supervisor ends, however that comes about: whether the
//     lock is held is the one true sign of life, which no reused number, no restart and no stale file can fake.
//   - Nothing outlives it in order: every orphan becomes its child, and it ends only when the kernel says that there
//     is no child left.
//   - The worker does not outlive it: the kernel kills the worker if the supervisor is killed. What the worker had started
//     may survive that, and is found by Leftovers.
//   - What it records is written atomically, except the streams, which are appended to files of bounded size.
//
// Not knowable: how a worker ended whose supervisor was killed with it (then there is no ended.json), also when
// the whole machine went down. A SIGKILL of the kernel for want of memory looks like anybody else's.
//
// Clock: process start times are the kernel's ticks since boot and are only compared with themselves. Wall time
// is for people.
//
// Failure policy: a full disk costs output, never the worker's life. Linux only: it needs /proc and prctl. It
// becomes part of every worker, so it imports little: procfs, safefile and the standard library.
package supervisor
