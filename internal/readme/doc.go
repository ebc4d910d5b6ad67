// Package readme holds the tests of what a newcomer reads: README.md, README.zh-CN.md and docs/troubleshooting.md.
// The commands in them are run, what they print is compared with what is said to be printed, and the two languages are
// kept in step.
//
// A fenced block says behind its language what it is:
//
//	```sh run           commands that are run here, in a home of their own
//	```sh parse         commands that need what a test has not; their syntax is checked, and dsh-agentlink's own flags
//	```text output      what the commands above print, with … for lines that are left out
//	```text try NAME    what the case NAME in troubles_test.go leads to
//	```text seen        what a real host said, and the scripted one cannot
package readme
