package audit

import "retake/internal/recovery"

// categories are the error classes of the founding document, in its order, and the reasons that belong to each.
var categories = []struct {
	name    string
	reasons []recovery.Reason
}{
	{"TaskError", []recovery.Reason{
		recovery.BuildFailed, recovery.TestsFailed, recovery.LintFailed, recovery.GitConflict, recovery.NoProgress, recovery.Timeout,
		recovery.NeedsHuman, recovery.ScopeViolation, recovery.Unknown,
	}},
	{"AgentError", []recovery.Reason{
		recovery.RateLimited, recovery.QuotaExhausted, recovery.Overloaded, recovery.ContextOverflow, recovery.AgentCrash,
		recovery.PolicyViolation,
	}},
	{"ValidationError", []recovery.Reason{recovery.Validation, recovery.InvalidConfig, recovery.ContractViolation}},
	{"SessionError", []recovery.Reason{recovery.CorruptState, recovery.DiskFull}},
	{"EnvironmentError", []recovery.Reason{
		recovery.NetworkTransient, recovery.NetworkPermanent, recovery.AuthError, recovery.PermissionDenied, recovery.ToolNotFound,
		recovery.DockerDaemon, recovery.ImagePullFailed, recovery.OOMKilled, recovery.WorkerLost, recovery.BusDisconnect,
	}},
}

// CategoryOf returns the founding document's class of error for a reason; TaskError for one that is not known.
func CategoryOf(reason string) string {
	for _, c := range categories {
		for _, r := range c.reasons {
			if string(r) == reason {
				return c.name
			}
		}
	}
	return categories[0].name
}
