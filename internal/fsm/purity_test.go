package fsm

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// allowed lists the direct imports that each pure package may have. Before you add an import, check that it does not do
// I/O, use a clock or start goroutines.
var allowed = map[string][]string{
	"retake/internal/budget": {"fmt", "retake/internal/bus/wire", "slices", "strings", "time"},
	"retake/internal/agent": {
		"bytes", "cmp", "embed", "encoding/json", "errors", "fmt", "maps", "math", "path", "regexp",
		"retake/internal/budget",
		"retake/internal/bus/wire", "retake/internal/recovery/plaintext",
		"retake/internal/secrets/redact",
		"retake/internal/tomlfile", "retake/internal/worktree", "slices", "strconv", "strings", "sync",
		"time", "unicode",
	},
	"retake/internal/fsm": {
		"bytes", "cmp", "encoding/json", "errors", "fmt", "iter", "reflect", "retake/internal/plainjson",
		"retake/internal/recovery",
		"retake/internal/recovery/policy", "slices", "strconv", "strings", "time",
	},
	"retake/internal/whatif":        {"cmp", "retake/internal/fsm", "retake/internal/recovery", "slices", "time"},
	"retake/internal/projection":    {"retake/internal/fsm", "retake/internal/recovery", "slices", "strings"},
	"retake/internal/sys/diskfault": {"errors", "strings", "syscall"}, // needed for the names of errors
	"retake/internal/recovery": {
		"math", "retake/internal/recovery/circumstances", "retake/internal/recovery/plaintext", "slices", "strconv",
		"strings", "time",
	},
	"retake/internal/gitwords":               {"strings"},
	"retake/internal/recovery/circumstances": {"encoding/json", "slices"},
	"retake/internal/bus/lease":              {"time"},
	"retake/internal/recovery/plaintext":     {"strings", "unicode", "unicode/utf8"},
	"retake/internal/recovery/loglines": {
		"encoding/json", "fmt", "maps", "regexp",
		"retake/internal/recovery/plaintext", "slices", "strings", "unicode", "unicode/utf8",
	},
	"retake/internal/recovery/retryafter": {
		"embed", "maps", "math", "retake/internal/recovery",
		"retake/internal/recovery/plaintext", "regexp", "slices", "strconv", "strings", "time",
	},
	"retake/internal/recovery/signature": {
		"crypto/sha256", "encoding/hex", "regexp", "retake/internal/recovery",
		"retake/internal/recovery/plaintext", "strings", "unicode/utf8",
	},
	"retake/internal/recovery/classify": {
		"cmp", "embed", "encoding/binary", "encoding/json", "errors", "fmt", "regexp", "regexp/syntax",
		"retake/internal/agent", "retake/internal/gitwords", "retake/internal/recovery",
		"retake/internal/recovery/loglines",
		"retake/internal/recovery/plaintext", "retake/internal/recovery/retryafter",
		"retake/internal/recovery/signature", "retake/internal/tomlfile", "slices", "strconv", "strings", "sync",
		"time", "unicode", "unicode/utf8",
	},
	"retake/internal/recovery/policy": {
		"cmp", "embed", "encoding/json", "errors", "fmt", "maps", "math", "regexp",
		"retake/internal/recovery", "retake/internal/tomlfile", "retake/internal/tomlfile/spelling",
		"slices", "strconv", "strings", "time",
	},
	"retake/internal/plainjson": {
		"bytes", "encoding", "encoding/binary", "encoding/json", "math/bits", "reflect", "slices", "strconv", "strings",
		"time", "unicode/utf16", "unicode/utf8",
	},
	"retake/internal/tomlfile/spelling": {"strings"},
	"retake/internal/timeline": {
		"cmp", "fmt", "io", "retake/internal/fsm", "retake/internal/projection", "retake/internal/recovery",
		"retake/internal/recovery/plaintext", "retake/internal/recovery/policy", "slices", "strconv", "strings", "time",
	},
	"retake/internal/tomlfile": {
		"bytes", "errors", "fmt", "github.com/pelletier/go-toml/v2/unstable", "maps", "reflect",
		"regexp", "retake/internal/tomlfile/spelling", "slices", "strconv", "strings", "unicode/utf8",
	},
	"retake/internal/secrets/redact": {
		"bytes", "cmp", "encoding/base64", "encoding/json", "io", "math", "net/url", "regexp", "slices", "strconv",
		"strings", "sync",
	},
	"retake/internal/secrets/leak": {
		"encoding/hex", "math/bits", "net/url", "regexp", "retake/internal/secrets/redact", "slices",
		"strconv", "strings", "unicode/utf16",
	},
	"retake/internal/bus/wire": {
		"bytes", "crypto/hmac", "crypto/sha256", "encoding/base64", "encoding/hex", "encoding/json", "errors", "fmt",
		"math", "reflect", "retake/internal/recovery/circumstances", "slices", "sort", "strconv", "strings", "time",
		"unicode/utf16", "unicode/utf8",
	},
	"retake/internal/trace": {
		"cmp", "crypto/sha256", "encoding/hex", "fmt", "retake/internal/bus/wire", "retake/internal/fsm",
		"retake/internal/projection", "retake/internal/recovery", "slices", "strconv", "strings", "time",
	},
}

