package recovery

import "slices"

// wordings is the one table of titles and asks. The row of a reason without a place applies to all other places, and to
// callers that know only the reason. The last row is for an unknown reason.
var wordings = slices.Concat(accessWordings, workWordings)

// accessWordings are about budgets, pushes, limits, connections, logins, permissions and settings.
var accessWordings = []wording{
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
}
