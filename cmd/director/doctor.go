package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director"
	"retake/internal/director/operator"
	"retake/internal/director/preflight"
	"retake/internal/doctor"
)

// world returns the configuration for the doctor, even if it is invalid, and the policy's warnings. It does not send
// any requests.
func (o *options) world() (doctor.World, error) {
	if err := o.find(); err != nil {
		return doctor.World{}, err
	}
	w := doctor.World{File: o.found.Path, How: o.found.How, Lookup: os.LookupEnv}
	w.Config, w.Problems = config.Load(o.file, os.Environ(), o.set)
	if len(w.Problems) > 0 {
		return w, nil
	}
	var err error
	w.Warnings, err = policyWarnings(w.Config)
	return w, err
}

func doctorCommand(o *options) *cobra.Command {
	var offline, asJSON bool
	var worker string
	c := &cobra.Command{
		Use: "doctor", Args: cobra.NoArgs, Short: "Check that the director can run here: configuration, " +
			"machine, GitHub, containers",
		Long: "Check whether the director can run here: one line per finding, with a remedy for each problem. The " +
			"command does not change GitHub or pull images.\nAfterwards, it removes its test container, and the " +
			"workers' network if it had to create one. It can run while a director is running.\n\n" + rowsOfDoctor() +
			"\n" + exits("no problems found (there may be warnings)", "a problem was found",
			"the checks could not run"),
	}
	c.Flags().BoolVar(&offline, "offline", false, "skip the checks that use GitHub or a container engine")
	c.Flags().BoolVar(&asJSON, "json", false, "machine-readable")
	c.Flags().StringVar(&worker, "worker-binary", "", `static worker binary (default: "worker" next to this program)`)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		w, err := o.world()
		if err != nil {
			return err
		}
		if len(w.Problems) == 0 {
			with, err := credential(w.Config, zap.NewNop(), director.Options{Config: w.Config, WorkerBinary: worker})
			if err != nil { // the credential check reports this error
				with = director.Options{Config: w.Config, WorkerBinary: worker, Token: noToken(err)}
			}
			w = preflight.Connect(preflight.Options{
				Config: with.Config, Token: with.Token, Login: with.Login, Rights: with.Rights, WorkerBinary: worker,
			}, w)
		}
		var needs []doctor.Needs
		if offline {
			needs = []doctor.Needs{doctor.Offline, doctor.OnMachine}
		}
		r, err := doctor.Examine(cmd.Context(), w, needs...)
		if err != nil {
			return err
		}
		if asJSON {
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		} else if err = r.Show(cmd.OutOrStdout()); err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), r.Summary())
			if h, away := operator.AskHealth(cmd.Context(), w.Config.Director.DataDir); err == nil && away == nil &&
				h.OK && !r.OK {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "A director is running with this data directory and is "+
					"healthy (%s). The problems would affect a director started from this shell, with its "+
					"environment.\n",
					h.Summary())
			}
		}
		return answer(r.OK, err)
	}
	return c
}

// rowsOfDoctor lists the doctor's checks for --help.
func rowsOfDoctor() string {
	var b strings.Builder
	for _, r := range doctor.Rows() {
		fmt.Fprintf(&b, "  %-14s %-8s %s\n", r.Name, r.Needs, strings.ReplaceAll(r.About, "`", ""))
	}
	return b.String()
}