// impure lists functions of allowed packages that are not pure. (Package time is allowed for its types, and toml for
// bytes that other packages have read.)
var impure = map[string][]string{
	"time": {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker", "LoadLocation"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"maps": {"All", "Keys", "Values"},
}

func TestPurePackagesArePure(t *testing.T) {
	for path, imports := range loadPure(t, nil) {
		t.Logf("%s imports %s", path, strings.Join(imports.direct, " "))
		for _, complaint := range imports.complaints {
			t.Error(complaint)
		}
	}
}

// planted is a file that breaks every rule, with the expected findings.
const planted = `
import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"time"
)

var (
	_ = time.Now()
	_ = time.Since
	_ = rand.Int()
	_ = os.Args
	_ = maps.Keys(map[string]int{})
	_ context.Context
)

type plantedMap map[string]int

func plantedRules(m map[string]int, n plantedMap, c chan int) {
	go plantedRules(nil, nil, nil)
	select {}
	<-c
	c <- 1
	for range c {
	}
	for range m {
	}
	for range n {
	}
	fmt.Println()
}
`

var plantedComplaints = []string{
	"imports context,", "imports math/rand/v2,", "imports os,",
	"planted.go:13:11: use of time.Now", "planted.go:14:11: use of time.Since", "planted.go:17:11: use of maps.Keys",
	"planted.go:23:53: channel", "planted.go:24:2: go statement", "planted.go:25:2: select", "planted.go:26:2: channel",
	"planted.go:27:2: channel", "planted.go:28:2: range over a channel", "planted.go:30:2: range over a map",
	"planted.go:32:2: range over a map", "planted.go:34:6: use of fmt.Println",
}

// The check itself is tested: an overlay plants violations into packages, and the check finds them.
func TestPurityCheckFindsWhatIsPlanted(t *testing.T) {
	var in []string
	overlay := map[string][]byte{}
	imported := slices.Concat(slices.Collect(maps.Values(allowed))...)
	for path := range allowed {
		// A changed package makes all its importers compile again, so the daily test skips imported packages.
		if os.Getenv("RETAKE_NIGHTLY") == "" && slices.Contains(imported, path) {
			continue
		}
		file, err := filepath.Abs(filepath.Join("..", strings.TrimPrefix(path, "retake/internal/"), "planted.go"))
		if err != nil {
			t.Fatal(err)
		}
		in = append(in, path)
		overlay[file] = []byte("package " + filepath.Base(path) + "\n" + planted)
	}
	for path, p := range loadPure(t, overlay) {
		if !slices.Contains(in, path) {
			continue
		}
		for _, want := range plantedComplaints {
			if !slices.ContainsFunc(p.complaints, func(s string) bool { return strings.Contains(s, want) }) {
				t.Errorf("%s: %q was not found, only\n%s", path, want, strings.Join(p.complaints, "\n"))
			}
		}
	}
}

// examined is the result for one package.
type examined struct {
	direct     []string
	complaints []string
}

// loadPure examines the non-test files of the pure packages, with files laid over them.
func loadPure(t *testing.T, overlay map[string][]byte) map[string]examined {
	t.Helper()
	var paths []string
	for path := range allowed {
		paths = append(paths, path)
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes |
			packages.NeedTypesInfo | packages.NeedFiles,
		Env: append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off"), Overlay: overlay,
	}, paths...)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]examined{}
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Fatal(e)
		}
		e := examined{}
		for path := range p.Imports {
			e.direct = append(e.direct, path)
			if !slices.Contains(allowed[p.PkgPath], path) {
				e.complaints = append(e.complaints, fmt.Sprintf("%s imports %s, which is not on its list", p.PkgPath,
					path))
			}
		}
		slices.Sort(e.direct)
		if overlay == nil {
			for _, path := range allowed[p.PkgPath] {
				if !slices.Contains(e.direct, path) {
					e.complaints = append(e.complaints, fmt.Sprintf("%s may import %s, but does not: shorten its list",
						p.PkgPath, path))
				}
			}
		}
		for _, file := range p.Syntax {
			inOrder := map[ast.Node]bool{}
			ast.Inspect(file, func(n ast.Node) bool {
				if keys := sortedKeys(n); keys != nil {
					inOrder[keys] = true
				}
				if what := offence(p.TypesInfo, n); what != "" && !inOrder[n] {
					e.complaints = append(e.complaints, fmt.Sprintf("%s: %s", p.Fset.Position(n.Pos()), what))
				}
				return true
			})
		}
		out[p.PkgPath] = e
	}
	if len(out) != len(allowed) {
		t.Fatalf("%d packages loaded, want %d", len(out), len(allowed))
	}
	return out
}

// sortedKeys returns the Keys of slices.Sorted(maps.Keys(m)), because keys that are sorted at once have a fixed order.
func sortedKeys(n ast.Node) ast.Node {
	called := func(n ast.Node, pkg, name string) (*ast.CallExpr, *ast.Ident) {
		call, _ := n.(*ast.CallExpr)
		if call == nil {
			return nil, nil
		}
		sel, _ := call.Fun.(*ast.SelectorExpr)
		if sel == nil || sel.Sel.Name != name {
			return nil, nil
		}
		if x, ok := sel.X.(*ast.Ident); !ok || x.Name != pkg {
			return nil, nil
		}
		return call, sel.Sel
	}
	if call, _ := called(n, "slices", "Sorted"); call != nil {
		if _, keys := called(call.Args[0], "maps", "Keys"); keys != nil {
			return keys
		}
	}
	return nil
}

// offence describes why a node is impure, or returns "".
func offence(info *types.Info, n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "go statement"
	case *ast.SelectStmt:
		return "select"
	case *ast.ChanType, *ast.SendStmt:
		return "channel"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "channel"
		}
	case *ast.RangeStmt:
		switch info.TypeOf(n.X).Underlying().(type) {
		case *types.Map:
			return "range over a map"
		case *types.Chan:
			return "range over a channel"
		}
	case *ast.Ident:
		f, ok := info.Uses[n].(*types.Func)
		if ok && f.Pkg() != nil && f.Signature().Recv() == nil && slices.Contains(impure[f.Pkg().Path()], f.Name()) {
			return "use of " + f.Pkg().Path() + "." + f.Name()
		}
	}
	return ""
}
