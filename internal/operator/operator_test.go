package operator

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/ledger"
)

func TestResolve(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"dsh_aa0000000000", "dsh_aa1000000000", "dsh_bb0000000000"} {
		if err := r.home.WriteFile(r.home.TaskFile(id), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	for word, want := range map[string]string{
		"dsh_aa0000000000": "dsh_aa0000000000", "dsh_b": "dsh_bb0000000000", "bb": "dsh_bb0000000000", "aa1": "dsh_aa1000000000",
		"aa": "", "dsh_": "", "": "", "cc": "", "../x": "", "registry": "",
	} {
		got, err := r.Resolve(word)
		if got != want {
			t.Errorf("%q is %q, %v", word, got, err)
		}
		if wrong, ok := errors.AsType[*TaskError](err); (want == "") != ok || ok && wrong.Word != word {
			t.Errorf("%q: %v", word, err)
		}
	}
	if _, err := r.Resolve("aa"); !strings.Contains(err.Error(), "dsh_aa0000000000, dsh_aa1000000000") {
		t.Errorf("the message does not name what it could be: %v", err)
	}
}

// Every look at a home in which something of each kind is there leaves it as it is, host or no host.
func TestNothingChanges(t *testing.T) {
	r := newRig(t)
	done := r.task(20, labmodel.Step{Say: "done"})
	asks := r.task(20, labmodel.Step{Tool: "ask_user_question", Args: json.RawMessage(`{"questions":[{"id":"q","question":"?"}]}`)})
	look := func() {
		ctx := bounded(t)
		if _, err := r.Tasks(ctx, 0); err != nil {
			t.Error(err)
		}
		if _, err := r.Claims(ctx); err != nil {
			t.Error(err)
		}
		if _, err := r.Ledgers(); err != nil {
			t.Error(err)
		}
		if _, err := r.Locks(ctx, true); err != nil {
			t.Error(err)
		}
		for _, m := range []made{done, asks} {
			if _, err := r.Show(ctx, m.TaskID); err != nil {
				t.Error(err)
			}
			feed, err := r.Feed(ctx, m.TaskID, nil, 10)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := feed.More(ctx, 0); err != nil {
				t.Error(err)
			}
			if err := feed.Close(); err != nil {
				t.Error(err)
			}
		}
		env := map[string]string{"DSH_BRIDGE_HOME": r.home.Dir(), "DSH_HOST_URL": r.opts.HostURL}
		if report := Doctor(ctx, DoctorOptions{Getenv: func(name string) string { return env[name] }}); len(report.Findings) == 0 {
			t.Error("the doctor found nothing to say")
		}
	}
	r.unchanged(look)
	r.host.Kill()
	r.unchanged(look)
}

// What the host did while no bridge ran is told all the same, and marked.
func TestTasksCatchUpWithTheHost(t *testing.T) {
	r := newRig(t)
	m := r.unheard()
	r.unchanged(func() {
		answer, err := r.Tasks(bounded(t), 0)
		if err != nil || len(answer.Tasks) != 1 {
			t.Fatalf("got %+v, %v", answer, err)
		}
		if row := answer.Tasks[0]; row.Status != string(ledger.TurnCompleted) || !row.Behind || row.Execution == ledger.TurnCompleted {
			t.Errorf("got %+v", row)
		}
		sheet, err := r.Show(bounded(t), m.TaskID)
		if err != nil || sheet.Unrecorded == 0 || !strings.Contains(string(sheet.Status), `"turn_completed"`) {
			t.Errorf("got %+v, %v", sheet, err)
		}
	})
}

func TestTasksAreLatestFirst(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.task(20, labmodel.Step{Say: "done"})
	}
	answer, err := r.Tasks(bounded(t), 2)
	if err != nil || len(answer.Tasks) != 2 || answer.More != 1 || answer.Tasks[0].UpdatedAt < answer.Tasks[1].UpdatedAt {
		t.Errorf("got %+v, %v", answer, err)
	}
}

