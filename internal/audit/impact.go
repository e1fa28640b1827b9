package audit

import (
	"maps"
	"slices"
	"strings"
)

// Impact describes the work blocked by a failed task.
type Impact struct {
	Blocked     []string // all tasks waiting for this one, directly or indirectly, sorted
	Depth       int      // length of the longest chain of tasks waiting for each other
	CanContinue bool     // at least one other task does not wait for this one
}

// impactOf follows the dependencies from a failed task. It counts tasks in a cycle once.
func impactOf(dependsOn map[string][]string, failed string) Impact {
	waiting := map[string][]string{}
	for _, task := range slices.Sorted(maps.Keys(dependsOn)) {
		for _, on := range dependsOn[task] {
			waiting[on] = append(waiting[on], task)
		}
	}
	blocked, path, depth := map[string]bool{}, map[string]bool{failed: true}, map[string]int{}
	var follow func(task string) int
	follow = func(task string) int {
		if d, ok := depth[task]; ok {
			return d
		}
		deepest := 0
		for _, next := range waiting[task] {
			if path[next] {
				continue
			}
			blocked[next], path[next] = true, true
			deepest = max(deepest, 1+follow(next))
			delete(path, next)
		}
		depth[task] = deepest
		return deepest
	}
	out := Impact{Depth: follow(failed)}
	out.Blocked = slices.Sorted(maps.Keys(blocked))
	for task := range dependsOn {
		out.CanContinue = out.CanContinue || task != failed && !blocked[task]
	}
	return out
}

// Level is the severity of an impact.
type Level string

// The levels, worst first.
const (
	Critical Level = "critical"
	High     Level = "high"
	Medium   Level = "medium"
	Low      Level = "low"
	None     Level = "none"
)

// levels lists the thresholds, worst first. A row applies if one of its thresholds is reached. A zero threshold is
// ignored.
var levels = []struct {
	level                     Level
	phases, milestones, tasks int
}{
	{Critical, 2, 0, 0},
	{High, 1, 3, 0},
	{Medium, 0, 1, 5},
	{Low, 0, 0, 1},
}

// levelOf rates the impact of blocked phases, milestones and tasks. Retake's tasks do not have phases or milestones, so
// callers pass the number of repositories as milestones.
func levelOf(phases, milestones, tasks int) Level {
	reached := func(n, from int) bool { return from > 0 && n >= from }
	for _, row := range levels {
		if reached(phases, row.phases) || reached(milestones, row.milestones) || reached(tasks, row.tasks) {
			return row.level
		}
	}
	return None
}

// Suggestion returns the recommended reaction to an impact.
func Suggestion(l Level, canContinue bool) string {
	switch {
	case l == Critical || l == High:
		return "pause"
	case canContinue:
		return "continue"
	}
	return "retry"
}

// repositories counts the repositories of the tasks.
func repositories(tasks []string) int {
	seen := map[string]bool{}
	for _, t := range tasks {
		repo, _, _ := strings.Cut(t, "#")
		seen[repo] = true
	}
	return len(seen)
}
