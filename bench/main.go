// Bench measures the bridge beside its floors, in one run, and prints the table of docs/performance.md for the machine
// it runs on.
//
//	go run ./bench                     everything, in under five minutes on two cores
//	go run ./bench -run 'start|append' a part
//	go run ./bench -markdown FILE      the table as Markdown, too
//	go run ./bench -real               on a real DSH host, too, which needs npm and a minute more
//
// The bridge is the real binary in processes of its own, driven over stdio; the host is package dshtest in this process.
// A time is never judged alone: what it is compared with is measured in the same run, in turns with it. Nothing here is
// a test, and what is above its bar ends the program with status 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

// limit bounds a run, should something hang: twice what it may take.
const limit = 10 * time.Minute

// sections are the parts of the table, in its order.
var sections = []section{
	{"start", start},
	{"connect", connect},
	{"rebuild", rebuild},
	{"append", appending},
	{"processes", processes},
	{"latency", latency},
	{"turn", turn},
	{"foreign", foreign},
	{"reads", reads},
	{"memory", memory},
	{"answers", answers},
	{"real", onRealHost},
	{"idle", idle}, // last: it rests beside all the others
}

type section struct {
	name string
	run  func(*bench) error
}

// errAboveBar says that a figure is not where it must be.
var errAboveBar = errors.New("a figure is above its bar")

func main() {
	if work := os.Getenv(workerVariable); work != "" {
		exit(appendWorker(work))
	}
	if session := os.Getenv(readerVariable); session != "" {
		exit(readWorker(session))
	}
	pattern := flag.String("run", "", "run only the sections that match this `regexp`: start, connect, rebuild, append, processes, latency, turn, foreign, reads, memory, answers, real, idle")
	markdown := flag.String("markdown", "", "write the table to this `file` as Markdown, too")
	live := flag.Bool("real", false, "measure on a real DSH host, too, which npm installs where it is not yet")
	binary := flag.String("bridge", "", "measure this `binary` instead of one built from the source")
	flag.Parse()
	wanted, err := regexp.Compile(*pattern)
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "bench: -run takes a regular expression, and there are no other arguments")
		os.Exit(2)
	}
	exit(run(wanted, *live, *markdown, *binary))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(wanted *regexp.Regexp, live bool, markdown, bridge string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, err := prepare(ctx, bridge)
	if err != nil {
		return err
	}
	defer b.clean()
	began := time.Now()
	if wanted.MatchString("idle") {
		if err := b.rest(); err != nil {
			return fmt.Errorf("idle: %w", err)
		}
	}
	var failed error
	for _, s := range sections {
		if !wanted.MatchString(s.name) || (s.name == "real" && !live) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%-10s", s.name)
		at := time.Now()
		if err := s.run(b); err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.name, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		fmt.Fprintln(os.Stderr, time.Since(at).Round(100*time.Millisecond))
	}
	fmt.Fprintln(os.Stderr)
	b.table.text(os.Stdout)
	fmt.Printf("\n%d cores, %s, %s/%s, took %v\n", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		time.Since(began).Round(time.Second))
	if markdown != "" {
		if err := os.WriteFile(markdown, b.table.markdown(), 0o644); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	if failed == nil && b.table.failed() {
		failed = errAboveBar
	}
	return failed
}
