package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

const (
	stormBridges = 8
	stormTasks   = 4
	// stormKills is how many processes are killed in an ordinary run; DSH_STORM_KILLS sets another number.
	stormKills = 48
)

// TestKillStorm kills bridge processes at random moments, on one home, while they do all that bridges do, and the host
// drops their connections. Afterwards every ledger equals the host's history, no cursor has changed its meaning, and no
// prompt has arrived twice.
func TestKillStorm(t *testing.T) {
	kills := stormKills
	if set := os.Getenv("DSH_STORM_KILLS"); set != "" {
		n, err := strconv.Atoi(set)
		if err != nil || n < 1 {
			t.Fatalf("DSH_STORM_KILLS=%q is no number of kills", set)
		}
		kills = n
	}
	h := &scriptedHost{dshtest.New(dshtest.Options{StatsFrames: true})}
	t.Cleanup(h.Close)
	h.Start(t)
	play(t, h, scenario{name: "kill storm", run: func(e *env) { newStorm(e).rage(kills) }})
}

// storm is what its many processes share.
type storm struct {
	e     *env
	tasks []task

	mu sync.Mutex
	// meaning is what each cursor was seen to stand for, by task and cursor.
	meaning map[string]string
	prompts []prompt
}

// prompt is a message that some process was told to send, maybe in its last moment.
type prompt struct {
	task task
	text string
	id   string // its requestId
}

func newStorm(e *env) *storm {
	s := &storm{e: e, meaning: map[string]string{}}
	b := e.bridge()
	for range stormTasks {
		s.tasks = append(s.tasks, e.delegate(b, e.prompt(e.bash("echo "+e.canary), e.say("ready")), nil))
	}
	b.stop()
	return s
}

func (s *storm) rage(kills int) {
	ctx, calm := context.WithCancel(s.e.t.Context())
	defer calm()
	var wind sync.WaitGroup
	wind.Go(func() { s.drop(ctx) })
	var wg sync.WaitGroup
	for slot := range stormBridges {
		share := kills / stormBridges
		if slot < kills%stormBridges {
			share++
		}
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(uint64(slot), 1))
			for i := range share {
				if err := s.live(dice, fmt.Sprintf("%d-%d", slot, i)); err != nil {
					s.e.t.Errorf("process %d-%d: %v", slot, i, err)
				}
			}
		})
	}
	wg.Wait()
	calm()
	wind.Wait()
	s.settle()
}

// drop lets the host lose its connections now and then.
func (s *storm) drop(ctx context.Context) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.e.scripted().DropConnections()
		case <-ctx.Done():
			return
		}
	}
}

// live is the life of one process: it is given work, and killed in the midst of it.
func (s *storm) live(dice *rand.Rand, name string) error {
	cmd := exec.Command(binary)
	cmd.Env = []string{"DSH_HOST_URL=" + s.e.host.URL(), "DSH_BRIDGE_HOME=" + s.e.home, "DSH_LOG=off", "HOME=" + s.e.temp, "TMPDIR=" + s.e.temp}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.e.t.Context(), limit)
	defer cancel()
	c := client.NewClient(transport.NewIO(out, in, nopCloser{}), client.WithProtocolVersion(mcp.LATEST_LEGACY_PROTOCOL_VERSION))
	var calls sync.WaitGroup
	if c.Start(ctx) == nil {
		if _, err := c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{ClientInfo: mcp.Implementation{Name: "storm", Version: "1"}}}); err == nil {
			for n := range 3 + dice.IntN(4) {
				t := s.tasks[dice.IntN(len(s.tasks))]
				tool, arguments := s.work(dice, t, fmt.Sprintf("%s-%d", name, n))
				calls.Go(func() { s.heard(t, call(ctx, c, tool, arguments)) })
			}
		}
	}
	// The storm is about what dies at any moment, so the moment is left to chance.
	moment := time.NewTimer(time.Duration(dice.IntN(150)) * time.Millisecond)
	<-moment.C
	_ = cmd.Process.Kill()
	cancel()
	calls.Wait()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // it was killed
	return nil
}

