package hidden

import (
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
)

var (
	mu    sync.RWMutex
	taken = map[string]string{}
)

// Variables removes from the environment every variable for which is(name) returns true. From then on, only Lookup,
// Getenv and Environ find these variables.
func Variables(is func(name string) bool) error {
	mu.Lock()
	defer mu.Unlock()
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if !is(name) {
			continue
		}
		taken[name] = value
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	return nil
}

// Lookup is like os.LookupEnv, but also finds removed variables.
func Lookup(name string) (string, bool) {
	if v, ok := os.LookupEnv(name); ok {
		return v, true
	}
	mu.RLock()
	defer mu.RUnlock()
	v, ok := taken[name]
	return v, ok
}

// Getenv is like os.Getenv, but also finds removed variables.
func Getenv(name string) string {
	v, _ := Lookup(name)
	return v
}

// Environ is like os.Environ, but includes removed variables. Do not pass it to child processes.
func Environ() []string {
	all := os.Environ()
	mu.RLock()
	defer mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		all = append(all, name+"="+taken[name])
	}
	return all
}
