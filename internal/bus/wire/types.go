package wire

// MessageType names the row of Hello in the table.
func (Hello) MessageType() string { return "protocol_hello.v1" }

// MessageType names the row of Heartbeat in the table.
func (Heartbeat) MessageType() string { return "heartbeat.v1" }

// MessageType names the row of TaskProgress in the table.
func (TaskProgress) MessageType() string { return "task_progress.v1" }

// MessageType names the row of WorkerError in the table.
func (WorkerError) MessageType() string { return "worker_error.v1" }

// MessageType names the row of WorkerResult in the table.
func (WorkerResult) MessageType() string { return "worker_result.v1" }

// MessageType names the row of Welcome in the table.
func (Welcome) MessageType() string { return "protocol_welcome.v1" }

// MessageType names the row of Incompatibility in the table.
func (Incompatibility) MessageType() string { return "protocol_incompatibility.v1" }

// MessageType names the row of Probe in the table.
func (Probe) MessageType() string { return "probe.v1" }

// MessageType names the row of Stop in the table.
func (Stop) MessageType() string { return "stop.v1" }

// MessageType names the row of Pause in the table.
func (Pause) MessageType() string { return "pause.v1" }

// MessageType names the row of Resume in the table.
func (Resume) MessageType() string { return "resume.v1" }

// MessageType names the row of SyncRequired in the table.
func (SyncRequired) MessageType() string { return "sync_required.v1" }

// MessageType names the row of Snapshot in the table.
func (Snapshot) MessageType() string { return "project_state_snapshot.v1" }

// MessageType names the row of BudgetAcquire in the table.
func (BudgetAcquire) MessageType() string { return "budget_acquire.v1" }

// MessageType names the row of BudgetGrant in the table.
func (BudgetGrant) MessageType() string { return "budget_grant.v1" }

// MessageType names the row of BudgetRelease in the table.
func (BudgetRelease) MessageType() string { return "budget_release.v1" }

// MessageType names the row of BudgetReport in the table.
func (BudgetReport) MessageType() string { return "budget_report.v1" }