// work chooses a call.
func (s *storm) work(dice *rand.Rand, t task, id string) (tool string, arguments args) {
	switch dice.IntN(6) {
	case 0:
		return "dsh_status", args{"taskId": t.id}
	case 1:
		return "dsh_wait", args{"taskId": t.id, "timeoutSec": 1}
	case 2:
		return "dsh_list", args{"state": "all"}
	case 3:
		return "dsh_tail", args{"taskId": t.id, "maxEvents": 500, "maxBytes": 1_000_000}
	case 4:
		return "dsh_cancel", args{"taskId": t.id}
	}
	steps := make([]labmodel.Step, 0, 4)
	for range 3 {
		steps = append(steps, s.e.bash("echo "+s.e.canary))
	}
	p := prompt{task: t, id: "storm-" + id, text: labmodel.Script{Steps: append(steps, s.e.say("done"))}.Prompt(s.e.canary + " storm-" + id)}
	s.mu.Lock()
	s.prompts = append(s.prompts, p)
	s.mu.Unlock()
	return "dsh_followup", args{"taskId": t.id, "prompt": p.text, "requestId": p.id}
}

// call calls a tool of a process that may die before it answers.
func call(ctx context.Context, c *client.Client, tool string, arguments args) string {
	got, err := c.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: arguments}})
	if err != nil || len(got.Content) != 1 {
		return ""
	}
	block, _ := got.Content[0].(mcp.TextContent)
	return block.Text
}

// heard holds what a tail says of its cursors against what was said before.
func (s *storm) heard(t task, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ev := range gjson.Get(text, "events").Array() {
		key := t.id + " " + ev.Get("cursor").Raw
		means := strings.Join([]string{ev.Get("type").String(), ev.Get("sessionId").String(), ev.Get("seq").Raw}, " ")
		if before, known := s.meaning[key]; known && before != means {
			s.e.t.Errorf("cursor %s meant %q and means %q", key, before, means)
		}
		s.meaning[key] = means
	}
}

// settle looks, after the storm, at what it has left.
func (s *storm) settle() {
	b := s.e.bridge()
	for _, t := range s.tasks {
		s.e.until(b, t, "quiet", func(a answer) bool { return a.str("recovery") == "live" })
	}
	// The same calls again: none of them sends what has arrived.
	sent := 0
	for _, p := range s.prompts {
		a := b.try("dsh_followup", args{"taskId": p.task.id, "prompt": p.text, "requestId": p.id})
		switch {
		case !a.isError:
			sent++
		case a.get("error.details.outcome").String() != "unknown":
			s.e.t.Errorf("the repeated prompt %s failed: %s", p.id, a.text)
		}
	}
	for _, t := range s.tasks {
		s.e.until(b, t, "done", func(a answer) bool {
			e := a.str("execution")
			return e != "running" && e != "starting"
		})
		s.heard(t, b.call("dsh_tail", args{"taskId": t.id, "maxEvents": 500, "maxBytes": 1_000_000}).text)
	}
	for _, p := range s.prompts {
		if n := s.arrivals(p); n > 1 {
			s.e.t.Errorf("the prompt %s arrived %d times", p.id, n)
		}
	}
	s.e.t.Logf("%d prompts were sent or found sent, %d cursors were seen", sent, len(s.meaning))
}

// arrivals counts how often the host got a prompt: as a message, or in the inbox.
func (s *storm) arrivals(p prompt) int {
	messages := map[string]bool{}
	for _, ev := range s.e.scripted().Events(p.task.session) {
		var body struct {
			ID       string
			Content  json.RawMessage
			Inserted []struct {
				ID      string
				Content json.RawMessage
			}
		}
		if json.Unmarshal(ev.Data, &body) != nil {
			continue
		}
		// The marker is the whole word, for ids are prefixes of others.
		mark := " " + p.id + " "
		if ev.Type == "user/message" && strings.Contains(string(body.Content), mark) {
			messages[body.ID] = true
		}
		for _, item := range body.Inserted {
			if strings.Contains(string(item.Content), mark) {
				messages[item.ID] = true
			}
		}
	}
	return len(messages)
}
