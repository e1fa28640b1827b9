// Package circumstances defines the record of how a failure came about: the stage and its program, the agent's profile,
// the provider and whether it refused, the variables with the credential, the runtime, and the limit that was reached.
//
// The process that observes the failure writes the record: a worker in its report, or the director for failures that
// only the director observes. Questions and explanations use the record, and do not infer these circumstances from
// names.
//
// Go code cannot build a record: its fields are unexported, no function returns a new one, and the only source is the
// JSON on the wire. A worker encodes its own struct, and the director does so in internal/director/internal/witness,
// which no other package can import. Tests read records of real workers from testdata.
//
// The package is pure. The zero Record is empty.
package circumstances
