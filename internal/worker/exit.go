package worker

// ExitCode is the worker's own exit code. What a stage's program returned is in the report, never here.
type ExitCode int

// The exit codes. 2 is left to the Go runtime: a panic outside of what is guarded.
const (
	ExitResult     ExitCode = 0  // the result was acknowledged
	ExitError      ExitCode = 1  // the final error was acknowledged
	ExitBadPlan    ExitCode = 10 // the plan or the command line cannot be used; nothing was sent
	ExitRefused    ExitCode = 11 // hello was answered with an incompatibility, or for another attempt
	ExitStopped    ExitCode = 12 // the director said stop
	ExitWatchdog   ExitCode = 13 // the plan's watchdog ended, with the final report acknowledged or not
	ExitTerminated ExitCode = 14 // SIGTERM or SIGINT: the container is being stopped
	ExitBroken     ExitCode = 15 // the worker itself failed; the report, if one could be sent, says how
)

// ExitRow explains one exit code to an operator.
type ExitRow struct {
	Code  ExitCode
	Means string
	Sent  string // what the director has got
}

// Exits lists every exit code once.
func Exits() []ExitRow {
	return []ExitRow{
		{ExitResult, "all stages ended well", "worker_result.v1, acknowledged"},
		{ExitError, "a stage failed, or the agent asks a question", "worker_error.v1, acknowledged"},
		{ExitBadPlan, "the plan cannot be read, or a flag is wrong", "nothing"},
		{ExitRefused, "the director refused the hello: another protocol version or another attempt", "nothing after the hello"},
		{ExitStopped, "the director sent stop.v1", "worker_error.v1 for shutdown and watchdog, if it was acknowledged in time; else nothing"},
		{ExitWatchdog, "watchdog_seconds have passed since the start", "worker_error.v1, if the bus was there"},
		{ExitTerminated, "SIGTERM or SIGINT", "nothing: who stops a container has decided already"},
		{ExitBroken, "a fault of the worker itself", "worker_error.v1, if the bus was there"},
	}
}
