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
		"Check whether the director's machine was asleep, overloaded or stopped. If it works now, comment:",
		goOn,
	},
	{
		"", "iteration_budget", "the attempts for this issue are used up",
		"Decide whether the issue is worth more attempts. `recovery.iteration_budget` sets the limit. To allow two " +
			"more, comment:",
		"/agent budget +2",
	},
	{
		"", "paid_call_budget", "the paid calls for this issue are used up",
		"Decide whether the issue is worth more calls. `recovery.paid_call_budget` sets the limit. To reset all " +
			"budgets of the issue and continue, comment:",
		goOn,
	},
	{
		"", "cost_budget", "the cost budget of this issue is used up",
		"Decide whether the issue is worth more money. `recovery.cost_budget_usd` sets the limit. To reset all " +
			"budgets of the issue and continue, comment:",
		goOn,
	},
	{
		"", "budget", "the budget of this issue is used up",
		"Decide whether the issue is worth a larger budget. To reset all budgets of the issue and continue, comment:",
		goOn,
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
		"If the secret is real, revoke it at its provider now. If it is not, add the file to `scope.allow_secrets` " +
			"in " + inConfig + " ({holds scope.allow_secrets}), and comment `/agent resume`. Retake then continues " +
			"with the work so far. To have the agent remove the secret, comment:",
		"/agent retry Remove the secret[ in {path}] from the change, and read it from the environment instead.",
	},
	{
		PolicyViolation, isOwnSecret, "one of Retake's secrets in {path} blocked the push",
		"The agent may also have sent the secret elsewhere. If in doubt, replace it at its provider. If the " +
			"variable is not a secret, list it with a leading `!` in `containers.secrets` " +
			"({holds containers.secrets}), and comment `/agent resume`. To have the agent remove the secret from the " +
			"file, comment:",
		"/agent retry Remove the secret[ in {path}] from the change, and read it from the environment instead.",
	},
	{
		PolicyViolation, isLarge, "{path} is too large to push",
		"To keep the file, raise `scope.max_file_bytes` in " + inConfig + " ({holds scope.max_file_bytes}), and " +
			"comment `/agent resume`. To have the agent remove the file, comment:",
		"/agent retry Remove large files[ such as {path}] from the change.",
	},
	{
		PolicyViolation, isLink, "the link {path} points outside the repository",
		"If the work needs the link, push the change by hand. To have the agent replace the link, comment:",
		"/agent retry Replace symbolic links that point outside the repository[, such as {path}].",
	},
	{
		PolicyViolation, isInside, "{path} is in a submodule, which deliveries cannot change",
		"A delivery can only change files in this repository, so change the submodule in its own repository. To " +
			"ignore the file, list it in `scope.allow_left_out` in " + inConfig + " ({holds scope.allow_left_out}), " +
			"and comment `/agent resume`. To have the agent remove its files from the submodule, comment:",
		"/agent retry Remove your files from submodule directories[, such as {path}].",
	},
	{
		PolicyViolation, isNested, "{path} belongs to a nested repository",
		"A delivery would contain the files of the nested repository, but not its history. To deliver them as plain " +
			"files, list {path} in `scope.allow_left_out` in " + inConfig + " ({holds scope.allow_left_out}), and " +
			"comment `/agent resume`. To have the agent remove the repository, for example because it was only " +
			"cloned for reference, comment:",
		"/agent retry Remove nested repositories[, such as the one with {path},] or only their .git if the files " +
			"belong to the change.",
	},
	{
		PolicyViolation, isFiltered, "{path} needs a git filter that Retake does not run",
		"Filters such as LFS store files in a different form. To push the raw file, list it in `scope.allow_raw` in " +
			inConfig + " ({holds scope.allow_raw}), and comment `/agent resume`. To add the file yourself from a " +
			"clone with that filter, copy it from the checkout first. To have the agent remove the file, comment:",
		"/agent retry Remove new files that have a filter in .gitattributes[, such as {path}].",
	},
	{
		PolicyViolation, isNamed, "git refuses the name {path}",
		"Some file systems treat this name as git's own directory. To have the agent rename the file, comment:",
		"/agent retry Rename or remove files with names that git refuses[, such as {path}].",
	},
	{
		PolicyViolation, isNotPushed, "Retake's rules forbid pushing this change",
		"You can push the change by hand. To have the agent make a smaller change, comment:",
		"/agent retry Make the change smaller, and leave generated files out.",
	},
	{
		ScopeViolation, isTooMuch, "the checkout exceeds a limit",
		"If the work needs that much, first raise the limit named in the cause. To start over in a new checkout, " +
			"comment the following, and add advice such as which files to leave out:",
		"/agent fresh",
	},
	{
		ScopeViolation, isHidden, "the name {path} has hidden characters",
		"Control and invisible characters can make one file look like another. To have the agent rename the file, " +
			"comment:",
		"/agent retry Rename files whose names contain control or invisible characters.",
	},
	{
		ScopeViolation, isLabelled, "Retake is not allowed to change {path}",
		"If you want the change, add the label {label} to this issue, and comment `/agent resume`. To have the " +
			"agent restore the file, comment:",
		"/agent retry Restore the files protected by scope.deny[, such as {path},] to their state on the base branch.",
	},
	{
		ScopeViolation, isNotPushed, "Retake is not allowed to change {path}",
		"If you want the change, allow the path for a label in `scope.allow` ({holds scope.allow}), add that label " +
			"to this issue, and comment `/agent resume`. To have the agent restore the file, comment:",
		"/agent retry Restore the files protected by scope.deny[, such as {path},] to their state on the base branch.",
	},
	{
		RateLimited, anywhere, "a service keeps rate-limiting requests",
		"The change is not to blame. The cause may name the service. To let Retake wait and try again, comment:",
		snooze,
	},
	{
		RateLimited, isProvider, "{provider} keeps rate-limiting requests",
		"The change is not to blame. Check whether other programs use up the same limit. To let Retake wait and try " +
			"again, comment:",
		snooze,
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
		"The change is not to blame. The cause may name the service. To let Retake wait and try again, comment:",
		snooze,
	},
	{
		Overloaded, isProvider, "{provider} is overloaded",
		"The change is not to blame. Check the provider's status page. To let Retake wait and try again, comment:",
		snooze,
	},
	{
		NetworkTransient, inCommand, "network connections from {command} keep failing",
		"Check whether workers can reach the host named in the cause (`containers.network`). Once they can, comment:",
		onceDone,
	},
	{
		NetworkTransient, inDirector, "the director's network connections keep failing",
		"Check whether the director's machine can reach the host named in the cause. Once it can, comment:", goOn,
	},
	{
		NetworkTransient, inDelivery, "the work is done, but GitHub is unreachable",
		"Check whether the director's machine can reach GitHub. Once it can, comment:", goOn,
	},
	{
		NetworkTransient, anywhere, "network connections keep failing",
		"Check whether workers can reach the host named in the cause. Once they can, comment:", goOn,
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
		"Renew the credential that {agent} uses[ ({variable})], and restart the director with it.",
		onceDone,
	},
	{
		AuthError, isOfAgent, "{agent} cannot log in to {provider}",
		"Renew the key in {variable} at {renewal}, and restart the director with it.", onceDone,
	},
	{
		AuthError, inCommand, "{command} cannot log in to a server",
		"Renew the credential that the command uses[ ({variable})], and restart the director with it. " +
			"`containers.env_passthrough` lists the variables that workers get.",
		onceDone,
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
		"The stage runs {command}, but {program} does not exist. If the command is wrong, correct it (`stage.run`, " +
			"for all issues) in " + inConfig + " ({holds stage.run}), and comment `/agent resume`. To have the " +
			"agent create the program, comment:",
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
