// Package watch is the terminal view of all tasks of a home that keeps itself current.
//
// It only looks. What it shows comes from package operator, which changes nothing, neither in the home nor on the host,
// and no key of it answers, cancels or releases anything.
//
// What it costs: every two seconds one session.list and one stat of each task's files, and only when these tell of a
// change, or the host's event stream does, the files of all tasks are read (about half a millisecond a task). After such a
// look it rests for nine times as long as the look took, so that it never takes more than a tenth of one core however
// many tasks there are. Histories are read of those tasks only that the host has gone on with and no bridge has recorded,
// of at most fifty. The tail of a task is a copy of that task's files, and a connection of its own, while it is open.
package watch
