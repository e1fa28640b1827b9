// Package serve has what a director answers with, whoever leads: the operator's socket, the HTTP server at
// director.http_listen, and the streams of its journal and of its attempts' output.
//
// A Socket outlives sessions. It answers for the session that serves it, and says why there is none otherwise.
package serve
