// Package leadership holds the lease of the director that leads, in a bucket of the bus. Package lease defines its
// terms: at most one process holds the lease, as judged by every local clock. A leader gives up before another process
// may take over, even if the server loses the bucket.
package leadership
