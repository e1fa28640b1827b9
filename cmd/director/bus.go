package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/keys"
	"retake/internal/bus/server"
	"retake/internal/bus/wire"
)

func busCommand() *cobra.Command {
	c := &cobra.Command{Use: "bus", Short: "Create and renew the keys of a shared NATS server, or relay connections " +
		"to it"}
	c.AddCommand(busInitCommand(), busPersonCommand(), busRelayCommand())
	return c
}

func busInitCommand() *cobra.Command {
	var i keys.Init
	var renew bool
	c := &cobra.Command{
		Use: "init DIR", Args: needs(cobra.ExactArgs(1), "want a directory for the keys"),
		Short: "Create the keys, certificate and configuration of a shared NATS server",
		Long: `Create the keys, certificate and configuration of a shared NATS server, in a new directory.

  DIR/server/        for the server: nats-server --config DIR/server/nats.conf
  DIR/director/      for the director (agent_bus.credentials); keep it secret: it grants all of the director's rights
  DIR/operator.json  for an operator's tools; operator.creds, next to it, is for the nats CLI

Then set the director's agent_bus.url to tls://HOST:PORT.

For a cluster, pass --route HOST:PORT for each server. All servers use the same DIR/server, but start each with a
different --name.
The servers recognise each other by their shared certificate, which must cover the host of every route (--host).

With --renew, create a new server certificate in an existing directory. Keys and credentials do not change.
Without --host, it covers the same names as before. With --host, --port, --route, --store or --server-dir, nats.conf is
also rewritten, and the old file is kept as nats.conf.old. Then restart NATS, or run nats-server --signal reload.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if renew {
				return renewBus(cmd, i, args[0])
			}
			switch err := i.Make(args[0]); {
			case errors.Is(err, keys.ErrThere):
				return noBecause{fmt.Errorf("%w: streams and workers depend on its keys, so create new keys in "+
					"another directory", err)}
			case err != nil:
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "start NATS:        nats-server --config %s\ndirector config:   "+
				"agent_bus.url = \"tls://%s\", agent_bus.credentials = %q\n",
				filepath.Join(args[0], keys.DirServer, keys.FileConfig),
				net.JoinHostPort(i.Hosts[0], fmt.Sprint(i.Port)), filepath.Join(args[0], keys.DirDirector))
			return nil
		},
	}
	f := c.Flags()
	f.StringArrayVar(&i.Hosts, "host", []string{"127.0.0.1"}, "server name or address; may be repeated (people's "+
		"credentials contain only the first)")
	f.IntVar(&i.Port, "port", 4222, "port of the server")
	f.StringArrayVar(&i.Routes, "route", nil, "HOST:PORT at which the rest of the cluster reaches a server; repeat "+
		"for each server")
	f.StringVar(&i.Store, "store", "/data", "directory on the server for streams and accounts")
	f.StringVar(&i.ServerDir, "server-dir", "", "path of DIR/server on the server (default: the same path as here)")
	f.StringVar(&i.Prefix, "prefix", wire.DefaultPrefix, "agent_bus.prefix")
	f.BoolVar(&renew, "renew", false, "create a new certificate for the existing keys")
	return c
}

// renewBus makes a new certificate. It keeps the directory's existing settings, unless the user gave a flag with a new
// value.
func renewBus(cmd *cobra.Command, i keys.Init, dir string) error {
	said := cmd.Flags().Changed
	if !said("host") {
		i.Hosts = nil
	}
	if !said("port") {
		i.Port = 0
	}
	if !said("store") {
		i.Store = ""
	}
	if err := i.Renew(dir, said("host") || said("port") || said("route") || said("store") ||
		said("server-dir")); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), "renewed; now reload NATS (nats-server --signal reload) or restart it")
	return nil
}

func busPersonCommand() *cobra.Command {
	c := &cobra.Command{Use: "person", Short: "Create a person's credential, or revoke one"}
	c.AddCommand(busPersonNewCommand(), busPersonRevokeCommand())
	return c
}

func busPersonNewCommand() *cobra.Command {
	var url, to string
	c := &cobra.Command{
		Use: "new DIR --url tls://HOST:PORT", Args: needs(cobra.ExactArgs(1), "want the key directory"),
		Short: "Create another credential for a person's tools",
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := keys.Load(filepath.Join(args[0], keys.DirDirector))
			if err != nil {
				return err
			}
			if to == "" {
				to = args[0]
			}
			path := filepath.Join(to, keys.FilePerson)
			if _, err := os.Lstat(path); err == nil {
				return noBecause{fmt.Errorf("%s already exists: revoke it first, or choose another directory with "+
					"--to", path)}
			}
			prefix, _ := cmd.Flags().GetString("prefix")
			if err := d.WritePerson(to, url, d.CA(), prefix); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "written:", path)
			return nil
		},
	}
	c.Flags().StringVar(&url, "url", "", "public address of the server")
	c.Flags().StringVar(&to, "to", "", "directory for the credential (default: DIR)")
	c.Flags().String("prefix", wire.DefaultPrefix, "agent_bus.prefix")
	_ = c.MarkFlagRequired("url")
	return c
}

func busPersonRevokeCommand() *cobra.Command {
	var credential string
	c := &cobra.Command{
		Use: "revoke DIR", Args: needs(cobra.ExactArgs(1), "want the key directory"),
		Short: "Revoke a person's credential permanently; other credentials remain valid",
		Long: `Revoke a person's credential permanently; other credentials remain valid.
The command revokes it in the claims and in nats.conf under DIR/server, and on the server named in
the credential, which immediately closes all connections that use it. Then it removes the credential's files.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if credential == "" {
				credential = filepath.Join(args[0], keys.FilePerson)
			}
			p, err := keys.ReadPerson(credential)
			if err != nil {
				return err
			}
			claims, err := keys.RevokePerson(args[0], p)
			if err != nil {
				return err
			}
			d, err := keys.Load(filepath.Join(args[0], keys.DirDirector))
			if err != nil {
				return err
			}
			if err := bus.PushClaims(cmd.Context(), p.URL, d, claims); err != nil {
				return noBecause{fmt.Errorf("revoked in the files, but not on the server %s (%w): restart the "+
					"server, or repeat this command once it is reachable", p.URL, err)}
			}
			for _, file := range []string{credential, filepath.Join(filepath.Dir(credential), keys.FilePersonCreds)} {
				if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
			fmt.Fprintln(cmd.OutOrStdout(), "revoked and removed:", credential)
			return nil
		},
	}
	c.Flags().StringVar(&credential, "credential", "", "credential file (default: DIR/"+keys.FilePerson+")")
	return c
}

