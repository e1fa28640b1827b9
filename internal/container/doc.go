// Package container runs each attempt in a container of its own on Docker, or as a plain process, and finds out
// how it ended. Open chooses. Package kubernetes, below this one, does it on a cluster. One suite of tests
// (containertest) holds for all three.
//
// # Invariant
//
// One attempt id names at most one container, for ever. Every operation is idempotent by that name, so that carrying an
// effect out twice is harmless:
//
//	Ensure   absent          -> create, see to the program and the files, start, follow the streams
//	         created         -> copy, start, follow: an earlier Ensure was cut off before the start. With an input it is
//	                            made anew, because whoever cut off the Ensure has ended that input
//	         running, paused -> left alone; its streams are followed again if nobody does (Adopt)
//	         exited          -> left alone, never restarted: attempt ids are unique, a new try is a new attempt.
//	                            The list shows it as exited, Stop collects it.
//	Stop     absent          -> Exit{Known: false}, with what was read of its streams, if anything
//	         created         -> removed; Known only if a start was tried and failed (Exit.StartError)
//	         running         -> SIGTERM, grace, SIGKILL, wait; paused: SIGKILL at once, unpause
//	         exited          -> collected, removed, confirmed absent
//
// Stop returns without an error only after the daemon has confirmed that no container of that name exists. What
// the daemon cannot confirm is an error (transient); the streams and the signals already sent are kept for the
// next call.
//
// A value lists, stops and watches only what belongs to its fleet: in Docker by the label retake.fleet, as a
// process by the record in its folder. "Gone" means gone with everything that the worker has started.
//
// The package imports its own supervisor, crashpoint, procfs, ring and safefile, no other adapter and nothing
// of the core: what an attempt is for, and what its end means, is the director's business.
//
// # Plain processes
//
// For development, on a machine without Docker: what a container confines is not confined (CannotConfine lists
// it), but for the director's own files and others' processes, which are out of sight (supervisor.Apart) unless
// Options.SameUser gives that up. A worker has a supervisor of its own (package supervisor), which is to it
// what the engine is to a container, outlives the director, and keeps everything in a folder below Options.Dir:
//
//	<attempt id>/attempt.json   whose it is: fleet, task; written last, the start follows
//	            /lock           held by the supervisor for as long as a process of the attempt may live
//	            /started.json   boot, and numbers with start times of supervisor and worker: a number alone names nobody
//	            /ended.json     exit code, and later that nothing is left
//	            /stdout, stderr newest 1 to 2 MiB each (/stdout.1: the part before)
//	            /retake         stands for /retake: the worker's program and its files; mode 0700, the worker's user's
//	            /home, /tmp     HOME and TMPDIR, unless the spec says otherwise; gone with the attempt
//	            /work           the work tree, if the spec has no checkout; gone with the attempt
//
// What a Spec says of /retake is translated, in its entrypoint too; the worker finds its checkout where it lies
// (Workdir). A mount has to be there already, at the same path. Environment: the spec's, PATH as in common
// images, HOME, TMPDIR, HOSTNAME and RETAKE_ATTEMPT_ID; nothing of the director's. It passes through a pipe,
// since it may hold secrets. As root workers run as Spec.User, which must be able to pass every folder above
// the checkout and Options.Dir; otherwise as the director's user. Nobody gains privileges (no_new_privs).
//
// Not knowable: how a worker ended whose supervisor was killed, or whose machine went down (Exit.Known is
// false); that a SIGKILL was the kernel's for want of memory; processes that have got rid of parent, session
// and environment alike, if the supervisor was killed before they could be ended.
//
// # Program
//
// Without files a container in Docker has the worker's program from a volume that the fleet shares, read-only:
// see program.go. The container holds it before anybody looks whether all of the program is there, so a prune
// in between costs nothing but another copy.
//
// # Input
//
// What only the first process may know goes through its standard input (Spec.Stdin), a pipe: no file, argument
// or variable holds it, nor anything that the engine shows. It comes whole, or ends early because the director
// was killed while it wrote; telling the two apart is the reader's business. As a process the worker gets it
// from its supervisor, which has all of it before the worker starts and lets nobody read its memory.
//
// # Streams
//
// In Docker both streams are followed from the start and kept in rings, newest 32 KiB each; Stop reads the log
// file as well, for what was missed while nobody followed. The log API's Tail would not do: it counts lines
// before it separates the streams, so that stderr can vanish behind much stdout. The log file is bounded (16
// MiB), so a flood on one stream can push the other one's lines out of it; the ring has kept them. Adopt
// follows a container that an earlier process started.
//
// FollowOutput is for people: whoever wants to see everything reads the log file from its beginning, as often
// as it likes, and what comes behind it.
//
// # Out of memory
//
// Best effort on the daemon's side (flag and event miss about one kill in twenty, and can come 50 ms after the
// exit), hence: the flag, asked for again after a moment, or an oom event that Watch saw, or one still in the
// daemon's buffer. The kernel's own count in the cgroup is not read here: the cgroup goes away with the
// container, and behind a remote or mounted socket the director does not see it. The worker can read it from
// inside. Exit code 137 with neither is left to the caller: Signal SIGKILL and not Killed.
//
// # Clock
//
// Graces and limits are measured by this process's monotonic clock; no decision compares it with the daemon's. The
// event stream resumes by the daemon's own timestamps.
//
// # Failure policy
//
// Errors are *Error values: Kind is one of the sentinels, Transient says if the same call may succeed later,
// the text ends with what to do next. Nothing is retried in here, except that Watch reconnects for ever. A call
// of Watch's may come twice or not at all: the list decides.
//
// In Docker, paths in a Spec are paths of the daemon's host. A director that itself runs in a container with
// the socket mounted needs its data directory at the same absolute path inside and outside; WorkerBinary alone
// is read by this process.
package container
