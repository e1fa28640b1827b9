package recovery

// workWordings are about checks, conflicts, machines, rules, agents and everything else.
var workWordings = []wording{
	{
		Validation, inAgent, "the model's provider rejects what {agent} sends",
		"The request is malformed, which is a fault between agent and model: another model, or another version in " +
			"{image}, helps.", onceDone,
	},
	{
		Validation, inCheck, "your check {command} failed",
		"Read below what it objects to, and say what the change should look like.", yourWord,
	},
	{
		Validation, inSetup, "your step {command} failed",
		"Read below what it objects to, and correct the command or the repository.", onceDone,
	},
	{
		Validation, inReview, "the checks of {pull} fail",
		"Read the failing checks of {pull}, and say what the change should look like.", yourWord,
	},
	{
		Validation, anywhere, "a check refused the work",
		"Read what it objects to, and say what the change should look like.", yourWord,
	},
	{
		BuildFailed, inCheck, "your check {command} failed: a build error",
		"Read the error below, and say what the change should look like.", yourWord,
	},
	{
		BuildFailed, inSetup, "your step {command} failed: a build error",
		"This failed before the agent began. Repair the command or its dependencies; or repair the base branch, and " +
			"comment `/agent fresh` instead, which begins from there.", onceDone,
	},
	{
		BuildFailed, inReview, "the build of {pull} fails",
		"Read the failing checks of {pull}, and say what the change should look like.", yourWord,
	},
	{
		BuildFailed, anywhere, "the build fails",
		"Read the compiler's message, and say what the change should look like.", yourWord,
	},
	{
		TestsFailed, inCheck, "your check {command} failed: a broken test",
		"Read the failing test below, and say which behaviour is right.", "/agent retry <which behaviour is right>",
	},
	{
		TestsFailed, inSetup, "your step {command} failed: a broken test",
		"This failed before the agent began. Repair the command; or repair the base branch, and comment `/agent " +
			"fresh` instead, which begins from there.", onceDone,
	},
	{
		TestsFailed, inReview, "the tests of {pull} fail",
		"Read the failing checks of {pull}, and say which behaviour is right.",
		"/agent retry <which behaviour is right>",
	},
	{
		TestsFailed, anywhere, "the tests fail",
		"Read the failing test, and say which behaviour is right.", "/agent retry <which behaviour is right>",
	},
	{
		LintFailed, inCheck, "your check {command} failed: a linter objects",
		"Read its message below, and say how to satisfy it; or relax the rule.", yourWord,
	},
	{
		LintFailed, inSetup, "your step {command} failed: a linter objects",
		"This failed before the agent began. Relax the rule; or repair the base branch, and comment `/agent fresh` " +
			"instead, which begins from there.", onceDone,
	},
	{
		LintFailed, inReview, "the linter objects to {pull}",
		"Read the failing checks of {pull}, and say how to satisfy them; or relax the rule.", yourWord,
	},
	{
		LintFailed, anywhere, "the linter objects",
		"Read its message, and say how to satisfy it; or relax the rule.", yourWord,
	},
	{
		GitConflict, inDelivery, "the change conflicts with the base branch",
		"Both changed {path}. Say which side is right; or merge by hand, from the branch that is linked below.",
		"/agent retry Merge the base branch: <which side is right>",
	},
	{
		GitConflict, inReview, "{pull} conflicts with the base branch",
		"Resolve it on the branch of {pull} and comment `/agent resume`; or say which side is right where both " +
			"changed the same.",
		"/agent retry Merge the base branch: <which side is right>",
	},
	{
		GitConflict, anywhere, "a merge conflict",
		"Say which side is right[ in {path}], or close the competing change.",
		"/agent retry Merge the base branch: <which side is right>",
	},
	{
		DockerDaemon, inCommand, "{command} needs a container engine",
		"Workers have none of their own. Take it out of the command, or give them one (`containers.mounts`), in " +
			inConfig + " ({holds containers.mounts}).", onceDone,
	},
	{
		DockerDaemon, anywhere, "the container engine fails",
		"Check what runs the workers: `docker info` on the director's machine, `kubectl cluster-info` for a cluster; " +
			"`director doctor` says more.", onceDone,
	},
	{
		ImagePullFailed, inAgent, "{agent} cannot pull a container image",
		"Make the image in the cause available to workers, or take the option that needs it out of the stage.",
		onceDone,
	},
	{
		ImagePullFailed, inCommand, "{command} cannot pull a container image",
		"Make the image in the cause available to workers, or correct the command.", onceDone,
	},
	{
		ImagePullFailed, anywhere, "the worker image cannot be pulled",
		"Build or pull {image} on the director's machine; in a cluster, see that its nodes may pull it. Or correct " +
			"`containers.image` in " + inConfig + " ({holds containers.image}).", onceDone,
	},
	{
		NoCapacity, anywhere, "the cluster does not start a worker",
		"Read in the cause what the cluster lacks: make room there, or have workers ask for less " +
			"(`containers.memory`, `containers.cpus`) in " + inConfig + " ({holds containers.memory}).", onceDone,
	},
	{
		OOMKilled, anywhere, "the work runs out of memory",
		"Raise `containers.memory`[, now {limit},] in " + inConfig +
			" ({holds containers.memory}); or make the issue smaller.", onceDone,
	},
	{
		DiskFull, anywhere, "a disk is full",
		"Free space on the director's machine. `docker system df` shows what images and containers take.", onceDone,
	},
	{
		Timeout, inAgent, "{agent} takes too long",
		"Raise `timeout_seconds` of the CODE stage[, now {limit},] in " + inConfig +
			" ({holds stage.timeout_seconds}); or make the issue smaller.", onceDone,
	},
	{
		Timeout, inCheck, "your check {command} takes too long",
		"If it hangs, have that mended with `/agent retry`. If it is slow, raise `timeout_seconds` of the stage[, " +
			"now {limit},] in " + inConfig + " ({holds stage.timeout_seconds}).", onceDone,
	},
	{
		Timeout, inSetup, "your step {command} takes too long",
		"Raise `timeout_seconds` of the stage[, now {limit},] in " + inConfig + " ({holds stage.timeout_seconds}).",
		onceDone,
	},
	{
		Timeout, anywhere, "the work takes too long",
		"Raise `timeouts.worker_watchdog_seconds`[, now {limit},] in " + inConfig +
			" ({holds timeouts.worker_watchdog_seconds}); or make the issue smaller.", onceDone,
	},
	{
		WorkerLost, anywhere, "the worker keeps disappearing",
		"Look at the director's machine for what ended the containers; memory may be short.", goOn,
	},
	{
		BusDisconnect, anywhere, "workers cannot reach the director",
		"See whether the workers' network reaches the agent bus (`agent_bus.listen_addr`, firewall).", goOn,
	},
	{
		PolicyViolation, inAgent, "a safety rule stops {agent}",
		"Decide whether the work is wanted as the issue says it. If so, say how it can be done within the rule, or " +
			"do that step by hand.",
		"/agent retry <how to do it within the rule>",
	},
	{
		PolicyViolation, inDelivery, "the work is done, but GitHub's rules refuse it",
		"Either have the work changed with `/agent retry`, or change the rule of the repository that the cause names.",
		onceDone,
	},
	{
		PolicyViolation, anywhere, "a safety rule stops the work",
		"Decide whether the work is wanted at all; if so, say how it can be done within the rule, or change the rule.",
		"/agent retry <how to do it within the rule>",
	},
	{
		ScopeViolation, anywhere, "the change goes beyond the issue",
		"Decide whether the wider change is wanted, and say so.",
		"/agent retry <what belongs to this issue, and what does not>",
	},
	{
		ContractViolation, anywhere, "worker and director do not understand each other",
		"Give {image} the same version of Retake as the director, and restart it.", onceDone,
	},
	{
		NeedsHuman, isUnapproved, "the text of this issue has to be approved",
		"Read the issue as it is now. If it is to be worked on so, somebody with triage rights or more puts the " +
			"label for tasks on it. Where GitHub does not show who has edited an issue that is not enough: open one " +
			"of your own with the same text, and close this one.",
		goOn,
	},
	{
		NeedsHuman, inCommand, "{command} waits for an answer",
		"Nobody sits at a worker's terminal. Give the command an option that asks nothing, such as `--yes`.", onceDone,
	},
	{
		NeedsHuman, inReview, "reviewers ask for changes in {pull}",
		"Say which of their wishes to follow.", "/agent retry <which wishes to follow, and how>",
	},
	{
		NeedsHuman, isAsked, "the agent has a question",
		"Answer the question below.", "/agent retry <your answer>",
	},
	{
		NeedsHuman, isOutOfTurns, "{agent} reached its limit of turns",
		"Raise the limit in the CODE stage in " + inConfig + " ({holds stage.agent}), or just let it go on with what " +
			"it has done so far.", goOn,
	},
	{
		NeedsHuman, inAgent, "{agent} stopped for a decision",
		"Read the cause, and say how to go on.", "/agent retry <how to go on>",
	},
	{
		NeedsHuman, anywhere, "the agent has a question",
		"Answer the question.", "/agent retry <your answer>",
	},
	{
		CorruptState, inAgent, "stored data of {agent} is damaged",
		"Look at the file in the cause: if it is in a folder that workers share (`containers.mounts`), move it away.",
		onceDone,
	},
	{
		CorruptState, inDelivery, "the work is done, but cannot be delivered",
		"Look at the cause, which is about the checkout on the director's machine.", goOn,
	},
	{
		CorruptState, inDirector, "the work cannot begin: stored data is damaged",
		"This comment has Retake begin with a new checkout. If that fails, too, repair what the cause names on the " +
			"director's machine.", "/agent fresh",
	},
	{
		CorruptState, anywhere, "stored data is damaged",
		"Look at the file or repository in the cause, and repair or remove it.", onceDone,
	},
	{
		WorkLost, anywhere, "the work is lost: what is stored of it is damaged",
		"Look at the disk of the director's machine, which has damaged what it stored more than once.", goOn,
	},
	{
		AgentCrash, inAgent, "{agent} crashes",
		"Look at the crash below. Another version of the agent in {image} may help.", goOn,
	},
	{
		AgentCrash, inCheck, "your check {command} crashes",
		"Read the crash below: is it the change's fault, or the tool's? Say what the agent should change.", yourWord,
	},
	{
		AgentCrash, anywhere, "a program crashes",
		"Look at the crash. Another version of the program may help.", goOn,
	},
	{
		NoProgress, anywhere, "the agent changed nothing",
		"Say more exactly what to change; or close the issue if nothing is to be done.",
		"/agent retry <what exactly to change>",
	},
	{
		Unknown, inAgent, "{agent} failed and did not say why",
		"Look at the cause, and at what it printed if that is below. If it looks like a passing fault, let " +
			"Retake go on.", goOn,
	},
	{
		Unknown, inCheck, "your check {command} failed",
		"Read below what it printed, and say what the change should look like.", yourWord,
	},
	{
		Unknown, inSetup, "your step {command} failed",
		"Read below what it printed, and correct the command or the repository.", onceDone,
	},
	{
		Unknown, inDelivery, "the work is done, but cannot be delivered",
		"Read the cause, and remove what stands in the way.", onceDone,
	},
	{
		Unknown, inReview, "the checks of {pull} fail",
		"Read the failing checks of {pull}, and say what the change should look like.", yourWord,
	},
	{
		Unknown, anywhere, "an unknown failure",
		"Read the cause and the output; if it looks like a passing fault, let Retake go on.", goOn,
	},
}
