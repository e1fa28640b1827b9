package recovery

import "slices"

// wordings is the table of all titles and asks. A row with an empty Where applies to all remaining stages, and to
// failures without a known stage. The last row is for an unknown reason.
var wordings = slices.Concat(accessWordings, happenedWordings, workWordings)

// accessWordings are about budgets, pushes, limits, connections, logins, permissions and settings.
var accessWordings = []wording{
	// These rows apply to any reason.
	{
		"", isStale, "no activity on this issue for too long",
		"Check the director's machine: was it asleep, overloaded or stopped? If it is healthy, let Retake continue.",
		goOn,
	},
	{
		"", "iteration_budget", "the attempts for this issue are used up",
		"Decide whether the issue is worth two more attempts. `recovery.iteration_budget` sets the limit.",
		"/agent budget +2",
	},
	{
		"", "paid_call_budget", "the paid calls for this issue are used up",
		"Decide whether the issue is worth more calls. If so, this comment resets all of its budgets. " +
			"`recovery.paid_call_budget` limits the calls.", goOn,
	},
	{
		"", "cost_budget", "the cost budget of this issue is used up",
		"Decide whether the issue is worth more money. If so, this comment resets all of its budgets. " +
			"`recovery.cost_budget_usd` limits the cost.", goOn,
	},
	{
		"", "budget", "the budget of this issue is used up",
		"Decide whether the issue is worth a larger budget. If so, this comment resets all of its budgets.", goOn,
	},

	{
		PolicyViolation, isCutOff, "Retake stopped a worker that flooded the director",
		"Look for the cause in the issue and in the work so far, such as a malicious agent, or a program that sends " +
			"requests without pausing. Then tell the agent what to change.",
		yourWord,
	},

	// These rows are for refused pushes.
	{
		PolicyViolation, isSecret, "a secret in {path} blocked the push",
		"If the secret is real, revoke it at its provider now. This comment asks the agent to remove it from the " +
			"change. If it is not real, add the file to `scope.allow_secrets` in " + inConfig +
			" ({holds scope.allow_secrets}), then comment `/agent resume`: Retake continues with the work so far.",
		"/agent retry Remove the secret[ in {path}] from the change, and read it from the environment instead.",
	},
	{
		PolicyViolation, isOwnSecret, "one of Retake's secrets in {path} blocked the push",
		"This comment asks the agent to remove it. If the variable is not a secret, list it with a leading `!` in " +
			"`containers.secrets` ({holds containers.secrets}), then comment `/agent resume`. The agent may also " +
			"have sent the secret elsewhere: if in doubt, replace it at its provider.",
		"/agent retry Remove the secret[ in {path}] from the change, and read it from the environment instead.",
	},
	{
		PolicyViolation, isLarge, "{path} is too large to push",
		"This comment asks the agent to remove the file. To keep it, raise `scope.max_file_bytes` in " + inConfig +
			" ({holds scope.max_file_bytes}), then comment `/agent resume`.",
		"/agent retry Remove large files[ such as {path}] from the change.",
	},
	{
		PolicyViolation, isLink, "the link {path} points outside the repository",
		"This comment asks the agent to replace the link. If the work needs the link, push the change by hand.",
		"/agent retry Replace symbolic links that point outside the repository[, such as {path}].",
	},
	{
		PolicyViolation, isInside, "{path} is in a submodule, which deliveries cannot change",
		"A delivery can only change files in this repository. This comment asks the agent to remove its files from " +
			"the submodule, which must be changed in its own repository. To ignore the file, list it in " +
			"`scope.allow_left_out` in " + inConfig + " ({holds scope.allow_left_out}), then comment `/agent resume`.",
		"/agent retry Remove your files from submodule directories[, such as {path}].",
	},
	{
		PolicyViolation, isNested, "{path} belongs to a nested repository",
		"A delivery would contain the files of the nested repository, but not its history. This comment asks the " +
			"agent to remove the repository with its files, for example if it was only cloned for reference. To " +
			"deliver its files as plain files, list {path} in `scope.allow_left_out` in " + inConfig +
			" ({holds scope.allow_left_out}), then comment `/agent resume`.",
		"/agent retry Remove nested repositories[, such as the one with {path},] or only their .git if the files " +
			"belong to the change.",
	},
	{
		PolicyViolation, isFiltered, "{path} needs a git filter that Retake does not run",
		"Filters such as LFS store files in a different form. This comment asks the agent to remove the file: copy " +
			"it from the checkout first, and add it from a clone with that filter. To push the raw file, list it in " +
			"`scope.allow_raw` in " + inConfig + " ({holds scope.allow_raw}), then comment `/agent resume`.",
		"/agent retry Remove new files that have a filter in .gitattributes[, such as {path}].",
	},
	{
		PolicyViolation, isNamed, "git refuses the name {path}",
		"Some file systems treat this name as git's own directory. This comment asks the agent to rename it.",
		"/agent retry Rename or remove files with names that git refuses[, such as {path}].",
	},
	{
		PolicyViolation, isNotPushed, "Retake's rules forbid pushing this change",
		"This comment asks the agent for a smaller change. Alternatively, push the change by hand.",
		"/agent retry Make the change smaller, and leave generated files out.",
	},
	{
		ScopeViolation, isTooMuch, "the checkout exceeds a limit",
		"This comment starts over with a new checkout. Add advice after it, such as which files to leave out. If the " +
			"work needs that much, raise the limit named in the cause.",
		"/agent fresh",
	},
	{
		ScopeViolation, isHidden, "the name {path} has hidden characters",
		"Control and invisible characters can make one file look like another. This comment asks the agent to rename " +
			"it.",
		"/agent retry Rename files whose names contain control or invisible characters.",
	},
	{
		ScopeViolation, isLabelled, "Retake is not allowed to change {path}",
		"This comment asks the agent to restore the file. If you want the change, add the label {label} to this " +
			"issue and comment `/agent resume`.",
		"/agent retry Restore the files protected by scope.deny[, such as {path},] to their state on the base branch.",
	},
	{
		ScopeViolation, isNotPushed, "Retake is not allowed to change {path}",
		"This comment asks the agent to restore the file. If you want the change, allow the path for a label in " +
			"`scope.allow` ({holds scope.allow}), add that label to this issue and comment `/agent resume`.",
		"/agent retry Restore the files protected by scope.deny[, such as {path},] to their state on the base branch.",
	},
	{
		RateLimited, anywhere, "a service keeps rate-limiting requests",
		"The change is not to blame. The cause may name the service. Let Retake wait and try again.",
		"/agent snooze 2h",
	},
	{
		RateLimited, isProvider, "{provider} keeps rate-limiting requests",
		"The change is not to blame. Check whether other programs use up the same limit. If not, let Retake wait and " +
			"try again.", "/agent snooze 2h",
	},
	{
		QuotaExhausted, anywhere, "a quota is used up",
		"The cause may name the quota. Raise the quota, or wait for it to reset.", onceDone,
	},
	{
		QuotaExhausted, isProvider, "a quota of {provider} is used up",
		"Add credit, or wait for the quota to reset.", onceDone,
	},
	{
		Overloaded, anywhere, "a service is overloaded",
		"The change is not to blame. The cause may name the service. Let Retake wait and try again.",
		"/agent snooze 2h",
	},
	{
		Overloaded, isProvider, "{provider} is overloaded",
		"The change is not to blame. Check the provider's status page, or just let Retake wait and try again.",
		"/agent snooze 2h",
	},
	{
		NetworkTransient, inCommand, "network connections from {command} keep failing",
		"Check whether workers can reach the host named in the cause (`containers.network`).", onceDone,
	},
	{
		NetworkTransient, inDirector, "the director's network connections keep failing",
		"Check whether the director's machine can reach the host named in the cause.", goOn,
	},
	{
		NetworkTransient, inDelivery, "the work is done, but GitHub is unreachable",
		"Check whether the director's machine can reach GitHub.", goOn,
	},
	{
		NetworkTransient, anywhere, "network connections keep failing",
		"Check whether workers can reach the host named in the cause.", goOn,
	},
	{
		NetworkPermanent, inCommand, "{command} cannot reach a host",
		"Correct the address, the DNS entry or the certificate named in the cause.", onceDone,
	},
	{
		NetworkPermanent, anywhere, "a host is unreachable",
		"Correct the address, the DNS entry or the certificate named in the cause.", onceDone,
	},
	{
		ContextOverflow, anywhere, "the input to {agent} is too long",
		"Split the issue, or name the few files that matter, so that the agent reads only those.",
		"/agent retry Read and change only <the files that matter>",
	},
	{
		ContextOverflow, isOfAgent, "the task does not fit the model's context",
		"Split the issue, or name the few files that matter, so that the agent reads only those.",
		"/agent retry Read and change only <the files that matter>",
	},
	{
		AuthError, inAgent, "{agent} cannot log in to a server",
		"Renew the credential that {agent} uses[: {variable}], and restart the director with it.", onceDone,
	},
	{
		AuthError, isOfAgent, "{agent} cannot log in to {provider}",
		"Renew the key in {variable} at {renewal}, and restart the director with it.", onceDone,
	},
	{
		AuthError, inCommand, "{command} cannot log in to a server",
		"Renew the credential that the command uses[: {variable}], and restart the director with it. " +
			"`containers.env_passthrough` lists the variables that workers get.", onceDone,
	},
	{
		AuthError, inDirector, "GitHub rejects the director's token",
		"Renew the token[ in {variable}][ at {renewal}] with read and write access to contents, issues and pull " +
			"requests. Then restart the director with it.", onceDone,
	},
	{
		AuthError, inDelivery, "the work is done, but GitHub rejects the director's token",
		"Renew the token[ in {variable}][ at {renewal}] with read and write access to contents, issues and pull " +
			"requests. Then restart the director with it.", onceDone,
	},
	{
		AuthError, anywhere, "a login failed",
		"Renew the credential named in the cause, and restart the director with it.", onceDone,
	},
	{
		PermissionDenied, inAgent, "{agent} is missing a permission",
		"Grant the permission named in the cause to the agent's user in the worker.", onceDone,
	},
	{
		PermissionDenied, isOfAgent, "{provider} denies {agent} a permission",
		"Grant the permission named in the cause to the key[ in {variable}][ at {renewal}].", onceDone,
	},
	{
		PermissionDenied, inCommand, "{command} is missing a permission",
		"Grant the permission named in the cause, or correct the command in the configuration.", onceDone,
	},
	{
		PermissionDenied, inDirector, "the director is missing a permission on GitHub",
		"Grant the director's account the permission named in the cause. It needs read and write access to contents, " +
			"issues and pull requests.",
		onceDone,
	},
	{
		PermissionDenied, inDelivery, "the work is done, but GitHub does not allow its delivery",
		"Grant the director's account the permission named in the cause. It needs read and write access to contents, " +
			"issues and pull requests.",
		onceDone,
	},
	{
		PermissionDenied, anywhere, "a permission is missing",
		"Grant the permission named in the cause, or change the issue so that the work does not need it.", onceDone,
	},
	{
		ToolNotFound, inCheckout, "{program} is missing from the checkout",
		"The stage runs {command}, but {program} does not exist. If the command is wrong, correct it " +
			"(`stage.run`, for all issues) in " + inConfig + " ({holds stage.run}), then comment `/agent resume`. " +
			"If the command is right, this comment asks the agent to create the program.",
		"/agent retry Create the program that the stage runs[: {program}]",
	},
	{
		ToolNotFound, anywhere, "{program} is missing from the worker image",
		"Add {program} to {image} (`containers.image`: {holds containers.image}). Or correct the stage's command " +
			"(`stage.run`: {holds stage.run}) in " + inConfig + ".", onceDone,
	},
	{
		InvalidConfig, inAgent, "{agent} is misconfigured",
		"Correct the setting, flag or address named in the cause, in the CODE stage of " + inConfig +
			" ({holds stage.agent}).",
		onceDone,
	},
	{
		InvalidConfig, inCommand, "{command} has a wrong argument or setting",
		"Correct the stage's command in " + inConfig + " ({holds stage.run}), or the file named in the cause.",
		onceDone,
	},
	{
		InvalidConfig, anywhere, "a setting is wrong",
		"Correct the setting named in the cause, and restart the director.", onceDone,
	},
}
