package bench

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// FileEnv is the variable that names the file to which tests append figures. QuickEnv, if not empty, keeps the whole
// run under a minute.
const (
	FileEnv  = "RETAKE_BENCH_FILE"
	QuickEnv = "RETAKE_BENCH_QUICK"
	// BaselineEnv names a directory with the director and worker of another build. A section that supports it
	// measures them as well.
	BaselineEnv = "RETAKE_BENCH_BASELINE"
)

// Begin skips a measuring test unless `make bench` runs it.
func Begin(t testing.TB) {
	t.Helper()
	if os.Getenv(FileEnv) == "" {
		t.Skip("this is a measurement: run it with make bench")
	}
}

// Quick reports whether a measurement should be short, because QuickEnv is set.
func Quick() bool { return os.Getenv(QuickEnv) != "" }

// Record appends a figure to the file named by FileEnv, and logs it.
func Record(t testing.TB, f Figure) {
	t.Helper()
	line, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(os.Getenv(FileEnv), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write(append(line, '\n'))
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	t.Log(f.String())
}
