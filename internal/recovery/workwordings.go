package recovery

// workWordings are about checks, conflicts, machines, rules, agents and everything else.
var workWordings = []wording{
	{
		Validation, inAgent, "{agent} rejects its input",
		"Read the cause, and correct {agent}, its arguments or the files that it reads.", onceDone,
	},
	{
		Validation, isOfAgent, "{provider} rejects requests from {agent}",
		"The requests are malformed: {agent} and the model are incompatible. Use another model, or another " +
			"version of the agent {home}.", onceDone,
	},
	{
		Validation, inCheck, "your check {command} failed",
		"Read the output[ {below}], and tell the agent how to fix it.", yourWord,
	},
	{
		Validation, inSetup, "your step {command} failed",
		"Read the output[ {below}], and correct the command or the repository.", onceDone,
	},
	{
		Validation, inReview, "the checks on {pull} fail",
		"Read the failing checks on {pull}, and tell the agent how to fix them.", yourWord,
	},
	{
		Validation, anywhere, "a check rejected the work",
		"Read the output of the check, and tell the agent how to fix it.", yourWord,
	},
	{
		BuildFailed, inCheck, "your check {command} failed: a build error",
		"Read the error[ {below}], and tell the agent how to fix it.", yourWord,
	},
	{
		BuildFailed, inSetup, "your step {command} failed: a build error",
		"The step failed before the agent started. If the base branch is broken, fix it, and comment `/agent fresh` " +
			"to start from it. Otherwise, fix the command or its dependencies.",
		onceDone,
	},
	{
		BuildFailed, inReview, "the build of {pull} fails",
		"Read the failing checks on {pull}, and tell the agent how to fix them.", yourWord,
	},
	{
		BuildFailed, anywhere, "the build fails",
		"Read the compiler's message, and tell the agent how to fix it.", yourWord,
	},
	{
		TestsFailed, inCheck, "your check {command} failed: a broken test",
		"Read the failing test[ {below}], and decide which behaviour is right.",
		"/agent retry <which behaviour is right>",
	},
	{
		TestsFailed, inSetup, "your step {command} failed: a broken test",
		"The step failed before the agent started. If the base branch is broken, fix it, and comment `/agent fresh` " +
			"to start from it. Otherwise, fix the command.",
		onceDone,
	},
	{
		TestsFailed, inReview, "the tests in {pull} fail",
		"Read the failing checks on {pull}, and decide which behaviour is right.",
		"/agent retry <which behaviour is right>",
	},
	{
		TestsFailed, anywhere, "the tests fail",
		"Read the failing test, and decide which behaviour is right.", "/agent retry <which behaviour is right>",
	},
	{
		LintFailed, inCheck, "your check {command} failed: a lint error",
		"Read the message[ {below}], and tell the agent how to satisfy the linter, or relax the rule.", yourWord,
	},
	{
		LintFailed, inSetup, "your step {command} failed: a lint error",
		"The step failed before the agent started. If the base branch is broken, fix it, and comment `/agent fresh` " +
			"to start from it. Otherwise, relax the rule.",
		onceDone,
	},
	{
		LintFailed, inReview, "the linter rejects {pull}",
		"Read the failing checks on {pull}, and tell the agent how to satisfy the linter, or relax the rule.", yourWord,
	},
	{
		LintFailed, anywhere, "the linter rejects the change",
		"Read the linter's message, and tell the agent how to satisfy it, or relax the rule.", yourWord,
	},
	{
		GitConflict, inDelivery, "the change conflicts with the base branch",
		"Both sides changed {paths}. To merge by hand, use the linked branch. Otherwise, decide which side is right.",
		"/agent retry Merge the base branch: <which side is right>",
	},
	{
		GitConflict, inSetup, "your step {command} failed: a conflict",
		"Read the output[ {below}], and correct the command or the repository.", onceDone,
	},
	{
		GitConflict, inReview, "{pull} conflicts with the base branch",
		"You can resolve the conflict on the branch of {pull}, and comment `/agent resume`. Otherwise, decide which " +
			"side is right.",
		"/agent retry Merge the base branch: <which side is right>",
	},
	{
		GitConflict, anywhere, "a merge conflict",
		"Decide which side is right[ in {paths}], or close the competing change.",
		"/agent retry Merge the base branch: <which side is right>",
	},
	{
		DockerDaemon, inCommand, "{command} needs a container engine",
		"Workers have no container engine. Make the command work without one, or give workers access to one " +
			"(`containers.mounts`) in " + inConfig + " ({holds containers.mounts}).", onceDone,
	},
	{
		DockerDaemon, inAgent, "{agent} needs a container engine",
		"Workers have no container engine. Make the agent work without one, or give workers access to one " +
			"(`containers.mounts`) in " + inConfig + " ({holds containers.mounts}).", onceDone,
	},
	{
		DockerDaemon, anywhere, "the container engine fails",
		"Check the engine that runs the workers: `docker info` on the director's machine, or `kubectl cluster-info` " +
			"for a cluster. `director doctor` shows more. Once it works, comment:", onceDone,
	},
	{
		ImagePullFailed, inAgent, "{agent} cannot pull a container image",
		"Make the image named in the cause available to workers, or remove the option that needs it from the stage.",
		onceDone,
	},
	{
		ImagePullFailed, inCommand, "{command} cannot pull a container image",
		"Make the image named in the cause available to workers, or correct the command.", onceDone,
	},
	{
		ImagePullFailed, anywhere, "the worker image cannot be pulled",
		"Build or pull {image} on the director's machine. In a cluster, check that the nodes can pull it. Or correct " +
			"`containers.image` in " + inConfig + " ({holds containers.image}).", onceDone,
	},
	{
		NoCapacity, anywhere, "the cluster cannot start a worker",
		"The cause names the missing resource. Free some of it in the cluster, or lower the workers' requests " +
			"(`containers.memory`, `containers.cpus`) in " + inConfig + " ({holds containers.memory}).", onceDone,
	},
	{
		OOMKilled, anywhere, "the work runs out of memory",
		"Raise `containers.memory`[, now {limit},] in " + inConfig +
			" ({holds containers.memory}), or make the issue smaller.", onceDone,
	},
	{
		DiskFull, anywhere, "a disk is full",
		"Free up space on the machine named in the cause, or on the director's machine.", onceDone,
	},
	{
		Timeout, inAgent, "{agent} takes too long",
		"Raise `timeout_seconds` of the CODE stage[, now {limit},] in " + inConfig +
			" ({holds stage.timeout_seconds}), or make the issue smaller.", onceDone,
	},
	{
		Timeout, inCheck, "your check {command} takes too long",
		"If the check hangs, comment `/agent retry <how to fix it>`. If it is only slow, raise `timeout_seconds` of " +
			"the stage[, now {limit},] in " + inConfig + " ({holds stage.timeout_seconds}).",
		onceDone,
	},
	{
		Timeout, inSetup, "your step {command} takes too long",
		"Raise `timeout_seconds` of the stage[, now {limit},] in " + inConfig + " ({holds stage.timeout_seconds}).",
		onceDone,
	},
	{
		Timeout, anywhere, "the work takes too long",
		"The cause shows which limit was reached. Raise it, or make the issue smaller.", onceDone,
	},
	{
		WorkerLost, anywhere, "the worker keeps disappearing",
		"Find out why the containers exited. The director's machine may be short of memory.", goOn,
	},
	{
		BusDisconnect, anywhere, "workers cannot reach the director",
		"Check whether the workers' network can reach the agent bus (`agent_bus.listen_addr`, firewall). Once it " +
			"can, comment:", goOn,
	},
	{
		PolicyViolation, inAgent, "a safety rule stops {agent}",
		"Decide whether you want the work described in the issue. If so, explain how to do it within the rule, or do " +
			"the refused step by hand.",
		"/agent retry <how to do it within the rule>",
	},
	{
		PolicyViolation, isPushed, "GitHub found a secret in the change",
		"If the secret is real, revoke it at its provider now. For a false alarm, open the address in the cause, " +
			"allow the secret, and comment `/agent resume`. To have the agent remove the secret, comment:",
		"/agent retry Remove the secret reported by GitHub from the change, and read it from the environment instead.",
	},
	{
		PolicyViolation, inDelivery, "the work is done, but GitHub's rules reject it",
		"To have the agent change the work, comment `/agent retry <what to change>`. Otherwise, change the " +
			"repository rule named in the cause.",
		onceDone,
	},
	{
		PolicyViolation, anywhere, "a safety rule stops the work",
		"Decide whether you want the work at all. If so, explain how to do it within the rule, or change the rule.",
		"/agent retry <how to do it within the rule>",
	},
	{
		ScopeViolation, anywhere, "the change goes beyond the issue",
		"Decide how much of the wider change you want.",
		"/agent retry <which changes belong to this issue>",
	},
	{
		ContractViolation, inCheck, "your check {command} failed",
		"Read the output[ {below}], and tell the agent how to fix it.", yourWord,
	},
	{
		ContractViolation, anywhere, "the worker and the director are incompatible",
		"The director and the worker have different versions. Install both programs from the same release, in the " +
			"same directory, and restart the director.", onceDone,
	},
	{
		NeedsHuman, isUnapproved, "the text of this issue needs approval",
		"Read the current text of the issue. To approve it, a person with at least triage rights adds the task " +
			"label. If the cause says that GitHub does not show whether the text was edited, the label is not " +
			"enough: a person with write access opens a new issue with the text, and closes this one. Once the text " +
			"is approved, comment:",
		goOn,
	},
	{
		NeedsHuman, inCommand, "{command} is waiting for input",
		"Workers have no terminal. Give the command an option that disables prompts, such as `--yes`.", onceDone,
	},
	{
		NeedsHuman, inReview, "reviewers request changes in {pull}",
		"Decide which of their requests the agent should follow.", "/agent retry <which requests to follow, and how>",
	},
	{
		NeedsHuman, isAsked, "the agent has a question",
		"Answer the question[ {below}].", "/agent retry <your answer>",
	},
	{
		NeedsHuman, isTurnLimit, "{agent} reached its turn limit",
		"You can raise the limit first, in the CODE stage of " + inConfig + " ({holds stage.agent}). To let the " +
			"agent continue, comment:",
		goOn,
	},
	{
		NeedsHuman, inAgent, "{agent} needs a decision",
		"Read the cause, and decide.", "/agent retry <your decision>",
	},
	{
		NeedsHuman, anywhere, "the agent has a question",
		"Answer the question.", "/agent retry <your answer>",
	},
	{
		CorruptState, inAgent, "data stored by {agent} is damaged",
		"Check the file named in the cause. If workers share its directory (`containers.mounts`), move the file away.",
		onceDone,
	},
	{
		CorruptState, inDelivery, "the work is done, but cannot be delivered",
		"Read the cause, and repair the checkout on the director's machine.", goOn,
	},
	{
		CorruptState, inDirector, "the work cannot start: stored data is damaged",
		"If a new checkout has already failed, repair the data named in the cause on the director's machine. To " +
			"start over in a new checkout, comment:",
		"/agent fresh",
	},
	{
		CorruptState, anywhere, "stored data is damaged",
		"Check the file or repository named in the cause, and repair or remove it.", onceDone,
	},
	{
		WorkLost, anywhere, "the work is lost: its stored data is damaged",
		"Check the disk of the director's machine: it has damaged stored data more than once.", goOn,
	},
	{
		AgentCrash, inAgent, "{agent} crashes",
		"Read the crash output[ {below}], and consider another version of the agent {home}.",
		goOn,
	},
	{
		AgentCrash, inCheck, "your check {command} crashes",
		"Read the crash output[ {below}]. Did the change or the tool cause the crash? Tell the agent what to change.",
		yourWord,
	},
	{
		AgentCrash, anywhere, "a program crashes",
		"Read the crash report, and consider another version of the program.",
		goOn,
	},
	{
		NoProgress, anywhere, "the agent changed nothing",
		"Describe the change more precisely, or close the issue if there is nothing to do.",
		"/agent retry <what exactly to change>",
	},
	{
		Unknown, inAgent, "{agent} failed without giving a reason",
		"Read the cause, and any output[ {below}]. If the failure looks temporary, comment:",
		goOn,
	},
	{
		Unknown, inCheck, "your check {command} failed",
		"Read the output[ {below}], and tell the agent how to fix it.", yourWord,
	},
	{
		Unknown, inSetup, "your step {command} failed",
		"Read the output[ {below}], and correct the command or the repository.", onceDone,
	},
	{
		Unknown, inDelivery, "the work is done, but cannot be delivered",
		"Read the cause, and fix the problem that blocks the delivery.", onceDone,
	},
	{
		Unknown, inReview, "the checks on {pull} fail",
		"Read the failing checks on {pull}, and tell the agent how to fix them.", yourWord,
	},
	{
		Unknown, anywhere, "an unknown failure",
		"Read the cause and the output. If the failure looks temporary, comment:",
		goOn,
	},
}
