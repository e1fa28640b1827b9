package github

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	_, _ = description() // before any bubble: it reads a file
	if leak := m.Run(); leak != 0 {
		os.Exit(leak)
	}
	if err := goleak.Find(); err != nil {
		println(err.Error())
		os.Exit(1)
	}
}
