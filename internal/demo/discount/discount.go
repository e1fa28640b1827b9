// Package discount is what the scripted model makes of the demo's issue about discounts. It has no state.
package discount

import (
	_ "embed"

	"retake/internal/agenttest"
)

//go:embed discount.txt
var content string

// Task reads what is there, writes what is missing, and runs a check.
func Task(check string) agenttest.Task {
	return agenttest.Task{
		Read: "price/price.go", Write: "price/discount.go", Content: content, Check: check,
		Done: "Orders have a volume discount now, and the check passes.",
	}
}
