package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

// screen is a terminal. Lines scroll above a table at the bottom, which is redrawn after each change.
type screen struct {
	out   io.Writer
	size  func() (columns, rows int)
	table []string // the table as last shown
	drawn int      // number of its lines on the screen
}

// Control sequences of the terminal.
const (
	eraseBelow = "\x1b[J"
	upBy       = "\x1b[%dA\r"
)

// openScreen returns out as a screen, or false if out is a file, a pipe, or a terminal that cannot move the cursor.
func openScreen(out io.Writer) (s *screen, ok bool) {
	f, isFile := out.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" {
		return nil, false
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil, false
	}
	size := func() (int, int) { return terminalSize(f) }
	if columns, _ := size(); columns == 0 { // a character device, but not a terminal
		return nil, false
	}
	return &screen{out: out, size: size}, true
}

// terminalSize asks the kernel for the size of a terminal. It returns 0, 0 for any other file.
func terminalSize(f *os.File) (columns, rows int) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return 0, 0
	}
	return int(size.columns), int(size.rows)
}

// Write prints whole lines above the table.
func (s *screen) Write(p []byte) (int, error) {
	_, err := io.WriteString(s.out, s.erased()+string(p)+s.drawing())
	return len(p), err
}

// show replaces the table.
func (s *screen) show(table []string) {
	if strings.Join(table, "\n") == strings.Join(s.table, "\n") {
		return
	}
	before := s.erased()
	s.table = table
	fmt.Fprint(s.out, before+s.drawing())
}

// erased returns the control sequence that removes the table from the screen.
func (s *screen) erased() string {
	if s.drawn == 0 {
		return ""
	}
	up := fmt.Sprintf(upBy, s.drawn)
	s.drawn = 0
	return up + eraseBelow
}

// drawing returns the table's text. It cuts each line to the terminal's width, because a wrapped line would take up
// two. If the table and a few lines of text do not fit on the screen, it returns "".
func (s *screen) drawing() string {
	const text = 4
	columns, rows := s.size()
	if len(s.table)+text > rows {
		return ""
	}
	var b strings.Builder
	for _, l := range s.table {
		if runes := []rune(l); len(runes) >= columns {
			l = string(runes[:max(columns-1, 0)])
		}
		b.WriteString(l + "\n")
	}
	s.drawn = len(s.table)
	return b.String()
}
