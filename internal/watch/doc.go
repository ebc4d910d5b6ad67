// Package watch is the terminal view of all tasks of a home that keeps itself current.
//
// It only looks. What it shows comes from package operator, which changes nothing, neither in the home nor on the host,
// and no key of it answers, cancels or releases anything.
//
// What it costs: every two seconds one session.list and a stat of each task's files (18 ms with 1,000 tasks). Only when
// these tell of a change, or the host's event stream does, the files of all tasks are read (half a millisecond a task).
// After such a look the watch rests for nine times as long as the look took of a processor, so that it never takes more
// than a tenth of one however many tasks there are. Histories are read of those tasks only that the host has gone on with
// and no bridge has recorded, of at most fifty. The tail of a task is a copy of that task's files, and a connection of its
// own, while it is open.
package watch
