// Package words puts what the operator found into words for a person at a terminal.
//
// Whatever comes from a host, a model or a file goes through [Visible] or [Lines] on its way: nothing that is shown can
// move a cursor, change a colour or hide a part of itself.
package words
