// Package discount holds the work of the scripted model on the demo's issue about discounts.
package discount

import (
	_ "embed"

	"retake/internal/agenttest"
)

//go:embed discount.txt
var content string

// Task returns the scripted model's task, which reads the existing files, writes the missing code, and runs a check.
func Task(check string) agenttest.Task {
	return agenttest.Task{
		Read: "price/price.go", Write: "price/discount.go", Content: content, Check: check,
		Done: "Orders have a volume discount now, and the check passes.",
	}
}
