// Package container runs each attempt in a separate container on Docker, or as a plain process, and determines how it
// ended. Open selects the runtime. Package kubernetes does the same on a cluster. The test suite containertest covers
// all three.
//
// # Invariant
//
// An attempt id names at most one container, forever. Every operation is idempotent by that name, so that repeating an
// effect is harmless:
//
//	Ensure   absent          -> create, provide program and files, start, follow the streams
//	         created         -> copy, start, follow, after an interrupted Ensure. With an input the container is
//	                            recreated, because the interruption ended that input
//	         running, paused -> unchanged; its streams are followed unless they already are (Adopt)
//	         exited          -> unchanged and never restarted, since each retry is a new attempt.
//	                            List reports it as exited, Stop collects it
//	Stop     absent          -> Exit{Known: false}, with the streams read so far
//	         created         -> removed, Known only after a failed start (Exit.StartError)
//	         running         -> SIGTERM, grace, SIGKILL, wait (paused: SIGKILL at once, unpause)
//	         exited          -> collected, removed, confirmed absent
//
// Stop succeeds only after the daemon has confirmed that no container of that name exists. Otherwise it returns a
// transient error, and keeps the streams and the sent signals for the next call.
//
// A runtime lists, stops and watches only workers of its fleet. Docker uses the label retake.fleet, and processes use
// the record in their directory. "Gone" includes all processes that the worker has started.
//
// The package imports its own subpackages, crashpoint, diskfault, procfs, publicaddr, ring and safefile. It never
// imports another adapter or any part of the core. Only the director interprets the end of an attempt.
//
// # Plain processes
//
// Plain processes are for development without Docker. They lack a container's confinement (CannotConfine lists the
// gaps). Only the director's files and other processes are hidden from a worker (supervisor.Apart), unless
// Options.SameUser is set. Each worker has a supervisor (package supervisor), which replaces the engine, outlives the
// director, and keeps its state in a directory below Options.Dir:
//
//	<attempt id>/attempt.json   fleet and task, written last, before the start
//	            /lock           held by the supervisor while a process of the attempt may live
//	            /started.json   boot, and pids and start times of the two processes, since pids are reused
//	            /ended.json     exit code, and later the end of all processes
//	            /stdout, stderr newest 1 to 2 MiB each (/stdout.1: the older part)
//	            /retake         replaces /retake (the worker's program and files, accessible only to its user)
//	            /home, /tmp     default HOME and TMPDIR, removed with the attempt
//	            /work           the work tree, if the spec has no checkout, removed with the attempt
//
// The package translates a Spec's paths below /retake, even in its entrypoint. The worker uses its checkout in place
// (Workdir). A mount must already exist at the same path. The environment consists of the spec's variables, PATH as in
// common images, HOME, TMPDIR, HOSTNAME and RETAKE_ATTEMPT_ID, without the director's variables. The supervisor
// receives the environment through a pipe, because it may contain secrets. If the director is root, workers run as
// Spec.User, which must be able to traverse every parent of the checkout and of Options.Dir. Otherwise they run as the
// director's user. They cannot gain privileges (no_new_privs).
//
// The package cannot always determine how a worker ended. If the supervisor was killed or the machine crashed,
// Exit.Known is false. The package cannot detect that the kernel sent a SIGKILL because memory ran out. It cannot find
// processes that have left their parent, session and environment if the supervisor was killed before it could end them.
//
// # Program
//
// In Docker, a container without Spec.Files gets the worker's program from a shared read-only volume; see program.go.
// The package creates the container before it checks the volume's content, because Docker does not prune a volume that
// a container uses.
//
// # Input
//
// Secrets reach the first process through its standard input (Spec.Stdin). No file, argument, environment variable or
// engine query reveals them. The input ends early if the director is killed while writing it, so the reader must check
// that it is complete. A plain process gets its input from its supervisor, which has the whole input before the worker
// starts and protects its memory from other processes.
//
// # Streams
//
// In Docker a reader follows both streams from the start and keeps the newest 32 KiB of each in a ring. Stop also reads
// the log file for missed output. It does not use the log API's Tail, which counts lines before it separates the
// streams, so that heavy stdout could hide stderr. The log file is bounded (16 MiB). One stream can push the other's
// lines out of the file, but the ring still has them. Adopt follows a container that an earlier process started.
//
// FollowOutput is for people. It reads the log file from its beginning, and then follows it.
//
// # Out of memory
//
// The package detects an out-of-memory kill from Docker's flag, which it reads twice, from an event that Watch saw, or
// from an event in the daemon's buffer. This is best effort, because the flag and the event miss about one kill in
// twenty and may arrive 50 ms after the exit. The package does not use the kernel's count in the cgroup, which
// disappears with the container and is invisible behind a remote socket. The worker reads that count inside the
// container. Without such evidence, the caller must interpret exit code 137, where Signal is SIGKILL and Killed is
// false.
//
// # Clock
//
// This process's monotonic clock measures grace periods and limits. How an attempt ended never depends on a comparison
// with the daemon's clock. After a reconnection, Watch requests events by the daemon's timestamps.
//
// # Failure policy
//
// Errors are *Error values. Kind is one of the sentinels, Transient is true if the same call may succeed later, and the
// text ends with the next step. The package does not retry, except that Watch reconnects forever. Watch may call its
// callback too often or not at all, so callers must rely on List.
//
// In Docker, paths in a Spec are paths on the daemon's host. A director in a container with a mounted socket needs its
// data directory at the same absolute path inside and outside. This process reads only WorkerBinary.
package container
