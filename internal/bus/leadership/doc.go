// Package leadership stores the leader's lease in a key-value bucket on the bus. Package lease defines how long a
// process leads. At most one process leads at any time, although each process trusts only its local clock. A leader
// gives up before another process may take over, even if the server loses the bucket.
package leadership
