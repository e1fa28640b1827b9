package budget

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultResource is the resource for a stage's model calls if neither its resource nor its provider is known.
const DefaultResource = prefix + "default"

// prefix begins the name of every resource that workers can lease. They cannot lease GitHub's limits, which the
// director enforces itself.
const prefix = "model."

// maxNameBytes is the maximum length of a name after the prefix.
const maxNameBytes = 64

// CheckResource checks that name is a valid resource: "model." and 1 to 64 ASCII letters, digits, `-`, `_` and dots.
func CheckResource(name string) error {
	rest, model := strings.CutPrefix(name, prefix)
	if !model || rest == "" || len(rest) > maxNameBytes || strings.IndexFunc(rest, notInName) >= 0 {
		return fmt.Errorf("budget: resource %.80q: want model.<provider>, where <provider> is at most %d letters, "+
			"digits, -, _ and dots",
			name, maxNameBytes)
	}
	return nil
}

func notInName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_', r == '.':
		return false
	default:
		return true
	}
}

// resource returns the resource with the given name, and creates it if necessary. At maxResources it replaces an unused
// resource, or returns nil if all are in use.
func (p *Pool) resource(name string) *resource {
	i, found := slices.BinarySearchFunc(p.resources, name,
		func(r *resource, name string) int { return strings.Compare(r.name, name) })
	if found {
		return p.resources[i]
	}
	if len(p.resources) >= maxResources {
		idle := slices.IndexFunc(p.resources, func(r *resource) bool {
			return len(r.leases) == 0 && len(r.queue) == 0 && !r.closed.After(p.now) &&
				p.now.Sub(r.granted) >= p.limits.Spacing
		})
		if idle < 0 {
			return nil
		}
		p.resources = slices.Delete(p.resources, idle, idle+1)
		if idle < i {
			i--
		}
	}
	r := &resource{name: name}
	p.resources = slices.Insert(p.resources, i, r)
	return r
}

// share counts a worker's leases and places in the pool.
func (p *Pool) share(worker string) (n int) {
	for _, r := range p.resources {
		for _, l := range r.leases {
			if l.Worker == worker {
				n++
			}
		}
		for _, w := range r.queue {
			if w.worker == worker {
				n++
			}
		}
	}
	return n
}
