package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"retake/internal/bus/keys"
	"retake/internal/bus/server"
	"retake/internal/bus/wire"
)

func busCommand() *cobra.Command {
	c := &cobra.Command{Use: "bus", Short: "Make the keys of a NATS server to join, or stand before one"}
	c.AddCommand(busInitCommand(), busRelayCommand())
	return c
}

func busInitCommand() *cobra.Command {
	var i keys.Init
	c := &cobra.Command{
		Use: "init DIR", Args: needs(cobra.ExactArgs(1), "want one folder for the keys"),
		Short: "Make keys, certificate and configuration of a NATS server to join",
		Long: `Make keys, certificate and configuration of a NATS server to join, in a folder that has none yet.

  DIR/server/        for the server: nats-server --config DIR/server/nats.conf
  DIR/director/      for the director: agent_bus.credentials; who reads it is the director
  DIR/operator.json  for a person's tools, and operator.creds beside it for nats

The director's agent_bus.url is then tls://HOST:PORT.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch err := i.Make(args[0]); {
			case errors.Is(err, keys.ErrThere):
				return noBecause{fmt.Errorf("%w: streams and workers depend on them: make new ones in another folder", err)}
			case err != nil:
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "start NATS:        nats-server --config %s\nset in the file:   agent_bus.url = \"tls://%s\", agent_bus.credentials = %q\n",
				filepath.Join(args[0], keys.DirServer, keys.FileConfig), net.JoinHostPort(i.Hosts[0], fmt.Sprint(i.Port)), filepath.Join(args[0], keys.DirDirector))
			return nil
		},
	}
	f := c.Flags()
	f.StringArrayVar(&i.Hosts, "host", []string{"127.0.0.1"}, "name or address that the server is reached by; may be repeated, people use the first")
	f.IntVar(&i.Port, "port", 4222, "port of the server")
	f.StringVar(&i.Store, "store", "/data", "folder of streams and accounts, as the server sees it")
	f.StringVar(&i.ServerDir, "server-dir", "", "DIR/server as the server sees it (default: where it is made)")
	f.StringVar(&i.Prefix, "prefix", wire.DefaultPrefix, "agent_bus.prefix")
	return c
}

func busRelayCommand() *cobra.Command {
	var listen, to string
	limits := server.DefaultLimits
	c := &cobra.Command{
		Use: "relay --listen HOST:PORT --to HOST:PORT", Args: cobra.NoArgs,
		Short: "Stand between workers and a NATS server: bound connections and bytes",
		Long: `Stand between workers and a NATS server: copy bytes both ways, and bound how many connections there are, of one source
and in all, how often a source may connect, and how fast it may send. TLS is between both ends. Needs neither keys nor configuration.`,
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
	f.StringVar(&listen, "listen", "", "where workers connect")
	f.StringVar(&to, "to", "", "the NATS server")
	f.IntVar(&limits.Total, "max-connections", limits.Total, "connections in all")
	f.IntVar(&limits.PerSource, "max-per-source", limits.PerSource, "connections of one address")
	return c
}
