package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"retake/internal/bus/wire"
)

// Users that are no workers: `@` cannot stand in a worker id.
const (
	userDirector = "@director"
	userJournal  = "@journal"
	userOperator = "@operator"
)

// maxConnsPerWorker bounds the connections on one worker credential: one, and a few that the server has not yet seen
// die. The oldest is closed for the next.
const maxConnsPerWorker = 4

// Operator is the content of the operator's credential file: everything that a person's tool needs.
type Operator struct {
	URL      string `json:"url"`
	User     string `json:"user"`
	Password string `json:"password"`
	Prefix   string `json:"prefix"`
}

// derive makes a password; kinds are told apart so that a worker named "operator" gets no operator's password.
func (s *Server) derive(kind string, id ...string) string {
	h := hmac.New(sha256.New, s.secret)
	h.Write([]byte(strings.Join(append([]string{kind}, id...), "/")))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

var _ natsd.Authentication = (*Server)(nil)

// Check implements natsd.Authentication: it admits clients and limits what they may do.
func (s *Server) Check(c natsd.ClientAuthentication) bool {
	o := c.GetOpts()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accounts == nil {
		return false
	}
	account := accountBus
	var want string
	var may *natsd.Permissions // nil: everything within the account
	switch o.Username {
	case userDirector:
		want = s.internal
	case userJournal:
		account, want = accountJournal, s.internal
	case userOperator:
		want, may = s.derive("operator"), operatorPermissions(s.subjects)
	default:
		if _, admitted := s.workers[o.Username]; !admitted {
			return false
		}
		want, may = s.derive("worker", o.Username), workerPermissions(s.subjects, o.Username)
	}
	if subtle.ConstantTimeCompare([]byte(o.Password), []byte(want)) != 1 {
		return false
	}
	if _, worker := s.workers[o.Username]; worker {
		s.count(o.Username, c.GetID())
	}
	c.RegisterUser(&natsd.User{Username: o.Username, Account: s.accounts[account], Permissions: may})
	return true
}

// count remembers a worker's connection, and closes its oldest one when there are too many.
func (s *Server) count(worker string, id uint64) {
	s.workers[worker] = append(s.workers[worker], id)
	if ids := s.workers[worker]; len(ids) > maxConnsPerWorker {
		s.workers[worker] = ids[1:]
		go func() { _ = s.nats.DisconnectClientByID(ids[0]) }() // apart, because Check runs inside the server; gone already is what we want
	}
}

// Password is that of a worker's credential, whether it is admitted or not. Its user name is the worker id.
func (s *Server) Password(worker string) string { return s.derive("worker", worker) }

// Admit lets a worker in. The caller has checked the id: one that is no subject token could widen its own permissions.
func (s *Server) Admit(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, admitted := s.workers[worker]; !admitted {
		s.workers[worker] = nil
	}
}

// Revoke shuts a worker out and closes its connections.
func (s *Server) Revoke(worker string) {
	s.mu.Lock()
	ids := s.workers[worker]
	delete(s.workers, worker)
	s.mu.Unlock()
	for _, id := range ids {
		_ = s.nats.DisconnectClientByID(id) // gone already is what we want
	}
}

// workerPermissions: publish on its own subjects, ask for leases, get its own control messages and answers, answer what
// it is asked.
func workerPermissions(s wire.Subjects, worker string) *natsd.Permissions {
	return &natsd.Permissions{
		Publish:   &natsd.SubjectPermission{Allow: []string{s.WorkerTree(worker), s.Budget("*")}},
		Subscribe: &natsd.SubjectPermission{Allow: []string{s.Control(worker), wire.Inbox(worker) + ".>"}},
		Response:  &natsd.ResponsePermission{MaxMsgs: 1, Expires: time.Minute},
	}
}

// operatorPermissions: report for any worker, watch, ask for the snapshot. Not: control workers, touch streams.
func operatorPermissions(s wire.Subjects) *natsd.Permissions {
	return &natsd.Permissions{
		Publish: &natsd.SubjectPermission{Allow: []string{
			s.AllWorkers(wire.ChannelError), s.AllWorkers(wire.ChannelResult), s.Snapshot(), "$SRV.>",
		}},
		Subscribe: &natsd.SubjectPermission{Allow: []string{
			"_INBOX.>", s.WorkerTree("*"), s.Dead("*"), s.Snapshot(),
		}},
	}
}
