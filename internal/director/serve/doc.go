// Package serve holds the servers of a director, leader or standby: the operator's socket, the HTTP server at
// director.http_listen, and the streams of the journal and of the attempts' output.
//
// A Socket outlives sessions. It answers for the current session, or gives the reason why no session is running.
package serve
