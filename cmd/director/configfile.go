package main

import (
	"cmp"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"retake/internal/config"
)

// options are the flags that several commands share.
type options struct {
	file string // the value of --config; after find, the path of the file in use
	set  map[string]string

	flag  *pflag.Flag  // the flag --config
	found config.Found // the result of find
	known bool         // set once find or on has chosen the file

	warn   io.Writer // receives warnings; may be nil
	warned bool
}

// flags adds the shared flags to the root command.
func (o *options) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVarP(&o.file, "config", "c", "", fmt.Sprintf("configuration file (default: $%s, else %s, else %s)",
		config.FileVariable, config.LocalFile, config.Template))
	f.StringToStringVar(&o.set, "set", nil, "override one key, e.g. --set director.max_workers=5")
	o.flag = f.Lookup("config")
	root.PersistentPreRunE = o.named
}

// find chooses the configuration file, once.
func (o *options) find() error {
	if o.known {
		return nil
	}
	f, err := config.Find(o.file, o.flag != nil && o.flag.Changed, os.Getenv)
	if err != nil {
		return err
	}
	if f.How == config.FileVariable {
		_, err := os.Stat(f.Path)
		if err = cmp.Or(err, config.Readable(f.Path)); err != nil {
			return fmt.Errorf("cannot read the configuration file set in %s: %w", config.FileVariable, err)
		}
	}
	o.file, o.found, o.known = f.Path, f, true
	return nil
}

// named checks, before any command runs, that the file given with --config is readable. Otherwise a command might use
// another file, and send its request to the director of that file.
func (o *options) named(cmd *cobra.Command, _ []string) error {
	if o.warn = cmd.ErrOrStderr(); o.file == "" || !o.flag.Changed {
		return nil
	}
	return config.Readable(o.file)
}

// load finds and reads the configuration file.
func (o *options) load() (config.Config, error) {
	if err := o.find(); err != nil {
		return config.Default(), err
	}
	c, problems := config.Load(o.file, os.Environ(), o.set)
	o.say(c)
	return c, problems.Err()
}

// say prints the warnings about moved paths, but only once.
func (o *options) say(c config.Config) {
	if o.warn == nil || o.warned {
		return
	}
	o.warned = true
	for _, moved := range c.Moved() {
		fmt.Fprintln(o.warn, "warning: "+moved)
	}
}

// fileNamed reports whether the user has chosen a configuration file. It returns false for the example,
// config.Template.
func fileNamed(cmd *cobra.Command) bool {
	flag := cmd.Flags().Lookup("config")
	f, err := config.Find(flag.Value.String(), flag.Changed, os.Getenv)
	return flag.Changed || err == nil && f.Named()
}

// configured reports whether the user has a configuration file, or set keys with --set.
func configured(cmd *cobra.Command) bool { return fileNamed(cmd) || cmd.Flags().Changed("set") }

// on returns a copy of the options with another configuration file, or without one if file is empty.
func (o *options) on(file string) options {
	to := *o
	to.file, to.known = file, true
	return to
}

// asked returns the options for a command that also works without a configuration file. Without a file, --set overrides
// the defaults.
func (o *options) asked(cmd *cobra.Command) options {
	if !fileNamed(cmd) {
		return o.on("")
	}
	return *o
}

// loadIf loads the configuration for a command that also works without a file.
func (o *options) loadIf(cmd *cobra.Command) (config.Config, error) {
	asked := o.asked(cmd)
	return asked.load()
}
