package bench

// Section is a measurement made by one test of a package.
type Section struct {
	Name    string // as in Figure.Section
	Title   string
	Package string
	Test    string // name of the test, which calls Begin
	Quick   bool   // CI also runs it, with Quick
}

// Sections lists all measurements, in the order in which `make bench` runs them.
var Sections = []Section{
	{
		Name: "decisions", Title: "Decisions: consume, decide, journal and acknowledge a report",
		Package: "./internal/director", Test: "TestBenchDecisions", Quick: true,
	},
	{
		Name: "heartbeats", Title: "Heartbeats while the director decides on reports", Package: "./internal/director",
		Test: "TestBenchHeartbeats",
	},
	{
		Name: "boot", Title: "Boot: read the journal and welcome the workers", Package: "./internal/director",
		Test: "TestBenchBoot",
	},
	{
		Name: "takes", Title: "Takes: from a label to a running container", Package: "./internal/director",
		Test: "TestBenchTakes",
	},
	{Name: "growth", Title: "Growth: cost of more tasks", Package: "./internal/fsm", Test: "TestBenchGrowth"},
	{
		Name: "idle", Title: "Idle: cost of an idle director", Package: "./cmd/director",
		Test: "TestBenchIdle",
	},
	{
		Name: "labels", Title: "Labels: 20 issues labelled at once, four workers, an agent that exits immediately",
		Package: "./cmd/director", Test: "TestBenchLabels",
	},
	{
		Name: "backlog", Title: "Backlog: 300 issues labelled at once, 40 workers, GitHub's limits at 1:10",
		Package: "./cmd/director", Test: "TestBenchBacklog",
	},
	{
		Name: "classification", Title: "Classification: classify the tail of a program's output",
		Package: "./internal/recovery/classify", Test: "TestBenchClassification",
	},
}
