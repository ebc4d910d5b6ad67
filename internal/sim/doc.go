// Package sim runs whole homes in one process, under a fake clock and from a seed: a scripted host in memory, several
// bridges (a mux and ledgers each) on one disk in memory, callers that use them, and a schedule of faults. When the
// schedule is over and everything is quiet, a model says what every ledger has to hold: a plain fold of the host's
// history.
//
// Everything of a world is meant to be run in one bubble of testing/synctest. Nothing in it reaches the network, a real
// disk or the real clock. What a seed decides is drawn by whoever needs it from a source of his own, so that the order
// in which goroutines happen to run changes as little as possible of it; a run is not repeated bit by bit all the same,
// for the product draws the jitter of its pauses by itself.
package sim
