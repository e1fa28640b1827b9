package recovery

// happenedWordings are rows for circumstances that change a failure's cause or remedy.
var happenedWordings = []wording{
	{
		NetworkPermanent, isWebPage, "{command} got a web page instead of an answer",
		"The response came from a sign-in page, a proxy or a wrong address. Correct the address that {command} uses, " +
			"or sign in to the workers' network.", onceDone,
	},
	{
		NetworkPermanent, inAgent, "{agent} cannot reach a host",
		"Correct the address, the DNS entry or the certificate named in the cause.", onceDone,
	},
	{
		ToolNotFound, isOwn, "{program}, the CODE program, is missing",
		"Install {program} {home}, or correct the CODE stage in " + inConfig + " ({holds stage.run}).", onceDone,
	},
	{
		ToolNotFound, isProcess, "{program} is missing on the director's machine",
		"Install {program} on the director's machine, or correct the stage's command (`stage.run`: " +
			"{holds stage.run}) in " + inConfig + ".", onceDone,
	},
	{
		ToolNotFound, isServer, "{agent} cannot find the MCP server {program}",
		"Register {program}, an MCP server, in the settings of {agent} {home}, or correct the CODE stage in " +
			inConfig + " ({holds stage.agent}).", onceDone,
	},
	{
		ToolNotFound, isModule, "{command} cannot find the module {program}",
		"Add {program} to the repository, install it {home}, or correct the stage's command (`stage.run`: " +
			"{holds stage.run}) in " + inConfig + ".", onceDone,
	},
	{
		ToolNotFound, isForbidden, "{program} is not executable",
		"To have the agent make {program} executable, comment `/agent retry <what to change>`. Otherwise, make it " +
			"executable yourself, or correct the stage's command (`stage.run`: {holds stage.run}) in " + inConfig +
			".",
		onceDone,
	},
	{
		PolicyViolation, isScope, "the work is done, but the token cannot change workflows",
		"Grant the director's token permission to change workflows (scope `workflow`, or `Workflows` for a " +
			"fine-grained token), and restart the director with it.", onceDone,
	},
	{
		OOMKilled, isProcess, "the work runs out of memory",
		"Plain processes share the memory of the director's machine. Add memory, lower `director.max_workers` in " +
			inConfig + " ({holds director.max_workers}), or make the issue smaller.", onceDone,
	},
	{
		DiskFull, isDocker, "a disk is full",
		"Free up space on the director's machine. `docker system df` shows the space used by images and containers.",
		onceDone,
	},
	{
		DiskFull, isProcess, "a disk is full",
		"Free up space on the director's machine.", onceDone,
	},
	{
		Timeout, isWatchdog, "the attempt takes too long",
		"Raise `timeouts.worker_watchdog_seconds`[, now {limit},] in " + inConfig +
			" ({holds timeouts.worker_watchdog_seconds}), or make the issue smaller.", onceDone,
	},
	{
		Timeout, isOwnLimit, "{command} reports a timeout",
		"Retake did not end it; the program has its own limit. The cause shows which part was slow: fix it, or raise " +
			"the program's limit.", onceDone,
	},
	{
		WorkerLost, isProcess, "the worker keeps disappearing",
		"Find out why the worker process exited. The director's machine may be short of memory.", goOn,
	},
	{
		AgentCrash, isRepeated, "{agent} crashes every time",
		"Read the crash output[ {below}], and use another version of the agent {home}.", onceDone,
	},
	{
		Unknown, isRepeated, "{agent} fails every time",
		"Read the cause and any output[ {below}]. Correct the agent, or give it different instructions.", yourWord,
	},
	{
		Unknown, isQuoted, "{agent} failed",
		"Read the cause, and any output[ {below}]. If the failure looks temporary, comment:",
		goOn,
	},
}
