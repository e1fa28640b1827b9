// Command foreign_clients OPERATOR.JSON WORKER < ERROR.JSON reports a failure for a worker, and prints the answers.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go"
)

func main() {
	var me struct{ URL, JWT, Seed, CA, Prefix string }
	file, err := os.ReadFile(os.Args[1])
	must(err)
	must(json.Unmarshal(file, &me))
	options := []nats.Option{nats.UserJWTAndSeed(me.JWT, me.Seed)}
	if me.CA != "" { // TLS from the first byte
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM([]byte(me.CA))
		options = append(options, nats.Secure(&tls.Config{RootCAs: trusted}), nats.TLSHandshakeFirst())
	}
	bus, err := nats.Connect(me.URL, options...)
	must(err)
	inbox := nats.NewInbox()
	answers, err := bus.SubscribeSync(inbox)
	must(err)
	report := nats.NewMsg(me.Prefix + ".worker." + os.Args[2] + ".error")
	report.Reply = inbox
	report.Header.Set("Retake-Answer", inbox)
	report.Data, err = io.ReadAll(os.Stdin)
	must(err)
	must(bus.PublishMsg(report))
	for range 2 {
		m, err := answers.NextMsg(30 * time.Second)
		if err != nil { // no answer within 30 seconds
			return
		}
		fmt.Println(string(m.Data))
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