func busRelayCommand() *cobra.Command {
	var listen, to string
	limits := server.DefaultLimits
	c := &cobra.Command{
		Use: "relay --listen HOST:PORT --to HOST:PORT", Args: cobra.NoArgs,
		Short: "Relay traffic between workers and a NATS server, with limits on connections and bytes",
		Long: `Relay traffic between workers and a NATS server in both directions. Limit connections in total and per
source, connection attempts, and data rates. TLS passes through unchanged. The relay does not need keys or a
configuration.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for flag, address := range map[string]string{"listen": listen, "to": to} {
				if _, _, err := net.SplitHostPort(address); err != nil {
					return fmt.Errorf("--%s: want HOST:PORT: %w", flag, err)
				}
			}
			l, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return err
			}
			log, err := zap.NewProduction()
			if err != nil {
				return err
			}
			log.Info("relay", zap.String("listen", l.Addr().String()), zap.String("to", to))
			server.Relay(cmd.Context(), l, to, limits, log)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&listen, "listen", "", "address that workers connect to")
	f.StringVar(&to, "to", "", "address of the NATS server")
	f.IntVar(&limits.Total, "max-connections", limits.Total, "maximum number of connections")
	f.IntVar(&limits.PerSource, "max-per-source", limits.PerSource, "maximum number of connections from one address")
	return c
}
