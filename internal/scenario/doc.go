// Package scenario holds the scenarios of the bridge: what a supervising agent does with it, written once and run
// through the real binary's standard streams.
//
// They run against a scripted host in go test ./..., and against a real one in the lane
//
//	go test -tags live -run Live ./internal/scenario
//
// Every scenario says what the answers have to be, and leaves it to the harness to look, when it is over, at what must
// hold for all of them: the ledgers equal the host's history, no content is in the bridge's folder or in its log, no
// lock is held, nothing but JSON-RPC came out of stdout.
package scenario
