// Package reports reads workers' reports about their attempts. It turns each stored report into an event for the
// machine, and keeps the reports of running attempts for the executors.
//
// # Invariants
//
//   - Redacted removes the secrets from a report before any other package sees it.
//   - An attempt ends with a report. If its worker wrote none, the director stores one on the worker's behalf.
//   - A report is acknowledged once its event is in the journal. If the director crashes first, the bus redelivers it.
//
// # Signatures
//
// The bus checks a worker's signature twice: before it stores a report, and when it reads the report from the stream.
// The second check must stay. Operators publish on the same subjects, and NATS permissions cover subjects but not
// headers. A header in a stored message would therefore not prove that the relay has checked the message.
package reports
