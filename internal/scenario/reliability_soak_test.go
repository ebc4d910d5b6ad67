//go:build reliability

package scenario

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"dsh-agentlink/internal/dshtest"
)

// soakSeconds is how long an ordinary soak takes; DSH_SOAK_SECONDS sets another time.
const soakSeconds = 3

// soakTurns is how many turns a task of a soak has before another takes its place, so that its ledger stays whole.
const soakTurns = 150

// soakFactor is how much more memory a bridge may have at the end of a soak than after its first tenth.
const soakFactor = 1.5

// TestSoak lets one bridge work for a while: turns, follow-ups, dropped connections. Its memory does not grow.
func TestSoak(t *testing.T) {
	seconds := soakSeconds
	if set := os.Getenv("DSH_SOAK_SECONDS"); set != "" {
		n, err := strconv.Atoi(set)
		if err != nil || n < 1 {
			t.Fatalf("DSH_SOAK_SECONDS=%q is no number of seconds", set)
		}
		seconds = n
	}
	t.Parallel()
	h := &scriptedHost{dshtest.New(dshtest.Options{HeaderBytes: 40_000, StatsFrames: true})}
	t.Cleanup(h.Close)
	h.Start(t)
	play(t, h, scenario{name: "soak", run: func(e *env) { soak(e, time.Duration(seconds)*time.Second) }})
}

// terminal waits for the end of the work behind a cursor, however often the connection is lost meanwhile.
func (b *bridge) terminal(t task, since int64) answer {
	b.t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if a := b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": since, "until": "attention", "timeoutSec": 30}); a.str("reason") == "terminal" {
			return a
		}
	}
	b.t.Fatalf("the task did not end in %v: %s", limit, b.call("dsh_status", args{"taskId": t.id}).text)
	return answer{}
}

func soak(e *env, length time.Duration) {
	b := e.bridge()
	tasks := []task{e.finished(b, "first"), e.finished(b, "second"), e.finished(b, "third")}
	turns := make([]int, len(tasks))
	var early, late []int64 // how much is in memory now and then, in the second tenth and in the last one
	begun, rounds := time.Now(), 0
	for ; time.Since(begun) < length; rounds++ {
		i := rounds % len(tasks)
		if turns[i]++; turns[i] > soakTurns {
			b.call("dsh_release_workspace", args{"taskId": tasks[i].id})
			tasks[i], turns[i] = e.finished(b, "in its place"), 0
		}
		t, said := tasks[i], "turn "+strconv.Itoa(turns[i])
		var cursor int64
		if rounds%4 == 0 {
			b.followup(t, "queue", e.endlessly())
			e.running(b, t)
			cursor = b.followup(t, "steer", e.prompt(e.say(said)))
		} else {
			cursor = b.followup(t, "queue", e.prompt(e.bash("echo "+e.canary), e.say(said)))
		}
		if rounds%5 == 0 {
			e.scripted().DropConnections()
		}
		b.terminal(t, cursor)
		e.until(b, t, "done", func(a answer) bool { return a.get("finalMessage.text").String() == e.text(said) })
		b.call("dsh_tail", args{"taskId": t.id, "sinceCursor": cursor})
		b.call("dsh_list", args{"state": "all"})
		part, now := time.Since(begun), b.resident()
		if part > length/10 && (part <= length/5 || len(early) == 0) {
			early = append(early, now)
		}
		if part > length*9/10 {
			late = append(late, now)
		}
	}
	before, after := median(early), median(late)
	e.t.Logf("%d turns; %d MB behind the first tenth, %d MB at the end", rounds, before>>20, after>>20)
	if !raceEnabled && float64(after) > soakFactor*float64(before) {
		e.t.Errorf("%d MB are in memory at the end, behind the first tenth it were %d MB", after>>20, before>>20)
	}
}

// median is the one in the middle; 0 for none. Single peaks come with the garbage collector.
func median(all []int64) int64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
