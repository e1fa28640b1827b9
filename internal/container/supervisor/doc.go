// Package supervisor runs the parent process of a worker that is a plain process, and replaces the container engine for
// this worker. The worker's program runs it with "supervise FOLDER"; see Main.
//
//	director ──order──▶ supervisor ──fork──▶ worker ──▶ stages
//	            (pipe)      │  ▲               │          │
//	                        │  └── exit code ──┘          │
//	                        │  └── orphans ◀──────────────┘   (child subreaper)
//	                        ▼
//	            FOLDER: started.json, stdout, stderr, ended.json, lock
//
// Invariants:
//   - Only root can read the supervisor's memory, because the order contains the worker's input.
//   - The supervisor is a session leader and has no pipe to the director while the worker runs. The director can end at
//     any moment, even by SIGKILL, without affecting the supervisor or the worker.
//   - It holds FOLDER/lock from before its start (the director takes it and passes it on) until the worker's
//     last process has ended. The kernel releases the lock when the supervisor ends. Only the held lock proves that the
//     supervisor is alive, because pids can be reused and files can be stale.
//   - Processes do not outlive it in normal operation. Every orphan becomes its child, and it ends only after its last
//     child.
//   - The worker does not outlive it, because the kernel kills the worker if the supervisor is killed. The worker's
//     processes can survive that, and Leftovers finds them.
//   - Records are written atomically, and streams are appended to files of bounded size.
//
// A worker's end remains unknown if ended.json is missing because the supervisor was killed together with the worker,
// or if the machine crashed. A SIGKILL from the kernel's OOM killer looks like any other.
//
// Clock: process start times are the kernel's ticks since boot and are only compared with each other. Wall time is for
// people.
//
// Failure policy: a full disk loses output but never stops the worker. The package needs Linux with /proc and prctl.
// Because every worker contains it, it imports little: procfs, safefile and the standard library.
package supervisor
