package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// limit moves a process into a new cgroup. lift moves the process back and removes the cgroup.
func TestLimit(t *testing.T) {
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	}()
	group := func() string {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(sleeper.Process.Pid), "cgroup"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := group()
	lift, err := limit(sleeper.Process.Pid, 5, 100*time.Millisecond)
	if group() != before && err != nil {
		t.Errorf("the process stays in a group without a quota: %s", group())
	}
	if err != nil {
		t.Skipf("this machine does not let us set a quota: %v", err)
	}
	if !strings.Contains(group(), "retake-chaos-") {
		t.Errorf("the process is not in the group: %s", group())
	}
	if err := lift(); err != nil || group() != before {
		t.Errorf("not back: %s, %v", group(), err)
	}
}