// Whose words a message holds is told right, whether it was recorded before the look, is not recorded at all, or is
// recorded by another bridge meanwhile.
func TestFeedTellsWhoSpoke(t *testing.T) {
	r := newRig(t)
	m := r.task(20, labmodel.Step{Say: "done"})
	feed, err := r.Feed(bounded(t), m.TaskID, new(int64), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	more := func() (turn []string) {
		t.Helper()
		ctx, stop := context.WithCancel(bounded(t))
		defer stop()
		err := feed.Follow(ctx, func(tail Tail) error {
			turn = append(turn, words(tail.Events)...)
			if slices.Contains(turn, "turn/end") {
				stop()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return turn
	}
	turn := func(who string) []string {
		return []string{"turn/start", "user/message " + who, "assistant/message", "turn/end"}
	}
	if diff := cmp.Diff(turn("bridge"), more()); diff != "" {
		t.Error(diff)
	}
	if err := r.dsh.Prompt(bounded(t), dsh.PromptRequest{RPCID: "by-hand", SessionID: m.SessionID, Mode: dsh.ModeQueue, Text: dshtest.Script(labmodel.Step{Say: "hi"})}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(turn("person"), more()); diff != "" {
		t.Error(diff)
	}
	r.tool("dsh_followup", map[string]any{"taskId": m.TaskID, "waitSeconds": 20, "prompt": dshtest.Script(labmodel.Step{Say: "again"})}, &m)
	if diff := cmp.Diff(turn("bridge"), more()); diff != "" {
		t.Error(diff)
	}
}

// Cursors are the home's or none.
func TestFeedGivesNoCursorOfItsOwn(t *testing.T) {
	r := newRig(t)
	m := r.unheard()
	recorded := r.inspect(m.TaskID).Last
	feed, err := r.Feed(bounded(t), m.TaskID, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	tail, err := feed.More(bounded(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	if last := tail.Events[len(tail.Events)-1]; last.Type != "turn/end" || last.Cursor != 0 || tail.NextCursor != recorded {
		t.Errorf("the last event is %+v, next is %d of %d", last, tail.NextCursor, recorded)
	}
}

// A ledger that was compacted has a checkpoint, which the copy needs.
func TestFeedOfACompactedLedger(t *testing.T) {
	r := newRig(t)
	var steps []labmodel.Step
	for range 40 {
		steps = append(steps, labmodel.Step{Tool: "bash", Args: json.RawMessage(`{"command":"true","description":"Nothing"}`)})
	}
	m := r.task(30, steps...)
	l := r.inspect(m.TaskID)
	if l.Checkpoint == 0 || l.First <= 1 {
		t.Fatalf("the ledger was not compacted: %+v", l)
	}
	feed, err := r.Feed(bounded(t), m.TaskID, nil, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	tail, err := feed.More(bounded(t), 0)
	if err != nil || len(tail.Events) != 3 || tail.Events[2].Type != "turn/end" {
		t.Errorf("got %+v, %v", tail, err)
	}
}

func TestQuoteIsWhatAShellReads(t *testing.T) {
	for _, path := range []string{"/plain/path-1.json", "/with space", "/it's", `/a"b$c\d`, "/semi;colon", "/größe", "/new\nline"} {
		out, err := exec.Command("sh", "-c", "printf %s "+quote(path)).Output()
		if err != nil || string(out) != path {
			t.Errorf("%q was read as %q, %v", path, out, err)
		}
	}
}

func TestSharedFileSystems(t *testing.T) {
	for kind, want := range map[string]bool{
		"nfs": true, "nfs4": true, "CIFS": true, "smb2": true, "smbfs": true, "9p": true, "v9fs": true, "fuseblk": true, "fuse.sshfs": true,
		"ext2/ext3": false, "xfs": false, "btrfs": false, "tmpfs": false, "apfs": false, "overlayfs": false, "zfs": false, "": false,
	} {
		if got := shared(kind); got != want {
			t.Errorf("%s: %t", kind, got)
		}
	}
}

func TestProcessOf(t *testing.T) {
	if p := processOf(t.Context(), os.Getpid()); p.State != ProcessRuns || p.Name == "" || p.Since == "" {
		t.Errorf("this process is %+v", p)
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	for _, pid := range []int{cmd.Process.Pid, 0, -1, 1 << 40} {
		if p := processOf(t.Context(), pid); p.State != ProcessGone || p.PID != pid {
			t.Errorf("process %d is %+v", pid, p)
		}
	}
}

// The copy of a task that a look works on holds nothing of the conversation, like the home.
func TestTheCopyHoldsNoContent(t *testing.T) {
	const canary = "CANARY"
	r := newRig(t)
	m := r.task(0, labmodel.Step{Tool: "bash", Args: json.RawMessage(`{"command":"echo CANARY","description":"CANARY"}`)},
		labmodel.Step{Tool: "ask_user_question", Args: json.RawMessage(`{"questions":[{"id":"q","question":"CANARY?","options":[{"label":"CANARY"}]}]}`)})
	if _, err := r.host.WaitPending(bounded(t), 1); err != nil {
		t.Fatal(err)
	}
	feed, err := r.Feed(bounded(t), m.TaskID, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	tail, err := feed.More(bounded(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := json.Marshal(tail); err != nil || !strings.Contains(string(shown), canary) {
		t.Fatalf("the tail does not have it: %s, %v", shown, err)
	}
	files := 0
	err = filepath.WalkDir(os.Getenv("TMPDIR"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), canary) {
			t.Errorf("%s holds it", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}

// A feed goes on through the loss of the host, and a follower is told of both.
func TestFollowOutlivesTheHost(t *testing.T) {
	r := newRig(t)
	m := r.task(20, labmodel.Step{Say: "done"})
	feed, err := r.Feed(bounded(t), m.TaskID, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	ctx, stop := context.WithCancel(bounded(t))
	defer stop()
	var seen []string
	err = feed.Follow(ctx, func(tail Tail) error {
		if len(seen) > 0 && seen[len(seen)-1] == tail.Availability {
			return nil
		}
		seen = append(seen, tail.Availability)
		switch len(seen) {
		case 1:
			r.host.Kill()
		case 2:
			return r.host.Start()
		case 3:
			stop()
		}
		return nil
	})
	if diff := cmp.Diff([]string{"connected", "host_unreachable", "connected"}, seen); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
