package fence

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestTaskTravels(t *testing.T) {
	want := Task{
		Batches: [][]byte{{1, 2}, {3}}, Bridge: "br-1", Table: "retake-br-1-f", Listen: "10.0.0.1:0", Renewal: true,
		Dial: []string{"10.0.0.1:80", "[fd00::1]:80"},
	}
	if got, err := parse(want.Args(), os.Stderr); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	var complaint bytes.Buffer
	if code := Main([]string{"-dial"}, &bytes.Buffer{}, &complaint); code != 2 || complaint.Len() == 0 {
		t.Errorf("exit %d for wrong arguments: %s", code, &complaint)
	}
}

// A trial reaches an address if a program or a kernel answers there. Invalid addresses are absent.
func TestTrial(t *testing.T) {
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	shut, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shut.Close()
	var out bytes.Buffer
	task := Task{Dial: []string{open.Addr().String(), shut.Addr().String(), "[2001:db8::1]:1", "nonsense"}}
	if code := Main(task.Args(), &out, os.Stderr); code != 0 {
		t.Fatalf("exit %d", code)
	}
	var done Done
	if err := json.Unmarshal(out.Bytes(), &done); err != nil {
		t.Fatal(err)
	}
	if a := done.Dialled[open.Addr().String()]; a != (Answer{Reached: true}) {
		t.Errorf("the open port: %+v", a)
	}
	if a := done.Dialled[shut.Addr().String()]; !a.Reached || !strings.Contains(a.Why, "refused") {
		t.Errorf("the shut port: %+v", a)
	}
	if a := done.Dialled["nonsense"]; !a.Absent || a.Why == "" {
		t.Errorf("no address: %+v", a)
	}
	if a := done.Dialled["[2001:db8::1]:1"]; a.Reached {
		t.Errorf("an address of no machine: %+v", a)
	}
}

func TestMissingBridge(t *testing.T) {
	var out bytes.Buffer
	if code := Main(Task{Bridge: "retake-none0", Listen: "127.0.0.1:0"}.Args(), &out, &bytes.Buffer{}); code != 0 {
		t.Fatalf("exit %d", code)
	}
	var done Done
	if err := json.Unmarshal(out.Bytes(), &done); err != nil || done.Missing != "interface retake-none0" ||
		done.Listening != "" {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestSilentNeighbours(t *testing.T) {
	file := filepath.Join(t.TempDir(), "arp")
	err := os.WriteFile(file, []byte("IP address       HW type     Flags       HW address            Mask     Device\n"+
		"10.0.0.1         0x1         0x2         02:42:ac:11:00:01     *        eth0\n"+
		"10.0.0.9         0x1         0x0         00:00:00:00:00:00     *        eth0\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if got := silentNeighbours(file); !reflect.DeepEqual(got, map[string]bool{"10.0.0.9": true}) {
		t.Errorf("got %v", got)
	}
	if got := silentNeighbours(file + "-missing"); got != nil {
		t.Errorf("got %v without a file", got)
	}
}
