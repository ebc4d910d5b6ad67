package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// What a person sets, and what this test sets for its own child processes.
const (
	envSeed  = "DSH_SIM_SEED"  // runs one seed alone
	envSeeds = "DSH_SIM_SEEDS" // how many seeds are run; few in a plain go test
	envFrom  = "DSH_SIM_FROM"  // the first of them
	envTrace = "DSH_SIM_TRACE" // a folder, for what happened in the worlds of seeds that fail
	envChild = "DSH_SIM_CHILD"
)

// number reads a number of the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestSeeds runs every seed in a bubble of its own, and judges what came of it. What a seed decides is the same in every
// run, and so is nearly everything else: the seeds run one after the other in child processes that have one thread for
// Go code and a fixed source for the jitter of the product's pauses. What is left to chance are the order in which maps
// are walked through and the choice among several cases of a select; a failure that does not come back at once comes back
// with -count.
func TestSeeds(t *testing.T) {
	from, count := number(t, envFrom, 1), number(t, envSeeds, fewSeeds)
	if seed := number(t, envSeed, 0); seed > 0 {
		from, count = seed, 1
	}
	if os.Getenv(envChild) != "" {
		runSeeds(t, from, from+count)
		return
	}
	table := Table{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	shards := min(uint64(runtime.NumCPU()), count)
	for i := range shards {
		first, last := from+count*i/shards, from+count*(i+1)/shards
		wait.Go(func() {
			counts, output, err := runChild(t, first, last-first)
			mu.Lock()
			defer mu.Unlock()
			table.Add(counts)
			if err != nil {
				t.Errorf("seeds from %d to %d: %v\n%s", first, last-1, err, output)
			}
		})
	}
	wait.Wait()
	for _, kind := range table.Kinds() {
		t.Logf("%8d  %s", table[kind], kind)
	}
}

// tableMark begins the line in which a child process tells what it has counted.
const tableMark = "counted: "

// runChild runs seeds in a process of their own. It returns what was counted, and what the process said of failures.
func runChild(t *testing.T, first, count uint64) (counts Table, output string, err error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSeeds$")
	cmd.Env = append(os.Environ(), envChild+"=1", envSeed+"=", envFrom+"="+strconv.FormatUint(first, 10), envSeeds+"="+strconv.FormatUint(count, 10),
		"GOMAXPROCS=1", "GODEBUG=randseednop=0,asyncpreemptoff=1")
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	err = cmd.Run()
	var said []string
	for line := range strings.Lines(all.String()) {
		if text, ok := strings.CutPrefix(line, tableMark); ok && json.Unmarshal([]byte(text), &counts) == nil {
			continue
		}
		said = append(said, line)
	}
	return counts, strings.Join(said, ""), err
}

// runSeeds runs seeds in this process.
func runSeeds(t *testing.T, from, to uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // worlds are small and many
	table := Table{}
	for seed := from; seed < to; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			rand.Seed(int64(seed)) //lint:ignore SA1019 the product's jitter comes from there, and a seed has to be repeatable
			var report Report
			var trace bytes.Buffer
			var opts Options
			if os.Getenv(envTrace) != "" {
				opts.Trace = &trace
			}
			synctest.Test(t, func(*testing.T) { report = Run(seed, opts) })
			for _, failure := range report.Failures {
				t.Error(failure)
			}
			if t.Failed() {
				keepTrace(t, seed, trace.Bytes())
				t.Logf("to repeat it: %s=%d go test ./internal/sim -run TestSeeds -count=1 -v", envSeed, seed)
			}
			table.Add(report.Counts)
			table.Add(map[string]int{"- events": report.Events, "- records": report.Records, "- cursors given": report.Told, "- seeds": 1})
		})
	}
	line, err := json.Marshal(table)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(tableMark + string(line))
}

// keepTrace writes down what happened in a world that failed.
func keepTrace(t *testing.T, seed uint64, trace []byte) {
	dir := os.Getenv(envTrace)
	if dir == "" {
		return
	}
	name := filepath.Join(dir, strconv.FormatUint(seed, 10)+".log")
	if err := os.WriteFile(name, trace, 0o600); err != nil {
		t.Error(err)
	}
	t.Logf("what happened is in %s", name)
}
