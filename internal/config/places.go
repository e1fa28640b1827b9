package config

import "cmp"

// OnCluster reports whether workers run on a cluster.
func (c Config) OnCluster() bool { return c.Containers.Runtime == OnKubernetes }

// SharedDir returns the directory that holds the checkouts and the id that marks containers. A director that takes
// over from another one needs both.
func (c Config) SharedDir() string { return cmp.Or(c.Director.SharedDir, c.Director.DataDir) }

// SharedKey returns the configuration key that sets SharedDir.
func (c Config) SharedKey() string {
	if c.Director.SharedDir == "" {
		return "director.data_dir"
	}
	return "director.shared_dir"
}
