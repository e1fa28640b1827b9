package fsmtest

// projectMutants are bugs about the contracts and settings of repositories.
var projectMutants = []mutant{
	{
		"a broken contract holds up nothing", "fsm/breaker.go",
		"i.Repo == \"\" || strings.EqualFold(i.Repo, t.Key.Repo())\n",
		"i.Repo == \"\" || strings.EqualFold(i.Repo, t.Key.Repo()) && !i.OfContract()\n",
		[]string{"ContractsComeFirst", "NothingIntoAnOutage"},
		false,
	},
	{
		"another spelling of a repository hides its contract", "fsm/breaker.go",
		"strings.EqualFold(i.Repo, t.Key.Repo())\n", "i.Repo == t.Key.Repo()\n",
		[]string{"ContractsComeFirst", "NothingIntoAnOutage"},
		false,
	},
	{
		"a broken contract holds up all repositories", "fsm/attempt.go",
		"i.Repo, i.Reason, i.Cause = repo,", "i.Repo, i.Reason, i.Cause = \"\",",
		[]string{"IncidentsKeepToTheirRepository"},
		false,
	},
	{
		"a failed start does not show that the contract is broken", "fsm/attempt.go",
		"			m.noteContract(t.Key.Repo(), f.Text)\n", "",
		[]string{"ContractsComeFirst"},
		false,
	},
	{
		"a new problem of a contract is not shown", "fsm/attempt.go",
		"(!i.Breaker.Held || i.Cause != problem)", "!i.Breaker.Held",
		[]string{"ContractsComeFirst"},
		false,
	},
	{
		"a mended contract still holds up its repository", "fsm/attempt.go",
		"m.updateIncident(i, i.Breaker.Release())", "m.updateIncident(i, i.Breaker)",
		[]string{"ContractsComeFirst", contractsHold},
		false,
	},
	{
		"a broken contract is the task's fault", "fsm/attempt.go",
		"f.Reason == t.Ending.Known\n", "f.Reason == t.Ending.Known && t.Attempt > 9\n",
		[]string{"BrokenContractsAreFree"},
		false,
	},
	{
		"a wait for a contract uses up the budget", "fsm/attempt.go",
		"if f.Verdict.Row == rowContract {", "if f.Verdict.Row == rowContract && t.Iterations > 99 {",
		[]string{"BrokenContractsAreFree"},
		false,
	},
	{
		"a wait for a contract forgets the validation", "fsm/attempt.go",
		"Incident: contractKey(t.Key.Repo()), Validate: t.Validates,", "Incident: contractKey(t.Key.Repo()),",
		[]string{"BrokenContractsAreFree"},
		false,
	},
	{
		"an attempt's effects forget its contract", "fsm/recorder.go",
		"	e.Contract = t.Contract\n", "	if e.Kind != DoDeliver {\n		e.Contract = t.Contract\n	}\n",
		[]string{"ContractsAreKept"},
		false,
	},
	{
		"an attempt inherits the contract of the one before", "fsm/attempt.go",
		"case e.Failure == nil && t.Contract != nil:", "case e.Failure == nil && t.Contract != nil && t.Attempt > 99:",
		[]string{"ContractsAreKept"},
		false,
	},
	{
		"work loses its contract when another attempt begins", "fsm/apply.go",
		"t.LeavesValidation, t.Travels, t.Waits = f.LeavesValidation, f.Travels, nil",
		"t.LeavesValidation, t.Travels, t.Waits, t.Contract = f.LeavesValidation, f.Travels, nil, nil",
		[]string{"ContractsAreKept"},
		false,
	},
	{
		"the snapshot misses the contract", "fsm/task.go",
		"`json:\"contract,omitempty\"`", "`json:\"-\"`",
		[]string{"ContractsAreKept", replaySame},
		false,
	},
	{
		"a contract's callers do not decide", "fsm/machine.go",
		"k != nil && k.Staged", "k != nil && k.Staged && t.Attempt > 9",
		[]string{"StatedCallersDecide"},
		false,
	},
	{
		"a repository's own settings do not count", "fsm/machine.go",
		"]; p != nil {", "]; p != nil && t.Attempt > 9 {",
		[]string{"BudgetsNeverExceeded", "StatedCallersDecide", cleanlyValidated},
		false,
	},
}
