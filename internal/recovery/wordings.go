package recovery

// wordings is the one table of titles and asks. The row of a reason without a place applies to all other places, and to
// callers that know only the reason. The last row is for an unknown reason.
var wordings = []wording{
	// Any reason.
	{
		"", isStale, "nothing has happened on this issue for too long",
		"Look at the director's machine: was it asleep, overloaded or stopped? If it is well, let Retake go on.", goOn,
	},
	{
		"", "iteration_budget", "the attempts for this issue are used up",
		"Decide whether the issue is worth two more attempts. `recovery.iteration_budget` bounds them.",
		"/agent budget +2",
	},
	{
		"", "paid_call_budget", "the paid calls for this issue are used up",
		"Decide whether the issue is worth more. If so, this comment starts every budget of it anew; " +
			"`recovery.paid_call_budget` bounds the calls.", goOn,
	},
	{
		"", "cost_budget", "the money for this issue is used up",
		"Decide whether the issue is worth more. If so, this comment starts every budget of it anew; " +
			"`recovery.cost_budget_usd` bounds the cost.", goOn,
	},
	{
		"", "budget", "the budget of this issue is used up",
		"Decide whether the issue is worth more. If so, this comment starts every budget of it anew.", goOn,
	},

	{
		PolicyViolation, isCutOff, "the attempt was ended: its worker flooded the director",
		"See in the issue and in the work so far what made it do that: an agent that attacks, or a program that asks " +
			"without a pause. Then say what is to be done differently.",
		yourWord,
	},

	// Refused pushes.
	{
		PolicyViolation, isSecret, "a secret in {path} must not be pushed",
		"Is it a real secret? Revoke it at its provider now, then have it taken out with this comment. Is it not a " +
			"real one? Name the file in `scope.allow_secrets` in " + inConfig + " ({holds scope.allow_secrets}), " +
			"then comment `/agent resume`: another attempt begins on what is kept.",
		"/agent retry Take the secret[ in {path}] out of the change, and read it from the environment instead.",
	},
	{
		PolicyViolation, isOwnSecret, "a secret of Retake's own in {path} must not be pushed",
		"Have it taken out with this comment; or, if that variable is no secret, put it with ! in front into " +
			"`containers.secrets` ({holds containers.secrets}), then comment `/agent resume`. An agent that writes " +
			"down what it was given may have sent it elsewhere, too: if in doubt, replace it at its provider.",
		"/agent retry Take the secret[ in {path}] out of the change, and read it from the environment instead.",
	},
	{
		PolicyViolation, isLarge, "{path} is too large to be pushed",
		"Have the file taken out with this comment. Or raise `scope.max_file_bytes` in " + inConfig +
			" ({holds scope.max_file_bytes}), then comment `/agent resume`.",
		"/agent retry Take large files[ such as {path}] out of the change.",
	},
	{
		PolicyViolation, isLink, "the link {path} leads out of the repository",
		"Have the link replaced with this comment, or do without it.",
		"/agent retry Replace symbolic links that lead out of the repository[, such as {path}].",
	},
	{
		PolicyViolation, isNotPushed, "the change must not be pushed as it is",
		"Have the change made smaller with this comment, or deliver it by hand.",
		"/agent retry Make the change smaller, and leave generated files out.",
	},
	{
		ScopeViolation, isTooMuch, "what the agent left is too much to look at",
		"This comment has Retake begin with a new checkout; a text behind it can say what to leave out. Or, if so " +
			"much is right, raise the limit that the cause names.",
		"/agent fresh",
	},
	{
		ScopeViolation, isLabelled, "{path} may not be changed by Retake",
		"Have the file left alone with this comment. Or, if the change is wanted, put the label {label} on this " +
			"issue and comment `/agent resume`.",
		"/agent retry Leave files that scope.deny protects[, such as {path},] as they are on the base branch.",
	},
	{
		ScopeViolation, isNotPushed, "{path} may not be changed by Retake",
		"Have the file left alone with this comment. Or, if the change is wanted, whoever runs Retake allows the " +
			"path in `scope.allow`, for issues with a label ({holds scope.allow}).",
		"/agent retry Leave files that scope.deny protects[, such as {path},] as they are on the base branch.",
	},
	{
		RateLimited, anywhere, "{provider} keeps refusing: too many requests",
		"Nothing is wrong with the change. See whether others use up the same limit; if not, let Retake wait " +
			"and try again.", "/agent snooze 2h",
	},
	{
		QuotaExhausted, anywhere, "a quota of {provider} is used up",
		"Add credit, or wait for the quota's reset.", onceDone,
	},
	{
		Overloaded, anywhere, "{provider} is overloaded",
		"Nothing is wrong with the change. Look at the provider's status page, or just let Retake wait and try again.",
		"/agent snooze 2h",
	},
	{
		NetworkTransient, inCommand, "the connections of {command} keep failing",
		"See whether workers can reach the host in the cause (`containers.network`).", onceDone,
	},
	{
		NetworkTransient, inDirector, "the director's connections keep failing",
		"See whether the director's machine can reach the host in the cause.", goOn,
	},
	{
		NetworkTransient, inDelivery, "the work is done, but GitHub cannot be reached",
		"See whether the director's machine can reach GitHub.", goOn,
	},
	{
		NetworkTransient, anywhere, "connections keep failing",
		"See whether workers can reach the host in the cause, such as the model's provider.", goOn,
	},
	{
		NetworkPermanent, inCommand, "{command} cannot reach a host",
		"Correct the address, the DNS entry or the certificate in the cause.", onceDone,
	},
	{
		NetworkPermanent, anywhere, "a host cannot be reached",
		"Correct the address, the DNS entry or the certificate in the cause.", onceDone,
	},
	{
		ContextOverflow, anywhere, "the task does not fit the model's context",
		"Split the issue; or name the few files that matter, so that the agent reads no others.",
		"/agent retry Read and change only <the files that matter>",
	},
	{
		AuthError, inAgent, "{provider} refuses the login of {agent}",
		"Renew the key in {variable} at {renewal}, and restart the director with it.", onceDone,
	},
	{
		AuthError, inCommand, "a login of {command} is refused",
		"Renew the credential that the command uses[: {variable}], and restart the director with it. Workers see " +
			"what `containers.env_passthrough` names.", onceDone,
	},
	{
		AuthError, inDirector, "GitHub refuses the director's token",
		"Renew the token[ in {variable}][ at {renewal}]: contents, issues and pull requests, read and write. Then " +
			"restart the director with it.", onceDone,
	},
	{
		AuthError, inDelivery, "the work is done, but GitHub refuses the director's token",
		"Renew the token[ in {variable}][ at {renewal}]: contents, issues and pull requests, read and write. Then " +
			"restart the director with it.", onceDone,
	},
	{
		AuthError, anywhere, "a login is refused",
		"Renew the credential in the cause, and restart the director with it.", onceDone,
	},
	{
		PermissionDenied, inAgent, "{agent} lacks a permission",
		"Grant what the cause names: to the key[ in {variable}], or to the agent's user in the worker.", onceDone,
	},
	{
		PermissionDenied, inCommand, "{command} lacks a permission",
		"Grant what the cause names, or correct the command in the configuration.", onceDone,
	},
	{
		PermissionDenied, inDirector, "GitHub does not let the director do this",
		"Grant the director's account what the cause names: contents, issues and pull requests, read and write.",
		onceDone,
	},
	{
		PermissionDenied, inDelivery, "the work is done, but GitHub does not let it be delivered",
		"Grant the director's account what the cause names: contents, issues and pull requests, read and write.",
		onceDone,
	},
	{
		PermissionDenied, anywhere, "a permission is missing",
		"Grant what the cause names, or change the issue so that it needs none.", onceDone,
	},
	{
		ToolNotFound, inCheckout, "{program} is missing in the checkout",
		"The stage runs {command}, and neither the change nor an earlier stage has made {program}. Is the change " +
			"right? Correct the command (`stage.run`, for all issues) in " + inConfig +
			" ({holds stage.run}), then comment `/agent resume`. Is it not? This comment has it kept.",
		"/agent retry What the stages run must be there[: {program}]",
	},
	{
		ToolNotFound, anywhere, "{program} is missing in the worker image",
		"Add {program} to {image} (`containers.image`: {holds containers.image}). Or correct the stage's command " +
			"(`stage.run`: {holds stage.run}) in " + inConfig + ".", onceDone,
	},
	{
		InvalidConfig, inAgent, "{agent} is configured wrongly",
		"Correct the model, flag or address in the cause, in the CODE stage in " + inConfig + " ({holds stage.agent}).",
		onceDone,
	},
	{
		InvalidConfig, inCommand, "{command} is called or configured wrongly",
		"Correct the stage's command in " + inConfig + " ({holds stage.run}), or the file that the cause names.",
		onceDone,
	},
	{
		InvalidConfig, anywhere, "a setting is wrong",
		"Correct the setting in the cause, and restart the director.", onceDone,
	},
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
