// Package discount holds the scripted model's work on the demo's issue about discounts.
package discount

import (
	_ "embed"

	"retake/internal/agenttest"
)

//go:embed discount.txt
var content string

// Task describes the scripted model's work: the file to read, the code to write, and the check to run.
func Task(check string) agenttest.Task {
	return agenttest.Task{
		Read: "price/price.go", Write: "price/discount.go", Content: content, Check: check,
		Done: "Orders have a volume discount now, and the check passes.",
	}
}
